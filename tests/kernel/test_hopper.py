"""The Hopper forward: its tiles by value, its compilation without a GPU, and with `-m gpu` its results."""

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from kernel import attention, choice, forward
from kernel.attention import flash_attn_triton
from kernel.hopper_launch import Plans, compiler_barriers, strides
from kernel.hopper_tiles import (
    ALL_128,
    ALL_256,
    END,
    FAR,
    LONG_64,
    LONG_64_CAUSAL,
    SHORT_64,
    config,
    costs,
    first_key,
    is_even,
    pays,
    schedule,
)
from tests.kernel.compiled import FITS, compile_all
from tests.kernel.expected import assert_right, exact

CONFIGS = st.sampled_from([LONG_64, LONG_64_CAUSAL, SHORT_64, ALL_128, ALL_256])
LENGTHS = st.integers(1, 3000)


def unpacked(table):
    entries = table[table >= 0]
    return entries >> 42, entries >> 24 & (1 << 18) - 1, entries & (1 << 24) - 1


@given(CONFIGS, st.integers(1, 4), st.integers(1, 9), LENGTHS, LENGTHS, st.booleans(), st.integers(1, 140))
def test_every_query_tile_is_handed_out_once(c, batch, heads, seqlen_q, seqlen_k, causal, programs):
    table = schedule(batch, heads, seqlen_q, seqlen_k, causal, c, programs)
    assert (table[-1] == -1).all()
    ended = np.maximum.accumulate(table < 0, axis=0)
    assert (table[ended] == -1).all()  # nothing after a program's end
    blocks = -(-seqlen_q // c.block_m)
    found = sorted(zip(*(x.tolist() for x in unpacked(table)), strict=True))
    assert found == [(b, h, m * c.block_m) for b in range(batch) for h in range(heads) for m in range(blocks)]


@given(CONFIGS, st.integers(1, 4), st.integers(1, 9), LENGTHS, LENGTHS, st.booleans(), st.integers(1, 140))
@example(ALL_128, 4, 8, 3482, 3482, True, 5)
@example(ALL_128, 4, 4, 915, 915, True, 2)
def test_no_program_has_more_than_the_longest_tile_more_to_do(c, batch, heads, seqlen_q, seqlen_k, causal, programs):
    table = schedule(batch, heads, seqlen_q, seqlen_k, causal, c, programs)
    cost = costs(seqlen_q, seqlen_k, causal, c)
    rows = np.where(table >= 0, table & (1 << 24) - 1, 0)
    load = np.where(table >= 0, cost[rows // c.block_m], 0).sum(0)
    assert load.max() <= load.min() + cost.max() + 1e-6


def test_a_tile_costs_what_its_rows_see():
    c = replace(ALL_128, consumers=1)
    assert (costs(256, 512, False, c) == 4 + END).all()
    assert costs(256, 512, True, c).tolist() == [3 + END, 3 + END, 4 + END, 4 + END]


@given(CONFIGS, LENGTHS, LENGTHS)
def test_a_diagonal_never_crosses_a_tile_border(c, seqlen_q, seqlen_k):
    left = first_key(seqlen_q, seqlen_k, True, c)
    assert -c.keys < left <= 0
    assert is_even(seqlen_q, seqlen_k, True, c) == (left == 0)
    for row in range(0, seqlen_q, c.rows):
        first, last = row + seqlen_k - seqlen_q, row + c.rows - 1 + seqlen_k - seqlen_q
        assert (first - left) // c.keys == (last - left) // c.keys


@given(CONFIGS, LENGTHS, LENGTHS)
def test_only_whole_tiles_need_no_mask_without_causal(c, seqlen_q, seqlen_k):
    assert first_key(seqlen_q, seqlen_k, False, c) == 0
    assert is_even(seqlen_q, seqlen_k, False, c) == (seqlen_k % c.keys == 0)


def test_both_kernels_do_the_same_rows_again():
    assert f"tl.abs(m) > {FAR}" in Path(forward.__file__).read_text()


@given(st.floats(1.0, float(np.float32(1e6)), width=32), st.floats(2**-10, 2**12, width=32))
def test_up_to_where_rows_are_done_again_a_product_that_is_not_rounded_does_no_harm(s, qk_scale):
    """m is the rounded product, p = 2^(s·qk_scale - m) a fused one: they differ by less than l can bear."""
    m = np.float32(s) * np.float32(qk_scale)
    apart = abs(float(np.float32(s)) * float(np.float32(qk_scale)) - float(m))
    assert apart <= 0.25 or m > FAR
    beyond = np.float32(1.1342e12) * np.float32(0.125 * math.log2(math.e))  # shared/cases: all inputs large and equal
    assert beyond > FAR
    assert np.spacing(beyond) / 2 > 127  # p may be 0 or infinite


def test_configurations_cover_every_head_dim():
    assert {config(d, c, n) for d in (8, 64) for c in (False, True) for n in (512, 4096)} == {
        SHORT_64,
        LONG_64,
        LONG_64_CAUSAL,
    }
    assert config(72, True, 100) is config(128, False, 9000) is ALL_128
    assert config(136, True, 100) is config(256, False, 9000) is ALL_256


def test_it_pays_where_it_fills_the_gpu_or_few_queries_meet_many_keys():
    for all_heads, seqlen_q, seqlen_k, c, faster in (
        (8, 1, 4096, SHORT_64, True),
        (64, 64, 1024, SHORT_64, True),
        (64, 128, 2048, ALL_128, False),
        (66, 128, 2048, ALL_128, True),
        (8, 1024, 1024, SHORT_64, False),
        (8, 16, 16, SHORT_64, False),
        (16, 16384, 16384, ALL_128, True),
    ):
        assert pays(all_heads, seqlen_q, seqlen_k, c, 132) == faster


def test_barriers_of_the_compiler_are_read_out_of_its_code():
    ptx = """
        bar.sync \t0, 128;
        barrier.sync \t1;
        barrier.cta.sync.aligned 3, 64;
        bar.warp.sync \t-1;
        // begin inline asm
        bar.arrive %r7, 288;
        // end inline asm
        barrier.cta.red.popc.aligned.u32 %r1, 5, 64, %p1;
    """
    assert compiler_barriers(ptx) == {0, 1, 3, 5}
    shared_end = "mov.b32 \t%r9, 4;\nmov.b32 \t%r9, 2;\nadd.s32 \t%r91, %r9, 1;\nbar.sync \t%r9, 128;\n"
    assert compiler_barriers(shared_end) == {2, 4}
    for unreadable in ("add.s32 \t%r9, %r8, 1;\n", "mov.b32 \t%r9, %r8;\n", ""):
        code = (unreadable and shared_end) + unreadable + "bar.sync \t%r9, 128;\n"
        assert compiler_barriers(code) == set(range(16))
    assert compiler_barriers("") == set()


def test_strides_that_the_copy_engine_takes():
    x = torch.zeros(2, 6, 40, 64, dtype=torch.float16)
    assert strides(x) == (6 * 40 * 64, 40 * 64, 64, 1)
    assert strides(x.transpose(1, 2)) == (6 * 40 * 64, 64, 40 * 64, 1)
    assert strides(x.as_strided((1, 6, 40, 64), (7, 40 * 64, 64, 1))) == (8, 40 * 64, 64, 1)
    assert strides(x.transpose(2, 3)) is None
    assert strides(x[:, :1].expand(2, 6, 40, 64)) is None
    assert strides(x.as_strided((1, 2, 3, 64), (9999, 68, 64, 1))) is None


def test_plans_are_made_once_and_bounded(monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: made.append("synchronized"))
    made, plans = [], Plans(4)
    for key in (1, 2, 1, 3, 4, 4):
        assert plans.make(key, lambda key=key: made.append(key) or -key) == -key
    assert made == [1, 2, 3, 4]
    assert plans.make(5, lambda: -5) == -5
    assert made == [1, 2, 3, 4, "synchronized"]
    assert [plans.get(key) for key in range(1, 6)] == [None, None, -3, -4, -5]


def test_a_backend_that_cannot_be_is_refused():
    q = torch.zeros(1, 1, 16, 64, dtype=torch.float16)
    with pytest.raises(ValueError, match="'fast'; it must be"):
        flash_attn_triton(q, q, q, backend="fast")
    with pytest.raises(ValueError, match="leave them out"):
        flash_attn_triton(q, q, q, backend="hopper", block_m=64)
    with pytest.raises(ValueError, match="no Hopper GPU; leave backend out"):
        flash_attn_triton(q, q, q, backend="hopper")


def test_a_triton_that_lacks_what_the_hopper_kernels_use_leaves_the_portable_ones(monkeypatch):
    import kernel

    monkeypatch.delattr(kernel, "hopper", raising=False)
    monkeypatch.setitem(sys.modules, "kernel.hopper", None)  # importing it now raises ImportError
    monkeypatch.setattr(choice, "is_hopper", lambda q: True)
    monkeypatch.setattr(attention, "_plans", {})
    choice.load_hopper.cache_clear()
    q, k, v = (torch.randn(1, 2, 40, 64, dtype=torch.float16).requires_grad_() for _ in "qkv")
    o, lse = flash_attn_triton(q, k, v, return_lse=True)
    assert_right(o, lse, q.detach(), k.detach(), v.detach(), True, 1.0)
    o.sum().backward()
    assert q.grad is not None
    with pytest.raises(ValueError, match=r"cannot be loaded with Triton .*; leave backend out for the portable kernel"):
        flash_attn_triton(q, k, v, backend="hopper")
    choice.load_hopper.cache_clear()


def test_forward_compiles_for_hopper():
    jobs = [
        {"forward": (64, False, True, 512)},
        {"forward": (64, True, False, 4096)},
        {"forward": (128, True, True, 4096)},
        {"forward": (256, True, False, 4096)},
    ]
    for job, found in zip(jobs, compile_all(jobs), strict=True):
        c = config(job["forward"][0], job["forward"][1], job["forward"][3])
        assert found["shown"]["num_stages"] == c.stages
        assert found["shown"]["num_warps"] > 4 * c.consumers
        assert found["shown"]["shared_bytes"] == found["shared"] <= FITS, job
        assert max(found["barriers"]) < 8, job
        assert found["spill_bytes"] <= 64, job
        assert not found["serialized"], job
        assert found["products"] >= 16, job


def draw(*shape, dtype=torch.float16):
    return torch.randn(shape, device="cuda", dtype=dtype)


@pytest.fixture
def seeded():
    torch.manual_seed(3)


@pytest.mark.gpu
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("head_dim", [16, 64, 72, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_right(head_dim, causal):
    lengths = ((256, 256), (333, 300), (77, 300), (300, 77), (1, 20), (192, 4096), (2300, 2300))
    for dtype in (torch.float16, torch.bfloat16):
        for seqlen_q, seqlen_k in lengths:
            q, k, v = (
                draw(2, 4, seqlen_q, head_dim, dtype=dtype),
                *(draw(2, 2, seqlen_k, head_dim, dtype=dtype) for _ in "kv"),
            )
            o, lse = flash_attn_triton(q, k, v, causal, None, return_lse=True, backend="hopper")
            assert_right(o, lse, q, k, v, causal, head_dim**-0.5)


@pytest.mark.gpu
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("special", [math.nan, math.inf])
def test_nan_and_infinity_reach_the_rows_that_see_them(special):
    for head_dim, seqlen_q, seqlen_k in ((64, 512, 512), (128, 300, 333), (256, 100, 100)):
        q, k, v = draw(1, 2, seqlen_q, head_dim), draw(1, 2, seqlen_k, head_dim), draw(1, 2, seqlen_k, head_dim)
        clean, _ = exact(q, k, v, True, head_dim**-0.5)
        for key in (seqlen_k - 1, seqlen_k - 40, seqlen_k // 2, 3):
            spoiled = v.clone()
            spoiled[:, :, key] = special
            o = flash_attn_triton(q, k, spoiled, True, None, backend="hopper")
            blind = torch.arange(seqlen_q, device="cuda") + seqlen_k - seqlen_q < key
            assert ((o[:, :, blind].double() - clean[:, :, blind]).abs() < 4e-3).all()
            assert not o[:, :, ~blind].isfinite().any()


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [16, 64, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_large_and_equal_inputs(head_dim, causal):
    for seqlen_q, seqlen_k in ((1, 1), (1, 300), (300, 300), (200, 333)):
        x = torch.full((1, 2, max(seqlen_q, seqlen_k), head_dim), 133120.0, dtype=torch.bfloat16, device="cuda")
        q, k = x[:, :, :seqlen_q], x[:, :, :seqlen_k]
        o, lse = flash_attn_triton(q, k, k, causal, 0.125, return_lse=True, backend="hopper")
        assert torch.equal(o, q)
        assert_right(o, lse, q, k, k, causal, 0.125)


@pytest.mark.gpu
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rows_with_scores_in_the_millions_are_done_again_and_no_others(causal, dtype):
    """Every seventh row's scores are millions of times as large: one key takes all, or several equal ones."""
    for head_dim, seqlen in ((16, 300), (64, 700), (72, 333), (128, 500), (256, 260)):
        q, k, v = (draw(1, 2, seqlen, head_dim, dtype=dtype) for _ in "qkv")
        usual, usual_lse = flash_attn_triton(q, k, v, causal, 1.0, return_lse=True, backend="hopper")
        far = torch.arange(seqlen, device="cuda") % 7 == 3
        q[:, :, far] *= 2.0**12 if dtype == torch.float16 else 2.0**24
        k[:, :, 100:140] *= 2.0**10
        k[:, :, 120] = k[:, :, 110]
        o, lse = flash_attn_triton(q, k, v, causal, 1.0, return_lse=True, backend="hopper")
        again = flash_attn_triton(q, k, v, causal, 1.0, return_lse=True, backend="hopper")
        portable = flash_attn_triton(q, k, v, causal, 1.0, return_lse=True, backend="triton")
        assert torch.equal(o, again[0])
        assert torch.equal(lse, again[1])
        assert o.isfinite().all()
        size = portable[1].abs().clamp(min=1.0)
        assert ((lse - portable[1]) / size).abs().max() < 1e-5
        s = (q.double() @ k.double().mT).masked_fill_(
            ~torch.ones(seqlen, seqlen, dtype=torch.bool, device="cuda").tril() if causal else q.new_zeros(1).bool(),
            -math.inf,
        )
        top = s.topk(3, -1).values
        clear = (top[..., 1] - top[..., 2] > 1e-5 * top[..., 0].abs() + 40) & far  # the winners are beyond doubt
        want, _ = exact(q, k, v, causal, 1.0)
        even = (top[..., 0] == top[..., 1]) | (top[..., 0] - top[..., 1] > 1e-5 * top[..., 0].abs() + 40)
        assert (clear & even).sum() > 20
        assert (o.double() - want)[clear & even].abs().max() < 4e-2
        unseen = ~far & (torch.arange(seqlen, device="cuda") < 100) if causal else far & ~far
        assert torch.equal(o[:, :, unseen], usual[:, :, unseen])
        assert torch.equal(lse[:, unseen], usual_lse[:, unseen])


@pytest.mark.gpu
@pytest.mark.usefixtures("seeded")
def test_the_same_in_a_graph_on_a_stream_and_strided():
    q, k, v = (draw(2, 700, 16, 64).transpose(1, 2) for _ in range(3))
    want = flash_attn_triton(q, k, v, True, None, return_lse=True, backend="hopper")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        again = flash_attn_triton(*(x.contiguous() for x in (q, k, v)), True, None, return_lse=True, backend="hopper")
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        replayed = flash_attn_triton(q, k, v, True, None, return_lse=True)
        unseen = flash_attn_triton(q[:, :, :650], k, v, True, None)  # its first call: the portable kernel
    graph.replay()
    assert all(torch.equal(x, y) for got in (again, replayed) for x, y in zip(want, got, strict=True))
    assert (unseen - flash_attn_triton(q[:, :, :650], k, v, True, None, backend="hopper")).abs().max() < 4e-3


@pytest.mark.gpu
@pytest.mark.usefixtures("seeded")
def test_what_it_cannot_take_goes_to_the_portable_kernel():
    q, k, v = (draw(1, 2, 100, 64) for _ in range(3))
    shifted = torch.empty(q.numel() + 1, dtype=q.dtype, device="cuda")[1:].view(q.shape).copy_(q)
    odd = [draw(1, 2, 100, 65) for _ in range(3)]
    for inputs, scale, why in (
        ((q, k, v), -0.5, "must be positive"),
        (odd, 0.1, "head_dim is 65"),
        ([x.float() for x in (q, k, v)], 0.1, "float32"),
        ((q, k[:, :1].expand(k.shape), v), 0.1, "not contiguous"),
        ((shifted, k, v), 0.1, "16 bytes"),
    ):
        with pytest.raises(ValueError, match=why):
            flash_attn_triton(*inputs, True, scale, backend="hopper")
        o, lse = flash_attn_triton(*inputs, True, scale, return_lse=True)
        assert_right(o, lse, *inputs, True, scale)
