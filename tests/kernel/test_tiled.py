"""The portable kernel with descriptors of k and v and its rows in two groups, interpreted and on a Hopper GPU."""

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kernel import configs
from kernel.attention import flash_attn_triton
from kernel.configs import Config
from tests.kernel.conftest import only_portable, tiled_at_any_size
from tests.kernel.expected import assert_right
from tests.kernel.layouts import attention_inputs
from tests.kernel.test_attention import WIDE, draw, right

TILES = [Config(32, 16, 4, 1, parts=2, lanes=8), Config(64, 32, 4, 1, parts=2), Config(16, 64, 4, 1, lanes=8)]


@pytest.fixture
def launches(monkeypatch):
    """The descriptors (or None) with which the kernel was launched for k and v."""
    from kernel import launch

    seen = []

    def run(kernel, device, programs, arguments, constants):
        seen.append(arguments[6:8])
        return original(kernel, device, programs, arguments, constants)

    original = launch.run
    monkeypatch.setattr(launch, "run", run)
    tiled_at_any_size(monkeypatch)
    return seen


@given(attention_inputs(head_dims=st.sampled_from([8, 16, 40, 64])), st.sampled_from(TILES))
@example(WIDE | {"seqlen_q": 50, "head_dim": 16}, TILES[0])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_legal_input(monkeypatch, launches, inputs, config):
    monkeypatch.setattr(configs, "tiled", lambda *_: config)
    tiled_at_any_size(monkeypatch)
    right(inputs, "cpu")


def test_descriptors_are_used_where_they_can_be(monkeypatch, launches):
    monkeypatch.setattr(configs, "tiled", lambda *_: TILES[0])
    q, k, v = (draw(1, 2, 50, 16, seed=i) for i in range(3))
    elsewhere = torch.empty(k.numel() + 1, dtype=k.dtype)[1:].view(k.shape).copy_(k)
    odd = torch.empty(1, 2, 50, 17, dtype=k.dtype)[..., :16].copy_(k)
    for keys, described in ((k, True), (elsewhere, False), (odd, False), (k, True)):
        o, lse = flash_attn_triton(q, keys, v, True, 0.3, return_lse=True)
        assert_right(o, lse, q, keys, v, True, 0.3)
        assert [tile is not None for tile in launches[-1]] == [described] * 2
    tile = launches[-1][0]
    assert (tile.base.data_ptr(), tile.block_shape, tile.strides) == (k.data_ptr(), [1, 1, 16, 16], [8, 800, 16, 1])


def test_what_is_not_finite_reaches_only_the_rows_that_see_it(monkeypatch, launches):
    monkeypatch.setattr(configs, "tiled", lambda *_: TILES[0])
    q, k, v = (draw(1, 2, 50, 16, seed=i) for i in range(3))
    v[0, 0, 21, 3], v[0, 1, 40, 0] = torch.inf, torch.nan
    o, lse = flash_attn_triton(q, k, v, True, 0.3, return_lse=True)
    assert_right(o, lse, q, k, v, True, 0.3)
    assert o[0, 0, :21].isfinite().all() and o[0, 0, 21:, 3].isinf().all()


@pytest.mark.gpu
@given(
    attention_inputs(max_seqlen=700, head_dims=st.sampled_from([40, 64, 80, 128, 200, 256])),
    st.sampled_from([torch.float16, torch.bfloat16]),
)
@example(WIDE, torch.float16)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_legal_input_compiled(monkeypatch, inputs, dtype):
    tiled_at_any_size(monkeypatch)
    right(inputs | {"dtype": dtype}, "cuda", "triton")


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("head_dim", "seqlen"), [(64, 700), (64, 1500), (128, 700), (256, 300)])
def test_rows_that_are_done_again(monkeypatch, launches, head_dim, seqlen, causal):
    only_portable(monkeypatch)
    q, k, v = (draw(2, 3, seqlen, head_dim, seed=i, device="cuda") for i in range(3))
    v[0, 0, 21, 3], v[0, 1, 640 % seqlen, 0] = torch.inf, torch.nan
    o, lse = flash_attn_triton(q, k, v, causal, 0.3, return_lse=True)
    assert all(tile is not None for tile in launches[-1])
    assert_right(o, lse, q, k, v, causal, 0.3)


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [64, 128])
def test_gradients_and_repeats(monkeypatch, launches, head_dim):
    only_portable(monkeypatch)
    q, k, v = (draw(2, 4, 777, head_dim, seed=i, device="cuda").requires_grad_() for i in range(3))
    first = flash_attn_triton(q, k, v, True, 0.1)
    again = flash_attn_triton(q, k, v, True, 0.1)
    plain = flash_attn_triton(q.detach(), k.detach(), v.detach(), True, 0.1)
    assert torch.equal(first, again) and torch.equal(first, plain)
    assert torch.isfinite(torch.autograd.grad(first.float().square().sum(), (q, k, v))[0]).all()
