"""Undo and redo: what belongs together goes together, and nothing is lost."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from visualizer.past import DEPTH, Past
from visualizer.state import State


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def take(past: Past, states: list[State], clock: Clock, seconds: float) -> State:
    for before, after in pairwise(states):
        clock.now += seconds
        past.note(before, after)
    return states[-1]


def test_single_steps_are_one_act_however_slow() -> None:
    past = Past(clock := Clock())
    last = take(past, [State(step=i) for i in range(10, 20)], clock, 30)
    assert past.undo(last) == State(step=10)
    assert not past.can_undo


def test_far_jumps_are_acts_of_their_own() -> None:
    past = Past(clock := Clock())
    last = take(past, [State(step=i) for i in (0, 100, 50)], clock, 30)
    assert past.undo(last) == State(step=100)
    assert past.undo(State(step=100)) == State(step=0)


def test_a_scrub_is_one_act() -> None:
    past = Past(clock := Clock())
    last = take(past, [State(step=i) for i in (0, 30, 80, 140)], clock, 0.05)
    assert past.undo(last) == State(step=0)


def test_a_number_being_typed_is_one_act_even_as_the_step_moves_along() -> None:
    past = Past(clock := Clock())
    states = [State(step=90), *(State(step=s).change(seqlen_q=n) for n, s in ((12, 3), (128, 20), (512, 90)))]
    assert past.undo(take(past, states, clock, 0.3)) == State(step=90)


def test_other_fields_are_other_acts() -> None:
    past = Past(clock := Clock())
    states = [State(), State(step=1), State(step=1, row=4), State(step=2, row=4)]
    now = take(past, states, clock, 0.01)
    for expected in (states[2], states[1], states[0]):
        restored = past.undo(now)
        assert restored == expected
        now = expected


def test_stepping_on_after_an_undo_starts_anew() -> None:
    past = Past(clock := Clock())
    now = past.undo(take(past, [State(step=0), State(step=1), State(step=2)], clock, 0.1))
    assert now == State(step=0)
    past.note(State(step=0), State(step=1))
    assert not past.can_redo
    assert past.undo(State(step=1)) == State(step=0)


def test_there_and_back_leaves_nothing_to_undo() -> None:
    past = Past(clock := Clock())
    now = take(past, [State(step=5), State(step=9), State(step=10), State(step=9)], clock, 30)
    assert past.undo(now) == State(step=5)
    past = Past(clock)
    now = take(past, [State(step=1), State(step=2), State(step=1), State(step=2)], clock, 0.1)
    assert past.undo(now) == State(step=1)
    assert not past.can_undo


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["step", "row"]), st.sampled_from([0.1, 30.0])), max_size=30)
)
def test_every_undo_changes_something(acts: list[tuple[int, str, float]]) -> None:
    past = Past(clock := Clock())
    now = State(step=9)
    for value, field, seconds in acts:
        now = take(past, [now, now.change(**{field: value})], clock, seconds)
    while past.can_undo:
        before = past.undo(now)
        assert before is not None
        assert before != now
        now = before
    assert now == State(step=9)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_undo_to_the_start_and_redo_to_the_end(rows: list[int]) -> None:
    past = Past(clock := Clock())
    states = [State(step=7), *(State(step=7, row=row) for row in rows)]
    now = take(past, states, clock, 5)
    end, visited = now, [now]
    while (state := past.undo(now)) is not None:
        visited.append(now := state)
    assert now == states[0]
    back = [now]
    while (state := past.redo(now)) is not None:
        back.append(now := state)
    assert now == end
    assert back == visited[::-1]


def test_the_past_is_bounded() -> None:
    past = Past(clock := Clock())
    now = take(past, [State(step=1, row=row) for row in range(DEPTH + 50)], clock, 5)
    count = 0
    while (state := past.undo(now)) is not None:
        now, count = state, count + 1
    assert count == DEPTH
