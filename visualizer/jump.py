"""A jump to an event: what is not found at once is looked for in idle moments."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal

from visualizer.events import EVENTS, search
from visualizer.tape import Tape

LOOK_SECONDS: Final = 0.008
PATIENCE_SECONDS: Final = 0.3


class Jump(QObject):
    """Looks for one event at a time. `found` carries its step, `said` a sentence, or "" when the last one is over."""

    found = Signal(int)
    said = Signal(str)

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._look)
        self._search: Iterator[int | None] = iter(())
        self._event, self._forward = "", True
        self._began = 0.0
        self._has_spoken = False

    def start(self, tape: Tape, step: int, event: str, row: int, forward: bool) -> None:
        """Looks from `step` on for the next event (visualizer.events), or the previous one."""
        self.stop()
        self._search = search(tape, step, event, row, forward=forward)
        self._event, self._forward = event, forward
        self._began = time.monotonic()
        self._timer.start()
        self._look()

    @property
    def is_looking(self) -> bool:
        return self._timer.isActive()

    def stop(self) -> None:
        """Gives up what has not been found yet."""
        self._timer.stop()
        self._search = iter(())
        if self._has_spoken:
            self._has_spoken = False
            self.said.emit("")

    def arrive(self) -> None:
        """Looks until it has an answer."""
        while self.is_looking:
            self._look()

    def _look(self) -> None:
        end = time.perf_counter() + LOOK_SECONDS
        for step in self._search:
            if step is not None:
                self.stop()
                self.found.emit(step)
                return
            if time.perf_counter() >= end:
                self._speak()
                return
        self.stop()
        where = "from here to the end" if self._forward else "before this step"
        self.said.emit(f"There is no {EVENTS[self._event]} {where}.")

    def _speak(self) -> None:
        """Tells a person who has waited a moment what goes on."""
        if not self._has_spoken and time.monotonic() - self._began > PATIENCE_SECONDS:
            self._has_spoken = True
            which = "next" if self._forward else "previous"
            self.said.emit(f"Looking for the {which} {EVENTS[self._event]} …  Esc stops it.")
