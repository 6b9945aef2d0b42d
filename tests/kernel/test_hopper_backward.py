"""The Hopper backward: its compilation without a GPU, and with `-m gpu` its gradients."""

import pytest
import torch

from kernel.attention import flash_attn_triton
from tests.kernel.compiled import FITS, compile_all
from tests.kernel.expected import assert_gradients_right


def test_backward_compiles_for_hopper():
    jobs = [{"backward": (64, True, False, True)}, {"backward": (128, False, True, False)}]
    for job, found in zip(jobs, compile_all(jobs), strict=True):
        assert found["shared"] <= FITS, job
        assert max(found["barriers"]) < 8, job
        assert found["spill_bytes"] <= 64, job
        assert not found["serialized"], job
        assert found["products"] >= 16, job


def gradients(heads, kv_heads, seqlen_q, seqlen_k, head_dim, causal, dtype=torch.float16, backend="hopper"):
    torch.manual_seed(seqlen_k)
    shapes = (heads, seqlen_q), (kv_heads, seqlen_k), (kv_heads, seqlen_k), (heads, seqlen_q)
    q, k, v, do = (torch.randn(2, h, n, head_dim, device="cuda", dtype=dtype) for h, n in shapes)
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    o = flash_attn_triton(q, k, v, causal, None, backend=backend)
    return torch.autograd.grad(o, (q, k, v), do), do, q, k, v


@pytest.fixture(params=[False, True])
def fixed_order(request):
    torch.use_deterministic_algorithms(request.param)
    yield request.param
    torch.use_deterministic_algorithms(False)


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients(head_dim, causal, fixed_order):
    for heads, kv_heads, seqlen_q, seqlen_k in ((2, 2, 512, 512), (4, 2, 333, 300), (2, 1, 77, 300), (2, 2, 300, 77)):
        for dtype in (torch.float16, torch.bfloat16):
            got, do, q, k, v = gradients(heads, kv_heads, seqlen_q, seqlen_k, head_dim, causal, dtype)
            torch.use_deterministic_algorithms(False)
            assert_gradients_right(got, do, q, k, v, causal, head_dim**-0.5)
            torch.use_deterministic_algorithms(fixed_order)


@pytest.mark.gpu
def test_fixed_order_gives_the_same_bits():
    torch.use_deterministic_algorithms(True)
    try:
        for head_dim in (64, 128):
            for causal in (False, True):
                first, again = (gradients(4, 2, 1000, 1000, head_dim, causal)[0] for _ in range(2))
                assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.gpu
def test_gradient_of_lse():
    for head_dim in (64, 128):
        found = {}
        for backend in ("hopper", "triton"):
            torch.manual_seed(1)
            q, k, v = (torch.randn(1, 2, 200, head_dim, device="cuda", dtype=torch.float16) for _ in range(3))
            q, k, v = (x.requires_grad_() for x in (q, k, v))
            o, lse = flash_attn_triton(q, k, v, True, None, return_lse=True, backend=backend)
            found[backend] = torch.autograd.grad(o.float().sum() + lse.sum(), (q, k, v))
        for x, y in zip(found["hopper"], found["triton"], strict=True):
            assert (x - y).norm() < 2e-3 * y.norm()
