import dataclasses

import numpy as np
import pytest

from kernel.problem import Problem
from kernel.tiling import STEPS
from visualizer.events import find
from visualizer.frame import Frame, RunView
from visualizer.presets import PRESETS
from visualizer.resolve import resolve
from visualizer.state import OPENING, State
from visualizer.steps import SENTENCES
from visualizer.tape import Tape


def filled(problem: Problem) -> Tape:
    tape = Tape(problem)
    while tape.fill(1):
        pass
    return tape


def equal(a: object, b: object) -> bool:
    """Whether two frames, or parts of them, show the same."""
    if dataclasses.is_dataclass(a) and not isinstance(a, type):
        return type(a) is type(b) and all(equal(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return (
            isinstance(a, np.ndarray)
            and isinstance(b, np.ndarray)
            and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        )
    return a == b


def frame(step: int, problem: Problem | None = None, **options) -> Frame:
    problem = problem or Problem()
    return resolve(State(problem=problem, step=step, row=17, **options), Tape(problem), RunView())


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_stepping_back_shows_the_same_frames(preset):
    forwards, backwards = filled(preset.state.problem), filled(preset.state.problem)
    count = len(forwards)
    frames = [resolve(preset.state.change(step=i), forwards, RunView()) for i in range(count)]
    for i in reversed(range(count)):
        assert equal(resolve(preset.state.change(step=i), backwards, RunView()), frames[i]), i


def test_frames_tell_different_steps_apart():
    assert not equal(frame(5), frame(6))


def test_every_step_has_words_and_source_lines():
    assert set(SENTENCES) == set(STEPS)
    tape = filled(Problem())
    for index in range(40):
        shown = resolve(OPENING.change(step=index), tape, RunView())
        assert shown.source is not None
        assert shown.transport is not None
        assert shown.source.lines
        assert shown.transport.sentence == SENTENCES[tape[index].position.step][1]


def test_row_max_is_worked_out_with_the_tapes_own_numbers():
    tape = Tape(Problem())
    index = find(tape, 0, "max moved", 17)
    assert index is not None
    shown = resolve(OPENING.change(step=index), tape, RunView())
    chip = tape[index].chip
    old, new = chip.m[17], chip.m_new[17]
    assert shown.chip is not None
    line = next(e for e in shown.chip.equations if e.quantity == "m")
    assert f"max({old:.4g}, {new:.4g}) = {new:.4g}" in line.text
    assert line.note == "moved"
    assert shown.source is not None
    moved = int((chip.m_new > chip.m).sum())
    assert shown.source.note == f"m_new[17] = {new:.4g}   moved in {moved} of 128 rows"
    assert shown.rows is not None
    assert shown.rows.moved == moved


def test_a_tile_says_at_each_of_its_steps_how_many_rows_it_has_moved():
    p = Problem(heads=1, kv_heads=1, seqlen_q=70, seqlen_k=96, head_dim=16, block_m=32, block_n=16)
    tape, moved = Tape(p), {}
    for index in range(len(tape)):
        _, block, iteration, step = tape[index].position
        rows = resolve(State(problem=p, step=index), tape, RunView()).rows
        assert rows is not None
        known = iteration >= 0 and STEPS.index(step) >= STEPS.index("row_max")
        assert (rows.moved is not None) == known
        if step == "row_max":
            chip, count = tape[index].chip, rows.rows[1] - rows.rows[0]
            moved[block, iteration] = int((chip.m_new > chip.m)[:count].sum())
        if known:
            assert rows.moved == moved[block, iteration], (index, step)
    assert len(set(moved.values())) > 2


def test_arrays_are_cut_to_what_exists():
    p = Problem(seqlen_q=300, seqlen_k=77, head_dim=48, block_m=64, heads=1, kv_heads=1)
    tape = filled(p)
    shown = resolve(State(problem=p, step=tape.tiling.program_start(0, 4) + 16, row=63), tape, RunView())
    assert shown.chip is not None
    assert shown.tiles is not None
    assert shown.chip.rows == (256, 300)
    assert shown.chip.row == 43
    assert shown.chip.q.shape == (44, 48)
    assert shown.chip.k.shape == (13, 48)
    assert shown.chip.matrix.shape == (44, 13)
    assert list(shown.tiles.visited) == [0, 0, 0, 1, 2]
    assert shown.tiles.skipped == 7


def test_rows_that_see_no_key_say_so():
    p = Problem(seqlen_q=300, seqlen_k=77, heads=1, kv_heads=1, block_m=64)
    tape = filled(p)
    shown = resolve(State(problem=p, step=2), tape, RunView())
    assert shown.chip is not None
    assert shown.lse is not None
    assert [e.text for e in shown.chip.equations] == [
        "m = −∞",
        "l = 0",
        "acc[0] = 0",
        "o = 0",
        "L = m + log₂ l = −∞ + log₂ 0 = −∞",
    ]
    assert (shown.lse.mirror[:64] == -np.inf).all()
    assert (shown.lse.difference[:64] == 0).all()
    assert shown.lse.max_mirror_exact == 0


def test_natural_log_scales_values_and_differences():
    tape = filled(Problem())
    last = len(tape) - 1
    two = resolve(OPENING.change(step=last), tape, RunView()).lse
    e = resolve(OPENING.change(step=last, lse_unit="ln"), tape, RunView()).lse
    assert two is not None
    assert e is not None
    np.testing.assert_allclose(e.mirror, two.mirror * np.log(2), rtol=1e-6)
    assert e.unit == "ln"


def test_an_empty_problem_says_why():
    for change, word in (({"seqlen_q": 0}, "seqlen_q is 0"), ({"batch": 0}, "batch is 0")):
        p = Problem(**change)
        shown = resolve(State(problem=p), Tape(p), RunView())
        assert word in (shown.empty or "")
        assert shown.chip is None


def test_the_ledger_ends_at_its_totals_and_beats_the_textbook():
    tape = filled(Problem())
    ledger = resolve(OPENING.change(step=len(tape) - 1), tape, RunView()).ledger
    assert ledger is not None
    assert (ledger.read, ledger.written, ledger.flops) == (
        ledger.total_read,
        ledger.total_written,
        ledger.total_flops,
    )
    assert ledger.read < ledger.naive_read
    assert ledger.intensity == ledger.flops / (ledger.read + ledger.written)


def test_steps_and_rows_outside_are_clipped():
    shown = frame(10**9)
    assert shown.transport is not None
    assert shown.transport.index == shown.transport.total - 1
    assert shown.chip is not None
    assert resolve(State(step=0, row=999), Tape(Problem()), RunView()).chip.row == 127


def test_l_is_handed_on_unchanged_while_nothing_new_is_known():
    p = Problem()
    tape = filled(p)
    start = tape.tiling.program_start(0, 2)
    first = resolve(State(problem=p, step=start), tape, RunView()).lse
    second = resolve(State(problem=p, step=start + 5, row=9), tape, RunView()).lse
    assert first is not None
    assert second is not None
    assert second.row == 256 + 9
    assert all(getattr(first, name) is getattr(second, name) for name in ("mirror", "exact", "difference"))
    later = resolve(State(problem=p, step=tape.tiling.program_start(0, 3)), tape, RunView()).lse
    assert later is not None
    assert later.mirror is not first.mirror
    assert later.exact is first.exact
    assert later.stored_rows == 384


def test_l_kept_from_another_head_or_unit_is_not_shown():
    tape = filled(Problem())
    one = resolve(OPENING.change(step=len(tape) - 1), tape, RunView()).lse
    zero = resolve(OPENING.change(step=tape.tiling.steps_per_head - 1), tape, RunView()).lse
    natural = resolve(OPENING.change(step=tape.tiling.steps_per_head - 1, lse_unit="ln"), tape, RunView()).lse
    assert one is not None
    assert zero is not None
    assert natural is not None
    np.testing.assert_array_equal(one.mirror, tape.lse[1])
    np.testing.assert_array_equal(zero.mirror, tape.lse[0])
    np.testing.assert_allclose(natural.mirror, tape.lse[0] * np.log(2), rtol=1e-6)


def test_l_found_while_filling_is_shown():
    p = Problem()
    tape = Tape(p)
    last = tape.tiling.program_start(0, 7)
    before = resolve(State(problem=p, step=last), tape, RunView()).lse
    while tape.fill(1):
        pass
    after = resolve(State(problem=p, step=last), tape, RunView()).lse
    assert before is not None
    assert after is not None
    assert np.isnan(before.mirror).all()
    assert (before.stored_rows, after.stored_rows) == (0, 896)
    assert after.max_mirror_exact is not None


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_axes_of_l_hold_all_that_is_known(preset):
    tape = filled(preset.state.problem)
    view = resolve(preset.state.change(step=len(tape) - 1), tape, RunView()).lse
    assert view is not None
    known = view.mirror[np.isfinite(view.mirror)]
    assert ((known >= view.value_range[0]) & (known <= view.value_range[1])).all()
    assert np.nanmax(np.abs(view.difference)) <= view.difference_range
    assert view.blind_rows == (view.mirror == -np.inf).sum()


def test_bytes_on_the_chip_are_those_of_the_padded_tiles():
    p = Problem(seqlen_q=40, seqlen_k=40, head_dim=20, block_m=32, block_n=16, dtype="bfloat16")
    tape = Tape(p)
    chip = resolve(State(problem=p, step=3), tape, RunView()).chip
    assert chip is not None
    expected = {
        "q": 32 * 32 * 2,
        "k": 16 * 32 * 2,
        "s": 32 * 16 * 4,
        "m": 128,
        "m_new": 128,
        "l": 128,
        "acc": 32 * 32 * 4,
    }
    step = tape.tiling.locate(3).step
    if step in ("scores", "mask"):
        expected.pop("m_new")
    assert dict(chip.held) == expected
    assert chip.held_bytes == sum(expected.values())
    assert chip.fits


def test_the_preset_whose_max_keeps_moving_moves_it_at_every_tile_of_its_row():
    preset = next(p for p in PRESETS if p.name == "Max keeps moving")
    tape = Tape(preset.state.problem)
    end = tape.tiling.program_start(0, 1) - 1
    frame = resolve(preset.state.change(step=end), tape, RunView())
    history = frame.rows.history_m
    assert len(history) == tape.tiling.num_k_blocks == 8
    assert (np.diff(history) > 0).all()
