"""Tensors that are not what their memory says: they are read right, or refused."""

import warnings

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


def negated(x):
    return torch._neg_view(-x)


def sparse(x):
    return x.to_sparse()


@pytest.mark.parametrize("odd", [negated, sparse])
def test_a_gradient_that_is_not_what_its_memory_says(odd, device):
    inputs = [x.requires_grad_() for x in tensors(device)]
    o, lse = flash_attn_triton(*inputs, return_lse=True)
    generator = torch.Generator(device).manual_seed(4)
    grads = [torch.randn(x.shape, generator=generator, device=device).to(x.dtype) for x in (o, lse)]
    want = torch.autograd.grad((o, lse), inputs, grads, retain_graph=True)
    for odd_ones in ((0,), (1,), (0, 1)):
        given = [odd(x) if i in odd_ones else x for i, x in enumerate(grads)]
        got = torch.autograd.grad((o, lse), inputs, given, retain_graph=True)
        assert all(torch.equal(x, y) for x, y in zip(got, want, strict=True))


def test_gradients_in_batches(device):
    inputs = [x.requires_grad_() for x in tensors(device)]
    o = flash_attn_triton(*inputs)
    grads = torch.randn(3, *o.shape, device=device).to(o.dtype)
    got = torch.autograd.grad(o, inputs, grads, retain_graph=True, is_grads_batched=True)
    for i, do in enumerate(grads):
        want = torch.autograd.grad(o, inputs, do, retain_graph=True)
        assert all(torch.equal(x[i], y) for x, y in zip(got, want, strict=True))


def test_a_gradient_with_a_tangent_is_refused(device):
    inputs = [x.requires_grad_() for x in tensors(device)]
    with warnings.catch_warnings(), torch.autograd.forward_ad.dual_level():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, about its own
        o = flash_attn_triton(*inputs)
        dual = torch.autograd.forward_ad.make_dual(torch.ones_like(o), torch.ones_like(o))
        with pytest.raises(RuntimeError, match="no forward-mode derivative"):
            torch.autograd.grad(o, inputs, dual)


@pytest.mark.parametrize("which", range(3))
def test_sparse_tensors_are_refused(which, device):
    given = tensors(device)
    flash_attn_triton(*given)
    given[which] = given[which].to_sparse()
    with pytest.raises(TypeError, match=f"{'qkv'[which]} is sparse_coo; flash_attn_triton takes dense tensors"):
        flash_attn_triton(*given)


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")
def test_nested_tensors_are_refused(which, layout):
    given = tensors("cpu")
    given[which] = torch.nested.nested_tensor([given[which][0]] * 2, layout=layout)
    with pytest.raises(TypeError, match=f"{'qkv'[which]} is nested; flash_attn_triton takes dense tensors"):
        flash_attn_triton(*given)


def test_meta_tensors_are_refused():
    given = [x.to("meta") for x in tensors("cpu")]
    with pytest.raises(ValueError, match="q, k and v are on the meta device, where tensors hold no numbers"):
        flash_attn_triton(*given)
