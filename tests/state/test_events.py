"""Where jumps lead: compared with a plain walk over every step, and without work where nothing can happen."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.inputs import NUMPY_DTYPES, Inputs
from kernel.mirror import Chip, Mirror
from kernel.problem import Problem
from kernel.tiling import STEPS, Tiling
from tests.strategies import hopper_problems, problems
from visualizer.events import EVENTS, find, search
from visualizer.moves import by_step_name
from visualizer.tape import Tape

LARGE = Problem(seqlen_q=1 << 16, seqlen_k=1 << 16, heads=1, kv_heads=1, head_dim=16, block_m=256, block_n=256)
WRITES = {
    "load_q": "q", "load_k": "k", "scores": "s", "exponentiate": "p", "denominator": "l", "load_v": "v",
    "accumulate": "acc", "store": "o",
}  # fmt: skip


def happens(tape: Tape, row: int) -> dict[str, list[int]]:
    """The steps of every event, from one plain run."""
    found = {event: [] for event in EVENTS}
    chip = Chip()
    for i in range(len(tape)):
        head, block, iteration, step = tape.tiling.locate(i)
        tile = tape.tiling.tile(block, iteration) if iteration >= 0 else -1
        chip = tape.mirror.apply(Chip() if step == "load_q" else chip, step, head, block, tile)
        start, end = tape.tiling.rows(block)
        at = min(row, end - start - 1)
        if step == "mask":
            found["partial tile"].append(i)
        if step == "store":
            found["store"].append(i)
        if step == "row_max" and np.isfinite(chip.m[at]) and chip.m_new[at] > chip.m[at]:
            found["max moved"].append(i)
        if step in WRITES and not np.isfinite(getattr(chip, WRITES[step])).all():
            found["non-finite"].append(i)
    return found


def assert_found(tape: Tape, row: int, data: st.DataObject) -> None:
    for event, places in happens(tape, row).items():
        for index in data.draw(st.lists(st.integers(0, len(tape) - 1), min_size=4, max_size=4)):
            assert find(tape, index, event, row) == next((i for i in places if i > index), None)
            before = [i for i in places if i < index]
            assert find(tape, index, event, row, forward=False) == (before[-1] if before else None)


@given(problems(min_rows=1, max_seqlen=100) | hopper_problems(max_seqlen=200), st.data())
@settings(max_examples=15, deadline=None)
def test_events_are_found_where_they_are(p: Problem, data: st.DataObject) -> None:
    if len(Tape(p)):
        assert_found(Tape(p), data.draw(st.integers(0, p.block_m - 1)), data)


@given(
    problems(min_rows=1, max_seqlen=100) | hopper_problems(max_seqlen=200),
    st.sampled_from([np.nan, np.inf, -np.inf, "largest", "equal", "lowest"]),
    st.data(),
)
@settings(max_examples=40, deadline=None)
def test_events_are_found_among_extreme_values(p: Problem, value: float | str, data: st.DataObject) -> None:
    whole = Inputs(p)
    tensors = {name: whole.stacked(name) for name in "qkv"}
    largest = ml_dtypes.finfo(NUMPY_DTYPES[p.dtype]).max
    name = data.draw(st.sampled_from("qkv"))
    if value == "equal":
        tensors = {name: np.ones_like(x) for name, x in tensors.items()}
    elif tensors[name].size:
        at = data.draw(st.integers(0, tensors[name].size - 1))
        tensors[name].reshape(-1)[at] = {"largest": largest, "lowest": -largest}.get(str(value), value)
    tape = Tape(p)
    tape.inputs = Inputs(p, tensors)
    tape.mirror = Mirror(tape.inputs, tape.tiling)
    if len(tape):
        assert_found(tape, data.draw(st.integers(0, p.block_m - 1)), data)


@given(problems(min_rows=1) | hopper_problems(), st.sampled_from(STEPS), st.data())
@settings(deadline=None)
def test_a_step_is_found_by_its_name(p: Problem, name: str, data: st.DataObject) -> None:
    tiling = Tiling(p)
    if not len(tiling):
        return
    index = data.draw(st.integers(0, len(tiling) - 1))
    places = [i for i in range(len(tiling)) if tiling.locate(i).step == name]
    assert by_step_name(tiling, index, name, True) == next((i for i in places if i > index), None)
    assert by_step_name(tiling, index, name, False) == next((i for i in reversed(places) if i < index), None)


def test_the_first_not_finite_value_is_found(tmp_path: Path) -> None:
    q = np.ones((1, 1, 40, 16), np.float32)
    v = q.copy()
    v[0, 0, 20, 3] = np.nan
    np.savez(tmp_path / "t.npz", q=q, k=q, v=v)
    p = Problem(heads=1, kv_heads=1, seqlen_q=40, seqlen_k=40, head_dim=16, dtype="float32", block_m=16, block_n=16)
    tape = Tape(p.change(inputs=str(tmp_path / "t.npz")))
    index = find(tape, 0, "non-finite", 0)
    assert index is not None
    assert tape.tiling.locate(index) == (0, 1, 1, "load_v")


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_finite_inputs_hold_no_nan_and_no_tile_is_run_to_see_it(
    monkeypatch: pytest.MonkeyPatch, forward: bool, dtype: str
) -> None:
    tape = Tape(LARGE.change(dtype=dtype))
    monkeypatch.setattr(Mirror, "apply", None)
    monkeypatch.setattr(Mirror, "advance", None)
    looks = list(search(tape, len(tape) // 2, "non-finite", 0, forward=forward))
    assert set(looks) == {None}


def test_only_tiles_near_the_maximum_are_run_to_see_it_move(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = Tape(LARGE.change(causal=False))
    scores, apply = [], Mirror.apply
    monkeypatch.setattr(
        Mirror, "apply", lambda self, chip, step, *at: (scores.append(at), apply(self, chip, step, *at))[1]
    )
    moves, at = [], tape.tiling.program_start(0, 255)
    while (step := find(tape, at, "max moved", 3)) is not None:
        moves.append(tape.tiling.locate(step).iteration)
        at = step
    keys = tape.inputs.k(0).astype(np.float32).reshape(256, 256, 16)
    tops = (keys @ tape.inputs.q(0)[255 * 256 + 3].astype(np.float32)).max(1)
    assert moves == list(1 + np.flatnonzero(tops[1:] > np.maximum.accumulate(tops)[:-1]))
    assert len(scores) < 8 * 3 * (len(moves) + 2) ** 2
