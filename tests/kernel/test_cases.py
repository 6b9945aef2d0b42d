"""Every case of cases.json: inputs on which public attention kernels were reported wrong, and calls to refuse."""

import json
import math
import re
from pathlib import Path

import pytest
import torch

from kernel.attention import flash_attn_triton
from tests.kernel.expected import assert_right, error, exact

CASES = json.loads(Path(__file__).with_name("cases.json").read_text())
LEGAL = {case["name"]: case for case in CASES["legal"]}
SMALL = [name for name, case in LEGAL.items() if not case.get("gpu")]


def tensors(case, device):
    """q, k and v of a case in the layouts that it names."""
    dtype = getattr(torch, case["dtype"])
    generator = torch.Generator(device).manual_seed(20)

    def draw(shape):
        if "fill" in case:
            return torch.full(shape, case["fill"], dtype=dtype, device=device)
        x = torch.empty(shape, dtype=dtype, device=device)
        return x.normal_(0.0, case.get("std", 0.5), generator=generator)

    found = {}
    for name, shape in (("q", case["q"]), ("k", case["kv"]), ("v", case["kv"])):
        batch, heads, seqlen, head_dim = shape
        match case.get("layout", {}).get(name):
            case None:
                found[name] = draw(shape)
            case "fused_qkv_view":
                found[name] = draw([batch, seqlen, 3, heads, head_dim])[:, :, 1].transpose(1, 2)
            case "expand_heads":
                found[name] = draw([batch, 1, seqlen, head_dim]).expand(shape)
            case "odd_stride_batch":
                stride = (7, seqlen * head_dim, head_dim, 1)
                found[name] = torch.as_strided(draw(shape), shape, stride)
            case other:
                raise AssertionError(f"no such layout: {other}")
    return found["q"], found["k"], found["v"]


def scale_of(case):
    return case.get("sm_scale", 1 / math.sqrt(case["q"][3]))


@pytest.mark.parametrize("name", SMALL)
def test_legal(name, device):
    case = LEGAL[name]
    q, k, v = tensors(case, device)
    o, lse = flash_attn_triton(q, k, v, case["causal"], case.get("sm_scale"), return_lse=True)
    assert o.shape == q.shape
    assert o.dtype == q.dtype
    assert lse.shape == (q.shape[0] * q.shape[1], q.shape[2])
    assert_right(o, lse, q, k, v, case["causal"], scale_of(case))
    match case["expect"]:
        case "right" | "right, aligned bottom-right" | "right, query head h reads kv head h // 4":
            assert o.isfinite().all()
        case "right; rows 0..222 have o = 0 and lse = -inf":
            assert (o[:, :, :223] == 0).all()
            assert (lse[:, :223] == -torch.inf).all()
            assert lse[:, 223:].isfinite().all()
        case "right with error <= 1e-5: no TF32 unasked":
            assert error(o, exact(q, k, v, case["causal"], scale_of(case))[0]) <= 1e-5
        case "o = v, finite":
            assert torch.equal(o, v)
        case "right; lse = log2(number of keys seen)":
            seen = torch.arange(1, k.shape[2] + 1, device=device)
            assert error(lse, seen.log2().expand_as(lse)) <= 1e-5
        case "empty o and lse of the right shape":
            assert o.numel() == lse.numel() == 0
        case "o = 0, lse = -inf":
            assert (o == 0).all()
            assert (lse == -torch.inf).all()
        case other:
            raise AssertionError(f"nothing checks {other!r}")


@pytest.mark.gpu
def test_many_heads():
    case = LEGAL["many heads"]
    q, k, v = tensors(case, "cuda")
    o, lse = flash_attn_triton(q, k, v, case["causal"], None, return_lse=True)
    assert_right(o, lse, q, k, v, case["causal"], scale_of(case))


@pytest.mark.gpu
def test_offsets_past_2_to_the_31():
    case = LEGAL["offsets past 2^31"]
    q, k, v = tensors(case, "cuda")
    o, lse = flash_attn_triton(q, k, v, case["causal"], None, return_lse=True)
    last, seqlen = q.shape[1] - 1, q.shape[2]
    assert last * seqlen * q.shape[3] >= 2**31
    for first in (0, 1000, seqlen // 2 + 77, seqlen - 64):
        rows = slice(first, first + 64)
        part = [x[:, last:] for x in (q[:, :, rows], k, v)]
        assert_right(o[:, last:, rows], lse[last:, rows], *part, True, scale_of(case), first_row=first, seqlen_q=seqlen)


def test_every_gpu_case_has_a_test():
    assert set(LEGAL) - set(SMALL) == {"many heads", "offsets past 2^31"}


def draw(*shape, dtype=torch.float16):
    return torch.zeros(shape, dtype=dtype)


NORMAL = (1, 2, 8, 16)
# name -> q, k, v, other arguments, the exception, and what its sentence must name
REFUSED = {
    "dtypes differ": [
        (draw(*NORMAL), draw(*NORMAL, dtype=torch.bfloat16), draw(*NORMAL), {}, TypeError, ["float16", "bfloat16"]),
        (draw(*NORMAL), draw(*NORMAL), draw(*NORMAL, dtype=torch.float32), {}, TypeError, ["float16", "float32"]),
    ],
    "integer inputs": [
        (*[draw(*NORMAL, dtype=torch.int32)] * 3, {}, TypeError, ["int32", "float16", "bfloat16", "float32"])
    ],
    "three dimensions": [
        (draw(2, 8, 16), *[draw(*NORMAL)] * 2, {}, ValueError, ["(batch, heads, seqlen, head_dim)", "(2, 8, 16)"])
    ],
    "k and v lengths differ": [
        (draw(*NORMAL), draw(1, 2, 9, 16), draw(1, 2, 10, 16), {}, ValueError, ["(1, 2, 9, 16)", "(1, 2, 10, 16)"])
    ],
    "5 query heads over 2 kv heads": [(draw(1, 5, 8, 16), *[draw(1, 2, 8, 16)] * 2, {}, ValueError, ["5", "2"])],
    "head_dim 0 and head_dim 257": [
        (*[draw(1, 2, 8, 0)] * 3, {}, ValueError, ["0", "1 to 256"]),
        (*[draw(1, 2, 8, 257)] * 3, {}, ValueError, ["257", "1 to 256"]),
    ],
    "sm_scale nan or inf": [
        (*[draw(*NORMAL)] * 3, {"sm_scale": scale}, ValueError, [str(scale), "finite"])
        for scale in (math.nan, math.inf, -math.inf)
    ],
    "tensors on different devices": [
        (draw(*NORMAL), draw(*NORMAL).to("meta"), draw(*NORMAL), {}, ValueError, ["cpu", "meta"])
    ],
}
ELSEWHERE = {
    "CPU tensors without the interpreter",  # test_attention.py
    "bfloat16 on a GPU older than Ampere",  # test_configs.py
    "blocks too large for the GPU's shared memory",  # test_configs.py
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    for q, k, v, arguments, exception, named in REFUSED[name]:
        with pytest.raises(exception) as caught:
            flash_attn_triton(q, k, v, **arguments)
        sentence = str(caught.value)
        assert all(word in sentence for word in named), sentence
        assert re.fullmatch(r"[^\n]*\.", sentence)


def test_every_refusal_has_a_test():
    assert {case["name"] for case in CASES["refused"]} == set(REFUSED) | ELSEWHERE
