"""Tensors that are not what their memory says: they are read right, or refused."""

import pytest
import torch

from kernel.attention import flash_attn_triton


def tensors(device):
    generator = torch.Generator(device).manual_seed(3)
    return [torch.randn(1, 2, 20, 8, generator=generator, device=device, dtype=torch.float16) for _ in "qkv"]


@pytest.mark.parametrize("which", range(3))
def test_a_tensor_that_is_still_to_be_negated(which, device):
    given = tensors(device)
    negated = [-x if i == which else x for i, x in enumerate(given)]
    expected = flash_attn_triton(*negated)  # so that a plan of these shapes is there
    given[which] = torch._neg_view(given[which])
    torch.testing.assert_close(flash_attn_triton(*given), expected, rtol=0, atol=0)


def test_the_imaginary_part_of_a_conjugate_has_its_gradient(device):
    q, k, v = (x.float() for x in tensors(device))
    grads = []
    for lazy in (True, False):
        z = torch.complex(q, k).requires_grad_()
        key = z.conj().imag if lazy else -z.imag
        flash_attn_triton(q, key, v).square().sum().backward()
        grads.append(z.grad)
    torch.testing.assert_close(grads[0], grads[1], rtol=0, atol=0)


@pytest.mark.parametrize("which", range(3))
def test_sparse_tensors_are_refused(which, device):
    given = tensors(device)
    flash_attn_triton(*given)
    given[which] = given[which].to_sparse()
    with pytest.raises(TypeError, match=f"{'qkv'[which]} is sparse_coo; flash_attn_triton takes dense tensors"):
        flash_attn_triton(*given)
