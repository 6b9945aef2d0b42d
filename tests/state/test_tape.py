import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.inputs import Inputs
from kernel.mirror import Chip, Mirror
from kernel.problem import Problem
from kernel.tiling import Position, Tiling
from tests.strategies import hopper_problems, problems
from visualizer.events import find
from visualizer.tape import Tape


def same(a: Chip, b: Chip) -> bool:
    pairs = [(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(Chip)]
    return all((x is None) == (y is None) and (x is None or np.array_equal(x, y, equal_nan=True)) for x, y in pairs)


def walk(p: Problem) -> list[Chip]:
    """The chip after every step, from one plain run."""
    tiling = Tiling(p)
    mirror = Mirror(Inputs(p), tiling)
    chips, chip = [], Chip()
    for index in range(len(tiling)):
        head, block, iteration, step = tiling.locate(index)
        tile = tiling.tile(block, iteration) if iteration >= 0 else -1
        chip = mirror.apply(Chip() if step == "load_q" else chip, step, head, block, tile)
        chips.append(chip)
    return chips


@given(problems(min_rows=1) | hopper_problems(), st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_any_order_of_looking_gives_the_same_chips(p, random):
    chips = walk(p)
    tape = Tape(p)
    assert len(tape) == len(chips)
    for index in random.choices(range(len(tape)), k=40):
        assert same(tape[index].chip, chips[index])
    assert all(same(tape[i].chip, chips[i]) for i in reversed(range(len(tape))))


def test_history_holds_the_finished_iterations():
    p = Problem(seqlen_q=128, seqlen_k=512, heads=1, kv_heads=1, causal=False, distribution="rising")
    tape = Tape(p)
    chips = walk(p)
    for index in range(len(tape)):
        done = [i for i in range(index + 1) if tape.tiling.locate(i).step == "accumulate"]
        history = tape.history(index)
        assert len(history.m) == len(done)
        for row, i in enumerate(done):
            np.testing.assert_array_equal(history.m[row], chips[i].m)
            np.testing.assert_array_equal(history.alpha[row], chips[i].alpha)
            np.testing.assert_array_equal(history.l[row], chips[i].l)


def test_lse_appears_row_by_row_and_does_not_depend_on_the_way_taken():
    p = Problem(seqlen_q=300, seqlen_k=300, heads=2)
    tape = Tape(p)
    while tape.fill(1):
        pass
    assert tape.programs_filled == tape.tiling.num_programs
    assert np.isfinite(tape.lse).all()
    for index in (0, 40, len(tape) - 1):
        head, block, _, step = tape.tiling.locate(index)
        stored = min(300, (block + (step == "store")) * 128)
        lse = tape.lse_until(index, head)
        assert np.isfinite(lse[:stored]).all()
        assert np.isnan(lse[stored:]).all()
        other = tape.lse_until(index, 1 - head)
        assert np.isnan(other).all() if head == 0 else np.isfinite(other).all()
    assert np.abs(tape.exact_lse - tape.lse).max() < 1e-5


def test_a_store_that_is_looked_at_is_known_without_filling():
    tape = Tape(Problem(seqlen_q=128, seqlen_k=128))
    store = find(tape, 0, "store", 0)
    assert store is not None
    assert np.isfinite(tape.lse_until(store, 0)).all()
    assert np.isnan(tape.lse_until(store - 1, 0)).all()


def test_positions_outside_are_refused():
    with pytest.raises(IndexError):
        Tape(Problem())[10**9]
    assert len(Tape(Problem(seqlen_q=0))) == 0


def test_checkpoints_of_the_background_give_the_same_chips(monkeypatch):
    p = Problem(seqlen_q=128, seqlen_k=1600, heads=1, kv_heads=1, causal=False, block_m=64, block_n=16, head_dim=16)
    monkeypatch.setattr("visualizer.tape.MIN_SPACING", 16)
    plain, helped = Tape(p), Tape(p)
    while helped.fill(1):
        pass
    for index in (700, 850, 60, 905):
        assert same(helped[index].chip, plain[index].chip)
        expected = plain.history(index)
        while True:
            history = helped.history(index)
            if not helped.fill(1):
                break
        np.testing.assert_array_equal(history.m, expected.m)
        np.testing.assert_array_equal(history.l, expected.l)
    assert not np.isnan(plain.history(905).alpha).any()


def test_a_far_seek_shows_a_history_with_gaps_that_the_background_fills(monkeypatch):
    p = Problem(seqlen_q=64, seqlen_k=1600, heads=1, kv_heads=1, causal=False, block_m=64, block_n=16, head_dim=16)
    monkeypatch.setattr("visualizer.tape.MIN_SPACING", 16)
    tape = Tape(p)
    while tape.fill(1):
        pass
    assert np.isnan(tape.history(850).m[0]).all()
    assert np.isfinite(tape.history(850).m[-1]).all()
    while tape.fill(1):
        pass
    assert np.isfinite(tape.history(850).m).all()


FAR = Problem(seqlen_q=64, seqlen_k=3200, heads=2, kv_heads=2, causal=False, block_m=64, block_n=16, head_dim=16)


def test_a_far_step_is_reached_in_pieces(monkeypatch):
    monkeypatch.setattr("visualizer.tape.NEAR_WORK", 0)
    monkeypatch.setattr("visualizer.tape.NEAR_NUMBERS", 0)
    tape, plain = Tape(FAR), Tape(FAR)
    target = tape.tiling.index(Position(1, 0, 190, "denominator"))
    assert not tape.is_near(target)
    assert tape.place(target) == (target, Position(1, 0, 190, "denominator"), 190, Chip())
    left = [tape.tiles_to(target)]
    while not tape.reach(target, 0):
        left.append(tape.tiles_to(target))
    assert tape.is_near(target) and tape.tiles_to(target) == 0
    assert left[0] == 190 and left == sorted(left, reverse=True)
    assert len(set(left)) > 5
    assert same(tape[target].chip, plain[target].chip)
    assert same(tape.before(target), plain.before(target))


def test_a_way_that_is_given_up_leaves_what_it_has_run(monkeypatch):
    monkeypatch.setattr("visualizer.tape.NEAR_WORK", 0)
    tape, plain = Tape(FAR), Tape(FAR)
    far, farther = (tape.tiling.index(Position(0, 0, i, "load_k")) for i in (150, 199))
    while tape.tiles_to(far) > 20:
        assert not tape.reach(far, 0)
    assert tape.reach(0, 1)
    assert tape.tiles_to(farther) < 100
    while not tape.reach(farther, 0):
        pass
    for index in (farther, far, far - 300):
        assert same(tape[index].chip, plain[index].chip)


def test_the_place_of_a_store_shows_no_lse_that_is_not_known():
    tape = Tape(FAR)
    store = find(tape, 0, "store", 0)
    assert store is not None
    assert np.isnan(tape.lse_until(store, 0, run=False)).all()
    assert np.isfinite(tape.lse_until(store, 0)).all()
