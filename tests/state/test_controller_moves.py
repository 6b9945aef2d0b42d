"""Moves on the tape: by tile and by program, forwards and back, and from one problem to another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.problem import Problem
from kernel.tiling import LOOP_STEPS, Position, Tiling
from tests.strategies import problems
from visualizer import moves

TOY = Problem(heads=2, kv_heads=2, seqlen_q=64, seqlen_k=64, head_dim=16, block_m=16, block_n=16)


@given(problems(min_rows=1), st.data())
def test_every_tile_is_met_once_going_forward(problem: Problem, data: st.DataObject) -> None:
    tiling = Tiling(problem)
    index, met = 0, []
    while (following := moves.by_tile(tiling, index, True)) != index:
        position = tiling.locate(following)
        assert following > index
        met.append(position[:3])
        index = following
    tiles = [
        (head, block, i)
        for head in range(problem.num_heads)
        for block in range(tiling.num_q_blocks)
        for i in range(tiling.visited[block])
    ]
    assert met == tiles


@given(problems(min_rows=1), st.data())
def test_back_by_a_tile_undoes_forward(problem: Problem, data: st.DataObject) -> None:
    tiling = Tiling(problem)
    index = data.draw(st.integers(0, len(tiling) - 1))
    position = tiling.locate(index)
    following = moves.by_tile(tiling, index, True)
    if position.step in LOOP_STEPS and position.step != "mask" and following != index:
        assert tiling.locate(following).step == position.step
        assert moves.by_tile(tiling, following, False) == index


@given(problems(min_rows=1), st.data())
def test_programs_are_walked_in_launch_order(problem: Problem, data: st.DataObject) -> None:
    tiling = Tiling(problem)
    starts = [int(start) for start in tiling.bands[:-1]]
    index, walked = 0, [0]
    while (following := moves.by_program(tiling, index, True)) != index:
        walked.append(index := following)
    assert walked == starts
    inside = data.draw(st.integers(0, len(tiling) - 1))
    back = moves.by_program(tiling, inside, False)
    assert back == max([start for start in starts if start < inside], default=0)


def test_a_mask_becomes_the_scores_of_a_full_tile() -> None:
    tiling = Tiling(TOY)
    masked = tiling.index(Position(0, 2, 2, "mask"))
    assert tiling.locate(moves.by_tile(tiling, masked, False)) == (0, 2, 1, "scores")


@given(problems(), problems(), st.data())
def test_a_position_is_carried_to_the_nearest_of_another_problem(a: Problem, b: Problem, data: st.DataObject) -> None:
    old, new = Tiling(a), Tiling(b)
    if not len(old):
        assert moves.carry(old, 0, new) == 0
        return
    index = data.draw(st.integers(0, len(old) - 1))
    carried = moves.carry(old, index, new)
    assert 0 <= carried < max(1, len(new))
    if not len(new):
        return
    before, after = old.locate(index), new.locate(carried)
    assert (after.head, after.block) == (min(before.head, b.num_heads - 1), min(before.block, new.num_q_blocks - 1))
    if before.step in LOOP_STEPS and after.step in LOOP_STEPS:
        assert after.iteration == min(before.iteration, new.visited[after.block] - 1)
        assert after.step in (before.step, "scores")


@pytest.mark.parametrize("forward", [True, False])
def test_no_tile_at_all_means_no_move(forward: bool) -> None:
    tiling = Tiling(Problem(heads=1, kv_heads=1, seqlen_q=40, seqlen_k=0, block_m=16, block_n=16))
    assert moves.by_tile(tiling, 4, forward) == 4
