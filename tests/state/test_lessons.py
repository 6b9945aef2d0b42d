import re

import pytest

from visualizer.frame import RunView
from visualizer.lessons import lessons
from visualizer.resolve import resolve
from visualizer.tape import Tape

SENTENCE = re.compile(r"[.:]( |$)")


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.title)
def test_stops_go_forward_and_fit_on_two_lines(lesson):
    steps = [stop.state.step for stop in lesson.stops]
    assert steps == sorted(set(steps))
    for stop in lesson.stops:
        assert SENTENCE.search(stop.text)
        assert len(stop.text) < 260


def test_online_softmax_says_what_its_frames_show():
    lesson = lessons()[0]
    assert lesson.title == "Online softmax, tile by tile"
    tape = Tape(lesson.stops[0].state.problem)
    frames = {f"{tape[s.state.step].position.iteration} {tape[s.state.step].position.step}": s for s in lesson.stops}

    def equations(key):
        chip = resolve(frames[key].state, tape, RunView()).chip
        assert chip is not None
        return {e.quantity: e for e in chip.equations}

    # "the second tile brings a larger score", "the maximum moves again, so alpha is below 1 again"
    assert equations("1 row_max")["m"].note == "moved"
    for key in ("1 alpha", "2 alpha"):
        moment = tape[frames[key].state.step]
        assert moment.chip.alpha is not None
        assert moment.chip.alpha[4] < 1
    assert (tape[frames["3 mask"].state.step].chip.keep == 0).any()
