"""The arguments of flash_attn_triton that are no tensors: each is taken as meant, or refused in one sentence."""

import math
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from kernel.attention import flash_attn_triton
from kernel.inputs import Inputs
from kernel.mirror import Mirror
from kernel.problem import Problem, ProblemError, exponent_scale
from kernel.tiling import Tiling
from tests.kernel.expected import assert_right, error, exact


def tensors(device="cpu", dtype=torch.float32, std=1.0):
    generator = torch.Generator(device).manual_seed(4)
    return [std * torch.randn(1, 1, 20, 16, generator=generator, device=device, dtype=dtype) for _ in "qkv"]


def refusal(exception, **arguments):
    with pytest.raises(exception) as caught:
        flash_attn_triton(*tensors(), **arguments)
    sentence = str(caught.value)
    assert re.fullmatch(r"[^\n]*\.", sentence), sentence
    return sentence


@pytest.mark.parametrize("scale", [1e26, -1e26, 1e20, 1e-30, 1e-37, -1e-40, 1e-44, 1e-46, 1e-300, 5e-324])
def test_every_scale_from_the_smallest_to_the_largest_is_right(scale, device):
    inputs = tensors(device)
    o, lse = flash_attn_triton(*inputs, False, scale, return_lse=True)
    assert_right(o, lse, *inputs, False, scale)


@pytest.mark.parametrize("scale", [1e-37, 1e-40, 1e-44])
def test_a_small_scale_counts_where_scores_are_large(scale, device):
    """q·k of 1e36 and more: the scale is no normal number in float32, and still no 0."""
    q, k, v = tensors(device)
    q = 1e35 * q
    o, lse = flash_attn_triton(q, k, v, True, scale, return_lse=True)
    want, want_lse = exact(q, k, v, True, scale)
    precision = max(1e-5, 2.0**-149 / scale)  # of a scale that float32 holds in a few bits
    size = ((q.double() @ k.double().mT) * scale).abs().max()
    assert error(lse, want_lse) <= 2 * precision * size + 1e-5
    assert error(o, want) <= 4 * precision * size + 1e-5


def test_the_largest_scale_keeps_the_largest_float16_scores_finite(device):
    x = torch.full((1, 1, 3, 256), 65504.0, dtype=torch.float16, device=device)
    o, lse = flash_attn_triton(x, x, x, True, 1e26, return_lse=True)
    assert torch.equal(o, x)
    assert lse.isfinite().all()


@pytest.mark.parametrize("scale", [1.1e26, 1e30, 1e38, -1e38, 3e38, 1e39, -1e300, 1.7e308])
def test_scales_that_float32_scores_do_not_survive_are_refused(scale):
    assert f"sm_scale is {scale:g}; use one of at most 1e+26" in refusal(ValueError, sm_scale=scale)
    with pytest.raises(ProblemError, match=f"sm_scale is {re.escape(f'{scale:g}')}; use one of at most") as caught:
        Problem(sm_scale=scale)
    assert caught.value.field == "sm_scale"


@pytest.mark.parametrize(
    ("value", "exception", "named"),
    [
        ("x", TypeError, "'x'"),
        ("0.5", TypeError, "'0.5'"),
        (True, TypeError, "True"),
        (np.bool_(True), TypeError, "np.True_"),
        (torch.tensor(0.5), TypeError, "a tensor; it must be a number, as .item() gives it"),
        (torch.zeros(2, 2), TypeError, "a tensor"),
        (np.zeros((2, 2)), TypeError, "array"),
        ([0.5], TypeError, "[0.5]"),
        (1j, TypeError, "1j"),
        (Decimal("0.5"), TypeError, "Decimal('0.5')"),
        pytest.param(10**400, ValueError, "a number of more than 19 digits", id="huge"),
        (np.float32("inf"), ValueError, "inf; it must be a finite number"),
        (np.float64("nan"), ValueError, "nan; it must be a finite number"),
    ],
)
def test_a_scale_that_is_no_number_is_refused(value, exception, named):
    flash_attn_triton(*tensors(), sm_scale=1.0)  # a plan for 1.0, which True equals
    assert f"sm_scale is {named}" in refusal(exception, sm_scale=value)


@pytest.mark.parametrize("value", [2, np.int64(2), np.float32(2), np.float16(2), Fraction(2)])
def test_any_real_number_is_a_scale(value):
    want = flash_attn_triton(*tensors(), sm_scale=2.0)
    assert torch.equal(flash_attn_triton(*tensors(), sm_scale=value), want)


@pytest.mark.parametrize("name", ["causal", "return_lse", "allow_tf32"])
def test_flags_are_true_or_false(name):
    for value in ("no", "", 2, -1, 1.0, None, [], torch.tensor(True), torch.zeros(2, 2), np.int64(1), np.ones(2)):
        assert f"{name} is " in refusal(TypeError, **{name: value})
    for value in (True, 1, np.bool_(True)):  # the original kernel takes 0 and 1 too
        got, want = (flash_attn_triton(*tensors(), **{name: x}) for x in (value, True))
        got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
        assert all(torch.equal(x, y) for x, y in zip(got, want, strict=True))


@pytest.mark.parametrize("name", ["block_m", "block_n", "num_warps", "num_stages"])
def test_numbers_of_blocks_are_whole_and_positive(name):
    for value in (True, 0, -16, 16.0, "16", [16], torch.tensor(16), np.array([16]), math.nan):
        assert f"{name} is " in refusal(ValueError, **{name: value})
    assert flash_attn_triton(*tensors(), **{name: np.int64(16 if name.startswith("block") else 2)}).isfinite().all()


def test_a_backend_is_a_name():
    for value in ("Triton", "", 1, ["triton"], torch.ones(3), np.array(["triton", "hopper"])):
        assert 'it must be "triton", "hopper" or None' in refusal(ValueError, backend=value)


@pytest.mark.parametrize("scale", [1e-300, 1e-46, 1e-40, 1e26])
def test_the_mirror_takes_the_same_scales(scale):
    problem = Problem(heads=1, kv_heads=1, seqlen_q=40, seqlen_k=40, head_dim=16, dtype="float32", sm_scale=scale)
    inputs = Inputs(problem)
    chip = Mirror(inputs, Tiling(problem)).run(0, 0)
    q, k, v = (torch.from_numpy(np.ascontiguousarray(inputs.stacked(name))) for name in "qkv")
    o, lse = flash_attn_triton(q, k, v, True, scale, return_lse=True)
    assert chip.o is not None
    assert chip.lse is not None
    np.testing.assert_array_equal(chip.o[:40, :16], o[0, 0].numpy())
    np.testing.assert_array_equal(chip.lse[:40], lse[0].numpy())


def test_the_kernels_scale_is_positive_in_float32():
    for scale in (5e-324, 1e-300, -1e-46, 1e-45):
        assert np.float32(exponent_scale(scale)) > 0
    assert np.float32(exponent_scale(-1e26)) < np.inf
    assert exponent_scale(0.0) == exponent_scale(-0.0) == 1.0
