"""Playing: the right number of steps whatever the frame rate, and no catching up after a stall."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.playback import FASTEST, LONGEST_TICK, SLOWEST, Playback


class Player:
    """A Playback on a clock of its own, ticked by hand."""

    def __init__(self, speed: float) -> None:
        self.now = 0.0
        self.steps = 0
        self.playback = Playback(speed, lambda: self.now)
        self.playback.due.connect(self._count)
        self.playback.play()

    def _count(self, steps: int) -> None:
        self.steps += steps

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.playback.tick()


@given(st.floats(SLOWEST, 5000), st.lists(st.floats(0.001, LONGEST_TICK), min_size=1, max_size=60))
def test_the_speed_is_kept_whatever_the_frame_rate(qapp, speed: float, ticks: list[float]) -> None:
    player = Player(speed)
    for seconds in ticks:
        player.after(seconds)
    assert abs(player.steps - sum(ticks) * speed) <= 1 + 1e-6 * player.steps
    player.playback.pause()


def test_a_stall_is_not_made_up_for(qapp) -> None:
    player = Player(100)
    player.after(60)
    assert player.steps == pytest.approx(100 * LONGEST_TICK)
    player.playback.pause()


def test_a_slow_speed_steps_all_the_same(qapp) -> None:
    player = Player(SLOWEST)
    for _ in range(100):
        player.after(0.2)
    assert player.steps == 5
    player.playback.pause()


def test_play_pause_and_toggle_tell(qtbot) -> None:
    playback = Playback(4)
    told: list[bool] = []
    playback.playing_changed.connect(told.append)
    playback.toggle()
    playback.play()
    playback.toggle()
    playback.pause()
    assert told == [True, False]
    assert not playback.is_playing


def test_a_pause_leaves_no_debt(qapp) -> None:
    player = Player(10)
    player.after(0.09)
    player.playback.pause()
    player.now += 100
    player.playback.play()
    player.after(0.05)
    assert player.steps == 0
    player.playback.pause()


@pytest.mark.parametrize(("asked", "taken"), [(0, SLOWEST), (-3, SLOWEST), (7.5, 7.5), (1e9, FASTEST)])
def test_speeds_are_limited(qapp, asked: float, taken: float) -> None:
    playback = Playback(4)
    playback.speed = asked
    assert playback.speed == taken


def test_it_really_ticks(qtbot) -> None:
    playback = Playback(200)
    with qtbot.waitSignal(playback.due, timeout=5000):
        playback.play()
    playback.pause()
