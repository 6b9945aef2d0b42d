import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kernel.inputs import Inputs
from kernel.mirror import Chip, Mirror, _round_to_float16, lift
from kernel.problem import Problem
from kernel.tiling import Tiling
from tests.strategies import hopper_problems, problems


@given(problems(max_seqlen=400, min_rows=1) | hopper_problems(max_seqlen=700), st.data())
@settings(max_examples=40, deadline=None)
def test_several_tiles_at_once_give_the_bits_of_one_at_a_time(p: Problem, data):
    tiling = Tiling(p)
    mirror = Mirror(Inputs(p), tiling)
    block = data.draw(st.integers(0, tiling.num_q_blocks - 1))
    visited = int(tiling.visited[block])
    first = data.draw(st.integers(0, visited))
    chip = mirror.apply(Chip(), "load_q", 0, block)
    for iteration in range(first):
        chip = mirror.iterate(chip, 0, block, iteration)
    expected = chip
    at = first
    for run in mirror.advance(chip, 0, block, first, visited):
        for row, iteration in enumerate(range(at, run.end)):
            expected = mirror.iterate(expected, 0, block, iteration)
            np.testing.assert_array_equal(run.m[row], expected.m)
            np.testing.assert_array_equal(run.alpha[row], expected.alpha)
            np.testing.assert_array_equal(run.l[row], expected.l)
        np.testing.assert_array_equal(run.chip.acc, expected.acc)
        np.testing.assert_array_equal(run.chip.m, expected.m)
        at = run.end
    assert at == visited


def test_infinite_values_of_v_take_the_same_way(tmp_path):
    q = np.ones((1, 1, 16, 16), np.float32)
    v = np.ones((1, 1, 200, 16), np.float32)
    v[0, 0, 70, 3] = np.inf
    np.savez(tmp_path / "t.npz", q=q, k=np.zeros_like(v), v=v)
    p = Problem(heads=1, kv_heads=1, seqlen_q=16, seqlen_k=200, head_dim=16, dtype="float32", causal=False)
    p = p.change(block_m=16, block_n=16, inputs=str(tmp_path / "t.npz"))
    o = Mirror(Inputs(p), Tiling(p)).run(0, 0).o
    assert o is not None
    assert np.isinf(o[:, 3]).all()
    assert (np.delete(o, 3, axis=1) == 1).all()


@pytest.mark.parametrize("places", [(), (0,), (15, 16), (40, 41, 60), tuple(range(20, 37))])
@pytest.mark.parametrize("causal", [True, False])
def test_two_threads_stop_at_a_value_of_v_that_is_not_finite(tmp_path, places, causal):
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((1, 1, 16 * 70, 16)).astype(np.float32) for _ in range(3))
    for i, tile in enumerate(places):
        v[0, 0, 16 * tile + 3, 5] = (np.inf, np.nan, -np.inf)[i % 3]
    np.savez(tmp_path / "t.npz", q=q, k=k, v=v)
    p = Problem(heads=1, kv_heads=1, seqlen_q=1120, seqlen_k=1120, head_dim=16, dtype="float32", causal=causal)
    p = p.change(block_m=16, block_n=16, inputs=str(tmp_path / "t.npz"))
    mirror = Mirror(Inputs(p), Tiling(p))
    expected = chip = mirror.apply(Chip(), "load_q", 0, 69)
    ends = []
    for run in mirror.advance(chip, 0, 69, 0, 70):
        for iteration in range(ends[-1] if ends else 0, run.end):
            expected = mirror.iterate(expected, 0, 69, iteration)
        for name in ("m", "l", "acc"):
            np.testing.assert_array_equal(getattr(run.chip, name), getattr(expected, name))
        ends.append(run.end)
    assert ends[-1] == 70 and set(places) <= {end - 1 for end in ends}


def test_an_error_on_one_thread_ends_both(monkeypatch):
    p = Problem(heads=1, kv_heads=1, seqlen_q=16, seqlen_k=16 * 64, head_dim=16, causal=False, block_m=16, block_n=16)
    mirror = Mirror(Inputs(p), Tiling(p))
    lift = mirror._full_tiles

    def fail(x, block, first, count, name):
        if first in broken_at:
            raise MemoryError
        return lift(x, block, first, count, name)

    monkeypatch.setattr(mirror, "_full_tiles", fail)
    chip = mirror.apply(Chip(), "load_q", 0, 0)
    for places in ({0}, {16}, {32}, {48}, {16, 32}):
        broken_at = places
        with pytest.raises(MemoryError):
            list(mirror.advance(chip, 0, 0, 0, 64))
    broken_at = set()
    assert [run.end for run in mirror.advance(chip, 0, 0, 0, 64)] == [16, 32, 48, 64]


@given(arrays(np.float32, 64, elements=st.floats(0, 65504, width=32)))
def test_rounding_to_float16_is_numpys(p):
    np.testing.assert_array_equal(_round_to_float16(p), p.astype(np.float16).astype(np.float32))


def test_rounding_to_float16_at_ties_and_the_smallest_numbers():
    values = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    between = ((values[:-1] + values[1:]) / 2).astype(np.float32)
    for x in (
        between,
        np.nextafter(between, np.float32(0)),
        np.nextafter(between, np.float32(1e9)),
        np.float32([np.nan]),
    ):
        np.testing.assert_array_equal(_round_to_float16(x), x.astype(np.float16).astype(np.float32))


def test_the_lazy_max_stays_until_it_would_grow_by_more_than_8():
    p = Problem(seqlen_q=64, seqlen_k=1024, head_dim=128, causal=False, distribution="rising", sm_scale=-0.2)
    p = p.change(sm_scale=0.2, std=1.0, backend="hopper")
    mirror = Mirror(Inputs(p), Tiling(p))
    chip = mirror.apply(Chip(), "load_q", 0, 0)
    moved = stayed = 0
    for iteration in range(8):
        before = chip.m
        chip = mirror.iterate(chip, 0, 0, iteration)
        top = chip.s.max(axis=1) * mirror.qk_scale
        np.testing.assert_array_equal(chip.m, np.where(top - before > 8, top, before))
        moved += int((chip.m > before).sum())
        stayed += int(((top > before) & (chip.m == before)).sum())
    assert moved >= 64
    assert stayed > 0


def test_lifting_float16_is_numpys_cast():
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    for x in (finite, every, finite[:0], finite.reshape(-1, 64)[::3]):
        np.testing.assert_array_equal(lift(x), x.astype(np.float32))
