"""The original kernel's own test: its inputs, scale and tolerance."""

import pytest
import torch

from kernel.attention import flash_attn_triton


def reference(q, k, v, causal, sm_scale):
    p = torch.matmul(q, k.transpose(2, 3)) * sm_scale
    if causal:
        p = p.masked_fill(~torch.ones(p.shape[-2:], dtype=torch.bool, device=p.device).tril(), -torch.inf)
    return torch.matmul(torch.softmax(p.float(), dim=-1).half(), v)


@pytest.mark.parametrize("causal", [False, True])
def test_original(causal, device):
    torch.manual_seed(20)
    q, k, v = (
        torch.empty((1, 2, 1024, 64), dtype=torch.float16, device=device).normal_(mean=0.0, std=0.5).requires_grad_()
        for _ in range(3)
    )
    o = flash_attn_triton(q, k, v, causal=causal, sm_scale=0.5)
    assert torch.allclose(reference(q, k, v, causal, 0.5), o.half(), atol=1e-2, rtol=0)
