"""Play: so many steps a second, whatever the frame rate."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QObject, Qt, QTimer, Signal

SLOWEST: Final = 0.25
FASTEST: Final = 100_000.0
FRAME_MS: Final = 16
LONGEST_TICK: Final = 0.25


class Playback(QObject):
    """Says how many steps are due. At most 60 times a second; above that speed several steps are due at once."""

    due = Signal(int)
    playing_changed = Signal(bool)

    def __init__(self, speed: float, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__()
        self._clock = clock
        self._speed = speed
        self._last = 0.0
        self._owed = 0.0
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self.tick)

    @property
    def is_playing(self) -> bool:
        return self._timer.isActive()

    @property
    def speed(self) -> float:
        """Steps per second."""
        return self._speed

    @speed.setter
    def speed(self, value: float) -> None:
        self._speed = min(max(value, SLOWEST), FASTEST)
        if self.is_playing:
            self._timer.start(self._interval())

    def play(self) -> None:
        if self.is_playing:
            return
        self._last, self._owed = self._clock(), 0.0
        self._timer.start(self._interval())
        self.playing_changed.emit(True)

    def pause(self) -> None:
        if not self.is_playing:
            return
        self._timer.stop()
        self.playing_changed.emit(False)

    def toggle(self) -> None:
        self.pause() if self.is_playing else self.play()

    def tick(self) -> None:
        """Emits the whole steps that are owed since the last tick; a stall is not made up for."""
        now = self._clock()
        self._owed += min(now - self._last, max(LONGEST_TICK, 1 / self._speed)) * self._speed
        self._last = now
        steps = int(self._owed + 1e-9)
        if steps:
            self._owed -= steps
            self.due.emit(steps)

    def _interval(self) -> int:
        return FRAME_MS if self._speed > 15 else max(FRAME_MS, min(round(250 / self._speed), 50))
