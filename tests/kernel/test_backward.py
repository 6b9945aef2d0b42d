"""Gradients over the whole legal range, against float64 autograd, and what reaches whom."""

import warnings

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernel.attention import backward, flash_attn_triton
from tests.kernel.expected import assert_gradients_right, attention, error
from tests.kernel.layouts import attention_inputs, make
from tests.kernel.test_attention import WIDE, draw


def gradients_right(inputs, device, backend=None):
    *inputs_, do = make(inputs, device)
    q, k, v = (x.detach().requires_grad_() for x in inputs_)
    o = flash_attn_triton(q, k, v, inputs["causal"], inputs["scale"], backend=backend)
    got = torch.autograd.grad(o, (q, k, v), do)
    assert [x.shape for x in got] == [x.shape for x in (q, k, v)]
    assert_gradients_right(got, do, q, k, v, inputs["causal"], inputs["scale"], few=True)


@given(attention_inputs(max_seqlen=60))
@example(WIDE)
@settings(max_examples=30, deadline=None)
def test_gradients_of_any_legal_input(inputs):
    gradients_right(inputs, "cpu")


@pytest.mark.gpu
@given(attention_inputs(max_seqlen=500, head_dims=st.sampled_from([40, 64, 128])), st.sampled_from(["triton", None]))
@example(WIDE, "triton")
@settings(max_examples=8, deadline=None)
def test_gradients_of_any_legal_input_compiled(inputs, backend):
    gradients_right(inputs, "cuda", backend)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_at_the_usual_sizes(causal, head_dim, dtype, device):
    q, k, v, do = (draw(1, 2, 256, head_dim, dtype=dtype, device=device, seed=seed) for seed in range(4))
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    scale = head_dim**-0.5
    got = torch.autograd.grad(flash_attn_triton(q, k, v, causal, None), (q, k, v), do)
    assert_gradients_right(got, do, q, k, v, causal, scale)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("std", "scale"), [(1.0, 1.0), (3.0, 0.5), (3.0, 1.0), (3.0, -2.0)])
def test_gradients_where_few_keys_share_a_row(std, scale, dtype, device):
    """dp - delta then cancels, but for what rounding cut off o: from the rounded o alone they are 2 to 25 times off."""
    q, k = (draw(1, 1, n, 64, dtype=dtype, device=device, std=std, seed=n) for n in (60, 2))
    v, do = (draw(1, 1, n, 64, dtype=dtype, device=device, seed=n + 1) for n in (2, 60))
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    got = torch.autograd.grad(flash_attn_triton(q, k, v, False, scale), (q, k, v), do)
    assert_gradients_right(got, do, q, k, v, False, scale)


@pytest.mark.parametrize("which", ["o", "lse", "both"])
def test_either_output_may_be_differentiated(which, device):
    """The last rows see nothing of the first keys: rows without a key have gradient 0."""
    q = draw(1, 4, 40, 24, dtype=torch.float32, device=device)
    k, v = (draw(1, 2, 30, 24, dtype=torch.float32, device=device, seed=seed) for seed in (1, 2))
    weight_o, weight_lse = draw(1, 4, 40, 24, device=device, seed=3), draw(4, 40, device=device, seed=4)

    def gradients(function, dtype):
        inputs = [x.detach().to(dtype).requires_grad_() for x in (q, k, v)]
        o, lse = function(*inputs)
        lse = lse[:, 10:]  # the first ten rows see no key
        loss = 0
        if which != "lse":
            loss = loss + (o * weight_o.to(dtype)).sum()
        if which != "o":
            loss = loss + (lse * weight_lse[:, 10:].to(dtype)).sum()
        return torch.autograd.grad(loss, inputs, allow_unused=True)

    got = gradients(lambda q, k, v: flash_attn_triton(q, k, v, True, 0.3, return_lse=True), torch.float32)
    want = gradients(lambda q, k, v: attention(q, k, v, True, 0.3), torch.float64)
    for x, y in zip(got, want, strict=True):
        assert error(x, torch.zeros_like(x) if y is None else y) <= 2e-5
    assert (got[0][:, :, :10] == 0).all()


@pytest.mark.parametrize("fast_mode", [True, False])
def test_gradcheck(fast_mode, device):
    shape = (1, 2, 5, 3) if fast_mode else (1, 1, 3, 2)
    inputs = [draw(*shape, dtype=torch.float32, device=device, seed=seed).requires_grad_() for seed in range(3)]

    def function(q, k, v):
        o, lse = flash_attn_triton(q, k, v, True, 0.5, return_lse=True)
        return o, lse

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Input #", UserWarning)  # it would like float64
        assert torch.autograd.gradcheck(function, inputs, eps=1e-2, atol=5e-3, rtol=5e-3, fast_mode=fast_mode)


