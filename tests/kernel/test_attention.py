"""flash_attn_triton over its whole legal range, and what it promises to torch."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernel.attention import _plans, attention, flash_attn_triton
from tests.kernel.expected import assert_right, error, exact
from tests.kernel.layouts import attention_inputs, make

PLAIN = {"order": [0, 1, 2, 3], "steps": (1,) * 4, "gaps": (0,) * 4, "offset": 0, "expand": ()}
WIDE = {
    "batch": 1,
    "heads": 3,
    "kv_heads": 1,
    "seqlen_q": 33,
    "seqlen_k": 70,
    "head_dim": 256,
    "dtype": torch.float16,
    "causal": True,
    "scale": -0.1,
    "std": 1.0,
    "seed": 1,
    "layouts": [PLAIN] * 4,
}


def draw(*shape, dtype=torch.float16, device="cpu", std=1.0, seed=0):
    generator = torch.Generator(device).manual_seed(seed)
    return torch.empty(shape, dtype=dtype, device=device).normal_(0.0, std, generator=generator)


def right(inputs, device, backend=None):
    q, k, v, _ = make(inputs, device)
    before = [x.clone() for x in (q, k, v)]
    o, lse = flash_attn_triton(q, k, v, inputs["causal"], inputs["scale"], return_lse=True, backend=backend)
    assert_right(o, lse, q, k, v, inputs["causal"], inputs["scale"], few=True)
    assert all(torch.equal(x, y) for x, y in zip(before, (q, k, v), strict=True))
    assert o.is_contiguous()


@given(attention_inputs())
@example(WIDE)
@settings(max_examples=40, deadline=None)
def test_any_legal_input(inputs):
    right(inputs, "cpu")


@pytest.mark.gpu
@given(attention_inputs(max_seqlen=700, head_dims=st.sampled_from([40, 64, 128])), st.sampled_from(["triton", None]))
@example(WIDE, "triton")
@example(WIDE, None)
@settings(max_examples=12, deadline=None)
def test_any_legal_input_compiled(inputs, backend):
    right(inputs, "cuda", backend)


@given(attention_inputs(max_seqlen=50), st.data())
@settings(max_examples=15, deadline=None)
def test_any_blocks(inputs, data):
    q, k, v, _ = make(inputs, "cpu")
    blocks = [data.draw(st.sampled_from([16, 32, 64, 128, 256])) for _ in range(2)]
    o, lse = flash_attn_triton(
        q, k, v, inputs["causal"], inputs["scale"], return_lse=True, block_m=blocks[0], block_n=blocks[1]
    )
    assert_right(o, lse, q, k, v, inputs["causal"], inputs["scale"], few=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("which", ["q", "k", "v"])
def test_what_is_not_finite_reaches_only_the_rows_that_see_it(which, dtype, device):
    seqlen, at = 150, 85
    clean = [draw(1, 2, seqlen, 24, dtype=dtype, device=device, seed=seed) for seed in range(3)]
    want, want_lse = flash_attn_triton(*clean, True, 0.3, return_lse=True)
    # compiled, the block is done again with other roundings; interpreted they are the same
    bound = 0.0 if device == "cpu" else 4 * torch.finfo(dtype).eps
    affected = torch.zeros(seqlen, dtype=torch.bool, device=device)
    affected[at : at + 1 if which == "q" else None] = True
    for value in (torch.nan, torch.inf, -torch.inf):
        q, k, v = (x.clone() for x in clean)
        {"q": q, "k": k, "v": v}[which][0, 0, at, 3] = value
        o, lse = flash_attn_triton(q, k, v, True, 0.3, return_lse=True)
        assert error(o[0, 0, ~affected], want[0, 0, ~affected]) <= bound
        assert error(lse[0, ~affected], want_lse[0, ~affected]) <= 1e-5
        assert torch.equal(o[0, 1], want[0, 1])
        if which == "v":
            assert error(lse, want_lse) <= 1e-5
            columns = torch.arange(24, device=device) != 3
            assert error(o[..., columns], want[..., columns]) <= bound
            assert not o[0, 0, affected, 3].isfinite().any()
            if value != value or device == "cpu":
                assert error(o[0, 0, affected, 3], torch.full_like(o[0, 0, affected, 3], value)) == 0
        elif value != value:
            assert o[0, 0, affected].isnan().all()
            assert lse[0, affected].isnan().all()


@pytest.mark.parametrize("size", [1e4, 1e8, 1e15])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_huge_scores(size, sign, device):
    """A fused multiply-add must not turn the rounding of a huge maximum into an exponent."""
    q, k, v = (draw(1, 1, 40, 16, dtype=torch.float32, device=device, seed=seed) for seed in range(3))
    o, _ = flash_attn_triton(q, k, v, True, sign * size, return_lse=True)
    s = ((q @ k.transpose(-1, -2)) * sign).masked_fill(~torch.ones(40, 40, device=device).tril().bool(), -torch.inf)
    top = s.topk(2, dim=-1)
    clear = (top.values[..., 0] - top.values[..., 1]) * size > 200  # the winner takes all
    winner = v[0, 0][top.indices[0, 0, :, 0]]
    assert clear.sum() > 30 or size == 1e4
    assert error(o[0, 0][clear[0, 0]], winner[clear[0, 0]]) <= 1e-6
    assert o.isfinite().all()


def test_a_scale_that_underflows_counts_as_the_mean(device):
    q, k, v = (draw(1, 1, 40, 16, device=device, seed=seed) for seed in range(3))
    o, lse = flash_attn_triton(q, k, v, False, 1e-300, return_lse=True)
    assert error(o, v.double().mean(2, keepdim=True).expand_as(v)) <= 1e-3
    assert error(lse, torch.full_like(lse, 40).log2()) <= 1e-5


def test_two_runs_give_the_same_bits(device):
    q, k, v = (draw(1, 2, 200, 64, device=device, seed=seed) for seed in range(3))
    first = flash_attn_triton(q, k, v, True, None, return_lse=True)
    again = flash_attn_triton(q, k, v, True, None, return_lse=True)
    assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))


def test_tf32_only_when_asked(device):
    q, k, v = (draw(1, 1, 64, 64, dtype=torch.float32, device=device, seed=seed) for seed in range(3))
    want, _ = exact(q, k, v, False, 1.0)
    assert error(flash_attn_triton(q, k, v, False), want) <= 1e-5
    assert error(flash_attn_triton(q, k, v, False, allow_tf32=True), want) <= 1e-1


def test_misaligned_slices_of_one_tensor(device):
    qkv = draw(2, 70, 3 * 2 * 33 + 1, device=device)
    q, k, v = (qkv[:, :, 1 + 66 * i : 67 + 66 * i].unflatten(-1, (2, 33)).transpose(1, 2) for i in range(3))
    o, lse = flash_attn_triton(q, k, v, True, None, return_lse=True)
    assert_right(o, lse, q, k, v, True, 33**-0.5)


@pytest.mark.gpu
@pytest.mark.usefixtures("portable")
def test_a_stride_of_more_than_2_to_the_31():
    memory = torch.empty(5 << 30, dtype=torch.float16, device="cuda")
    k = torch.as_strided(memory, (1, 1, 3, 16), (0, 0, (1 << 31) + 64, 1))
    v = torch.as_strided(memory, (1, 1, 3, 16), (0, 0, 1, (1 << 28) + 16), 8)
    q = draw(1, 1, 3, 16, device="cuda")
    k.copy_(draw(1, 1, 3, 16, device="cuda", seed=1))
    v.copy_(draw(1, 1, 3, 16, device="cuda", seed=2))
    o, lse = flash_attn_triton(q, k, v, True, None, return_lse=True)
    assert_right(o, lse, q, k, v, True, 0.25)


def test_nothing_is_saved_without_grad(device):
    q, k, v = (draw(1, 1, 20, 16, device=device).requires_grad_() for _ in range(3))
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x.shape), lambda x: x):
        with torch.no_grad():
            o, lse = flash_attn_triton(q, k, v, return_lse=True)
        assert not saved
        assert o.grad_fn is None
        assert lse.grad_fn is None
        flash_attn_triton(q, k, v)
        assert sorted(saved) == sorted([q.shape, k.shape, v.shape, o.shape, lse.shape, o.shape])  # and the rest of o
        saved.clear()
        flash_attn_triton(q.float(), k.float(), v.float())
        assert len(saved) == 5
    with torch.inference_mode():
        assert torch.equal(flash_attn_triton(q, k, v), o)


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.gpu)])
def test_torch_compile_sees_one_graph(backend):
    device = "cpu" if backend == "aot_eager" else "cuda"
    inputs = [draw(1, 2, 40, 16, dtype=torch.float32, device=device, seed=seed).requires_grad_() for seed in range(3)]

    def loss(q, k, v):
        o, lse = flash_attn_triton(q * 2, k, v, True, None, return_lse=True)
        return (o * v).sum() + lse.sum()

    compiled = torch.compile(loss, backend=backend, fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # inductor advises on TF32, and warns of torch's own deprecations
        want, got = loss(*inputs), compiled(*inputs)
        gradients = zip(torch.autograd.grad(got, inputs), torch.autograd.grad(want, inputs), strict=True)
        with torch.no_grad():
            assert error(compiled(*inputs), want) <= 1e-4
    assert error(got, want) <= 1e-4
    assert all(error(x, y) <= 1e-4 for x, y in gradients)


def test_torch_compile_takes_another_scale_without_a_graph_break():
    q, k, v = (draw(1, 2, 20, 16, dtype=torch.float32, seed=seed) for seed in range(3))
    compiled = torch.compile(flash_attn_triton, backend="aot_eager", fullgraph=True, dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for causal, scale in ((True, 0.5), (False, 0.25), (True, 2), (1, 3), (True, None)):
            assert torch.equal(compiled(q, k, v, causal, scale), flash_attn_triton(q, k, v, causal, scale))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_torch_compile_gives_the_same_gradients(dtype):
    q, k, v = (draw(1, 2, n, 16, dtype=dtype, seed=n).requires_grad_() for n in (20, 2, 2))
    compiled = torch.compile(flash_attn_triton, backend="aot_eager", fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got, want = (f(q, k, v, False, 2.0).float().square().sum() for f in (compiled, flash_attn_triton))
    gradients = (torch.autograd.grad(loss, (q, k, v)) for loss in (got, want))
    assert all(torch.equal(x, y) for x, y in zip(*gradients, strict=True))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_the_operator_keeps_torchs_rules(dtype, device):
    q, k, v = (draw(1, 2, 20, 16, dtype=dtype, device=device, seed=seed).requires_grad_() for seed in range(3))
    torch.library.opcheck(attention, (q, k, v, True, 0.25, [0, 0, 0, 0], False))
    torch.library.opcheck(attention, (q, k, v, True, 0.25, [0, 0, 0, 0], False, "triton", True))


def test_meta_tensors_and_modes_go_through_the_operator():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        q = torch.empty(2, 4, 30, 16, dtype=torch.float16)
        o, lse = flash_attn_triton(q, q, q, return_lse=True)
    assert o.shape == q.shape
    assert lse.shape == (8, 30)
    assert lse.dtype == torch.float32


def test_plans_are_kept_and_bounded(monkeypatch):
    monkeypatch.setattr("kernel.attention.MAX_PLANS", 3)
    _plans.clear()
    for seqlen in range(1, 8):
        x = draw(1, 1, seqlen, 16)
        flash_attn_triton(x, x, x)
        flash_attn_triton(x, x, x)
        assert len(_plans) <= 3
    assert len(_plans) > 0


@pytest.mark.parametrize("name", ["block_m", "block_n", "num_warps", "num_stages"])
@pytest.mark.parametrize("value", [0, -16, 64.0, "64", 48])
def test_numbers_that_cannot_be_are_refused(name, value):
    x = draw(1, 1, 8, 16)
    with pytest.raises(ValueError, match=rf"^{name} is {value!r}; .*\.$"):
        flash_attn_triton(x, x, x, **{name: value})


def test_sizes_that_no_launch_can_number_are_refused():
    x = draw(1, 1, 1, 16)
    with pytest.raises(ValueError, match=r"longest sequence is 2,147,483,648; .*\.$"):
        flash_attn_triton(x, *[x.expand(1, 1, 1 << 31, 16)] * 2)
    many = x.expand(1 << 16, 1 << 16, 1, 16)
    with pytest.raises(ValueError, match=r"4,294,967,296 programs.*\.$"):
        flash_attn_triton(many, many, many)


def test_cpu_tensors_without_the_interpreter_are_refused():
    program = (
        "import torch; from kernel.attention import flash_attn_triton; x = torch.zeros(1, 1, 8, 16)\n"
        "try: flash_attn_triton(x, x, x)\n"
        "except ValueError as error: print(error)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    root = Path(__file__).parents[2]
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root, env=environment)
    assert "cpu" in ran.stdout, ran.stderr
    assert "TRITON_INTERPRET=1" in ran.stdout


@pytest.mark.gpu
@pytest.mark.usefixtures("portable")
def test_tensors_that_start_elsewhere_after_some_at_multiples_of_16_bytes():
    q, k, v = (draw(1, 2, 300, 64, device="cuda", seed=seed) for seed in range(3))
    want = flash_attn_triton(q, k, v, True, None, return_lse=True)
    for moved in range(3):
        inputs = [q, k, v]
        room = torch.empty(q.numel() + 1, dtype=q.dtype, device="cuda")[1:].view(q.shape)
        inputs[moved] = room.copy_(inputs[moved])
        for _ in range(2):
            for tensors in (inputs, [q, k, v]):
                o, lse = flash_attn_triton(*tensors, True, None, return_lse=True)
                assert torch.equal(o, want[0])
                assert torch.equal(lse, want[1])
    grad = flash_attn_triton(q.clone().requires_grad_(), k, v, True, None)  # with one more output
    assert torch.equal(grad, want[0])


@pytest.mark.gpu
def test_the_current_stream_is_used():
    q, k, v = (draw(1, 4, 512, 64, device="cuda", seed=seed) for seed in range(3))
    want = flash_attn_triton(q, k, v)
    late = torch.zeros_like(q)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(50_000_000)
        late.copy_(q)
        o = flash_attn_triton(late, k, v)
        torch.cuda.current_stream().synchronize()
    assert torch.equal(o, want)


@pytest.mark.gpu
def test_a_cuda_graph_replays_it():
    q, k, v = (draw(1, 4, 512, 64, device="cuda", seed=seed) for seed in range(3))
    flash_attn_triton(q, k, v)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = flash_attn_triton(q, k, v)
    q.copy_(draw(1, 4, 512, 64, device="cuda", seed=9))
    graph.replay()
    assert torch.equal(o, flash_attn_triton(q, k, v))