def test_two_runs_give_the_same_bits(device):
    q, k, v, do = (draw(1, 2, 200, 64, device=device, seed=seed) for seed in range(4))
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    o = flash_attn_triton(q, k, v, True, None)
    first = torch.autograd.grad(o, (q, k, v), do, retain_graph=True)
    again = torch.autograd.grad(o, (q, k, v), do)
    assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_is_not_finite_reaches_only_those_that_it_concerns(value, dtype, device):
    """Causal, 100 rows and keys: keys from 60 on are unseen by rows 0 ... 59, and rows up to 59 do not see them."""
    bound = 0.0 if device == "cpu" else 8 * torch.finfo(dtype).eps
    q, k, v, do = (draw(1, 1, 100, 24, dtype=dtype, device=device, seed=seed) for seed in range(4))
    o, lse = flash_attn_triton(q, k, v, True, 0.3, return_lse=True)
    want = backward(do, None, q, k, v, o, lse, True, 0.3, False)

    def spoilt(x):
        x = x.clone()
        x[0, 0, 60, 5] = value
        return x

    dq, _, _ = backward(do, None, q, spoilt(k), v, o, lse, True, 0.3, False)
    assert error(dq[0, 0, :60], want[0][0, 0, :60]) <= bound * want[0].abs().max()
    dq, _, _ = backward(do, None, q, k, spoilt(v), o, lse, True, 0.3, False)
    assert error(dq[0, 0, :60], want[0][0, 0, :60]) <= bound * want[0].abs().max()
    assert not dq[0, 0, 60:].isfinite().all()
    _, dk, dv = backward(spoilt(do), None, q, k, v, o, lse, True, 0.3, False)
    assert error(dk[0, 0, 61:], want[1][0, 0, 61:]) <= bound * want[1].abs().max()
    assert error(dv[0, 0, 61:], want[2][0, 0, 61:]) <= bound * want[2].abs().max()
    assert not dv[0, 0, :61].isfinite().all()
    _, dk, dv = backward(do, None, spoilt(q), k, v, o, lse, True, 0.3, False)
    assert error(dk[0, 0, 61:], want[1][0, 0, 61:]) <= bound * want[1].abs().max()
    assert error(dv[0, 0, 61:], want[2][0, 0, 61:]) <= bound * want[2].abs().max()


def test_gradients_where_only_one_is_asked_for(device):
    for asked in range(3):
        inputs = [draw(1, 1, 20, 16, device=device, seed=seed) for seed in range(3)]
        inputs[asked].requires_grad_()
        flash_attn_triton(*inputs).sum().backward()
        assert [x.grad is not None for x in inputs] == [i == asked for i in range(3)]
        assert inputs[asked].grad.isfinite().all()


@pytest.mark.parametrize("output", [0, 1])
def test_a_second_derivative_is_refused(output, device):
    q = draw(1, 1, 20, 16, device=device).requires_grad_()
    outputs = flash_attn_triton(q, q, q, return_lse=True)
    once = torch.autograd.grad(outputs[output].sum(), q, retain_graph=True)
    (dq,) = torch.autograd.grad(outputs[output].sum(), q, create_graph=True)
    assert torch.equal(dq, once[0])
    with pytest.raises(RuntimeError, match=r"^flash_attn_triton has no second derivative; .*\.$"):
        (dq.sum() + q.sum()).backward()
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.functional.hessian(lambda q: flash_attn_triton(q, q, q).sum(), q)


def test_transforms_without_a_rule_are_refused():
    q, k, v = (draw(1, 1, 20, 16, dtype=torch.float32, seed=seed) for seed in range(3))
    with pytest.raises(RuntimeError, match=r"torch\.func"):
        torch.func.grad(lambda q: flash_attn_triton(q, k, v).sum())(q)
    with pytest.raises(RuntimeError, match=r"torch\.func"):
        torch.vmap(lambda q: flash_attn_triton(q, k, v))(q[None])
    with warnings.catch_warnings(), torch.autograd.forward_ad.dual_level():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, about its own
        dual = torch.autograd.forward_ad.make_dual(q, torch.ones_like(q))
        with pytest.raises(RuntimeError, match="forward-mode"):
            flash_attn_triton(dual, k, v)
        assert torch.equal(flash_attn_triton(q, k, v), flash_attn_triton(q, k, v))
