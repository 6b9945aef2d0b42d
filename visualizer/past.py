"""Undo: the States that were, with what belongs together taken back together."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from typing import Final

from kernel.problem import FIELDS
from visualizer.state import State

DEPTH: Final = 200
TOGETHER_SECONDS: Final = 1.0


class Past:
    """What undo and redo lead to.

    Changes of the same fields are one act when they follow within a second (a scrub, a number being typed), and so
    are single steps, however slow: undo then leads to where the stepping began.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._undo: list[State] = []
        self._redo: list[State] = []
        self._last: frozenset[str] = frozenset()
        self._when = -1e9

    @property
    def can_undo(self) -> bool:
        return bool(self._undo)

    @property
    def can_redo(self) -> bool:
        return bool(self._redo)

    def note(self, before: State, after: State) -> None:
        """Remembers a change that a person has made."""
        changed, now = changed_fields(before, after), self._clock()
        if not changed:
            return
        single = changed == {"step"} and abs(after.step - before.step) == 1
        together = changed == self._last and bool(self._undo) and (single or now - self._when < TOGETHER_SECONDS)
        self._redo.clear()
        if not together:
            self._undo.append(before)
            del self._undo[:-DEPTH]
        elif self._undo[-1] == after:  # there and back: nothing is left to undo
            self._undo.pop()
            changed = frozenset()
        self._last, self._when = changed, now

    def undo(self, now: State) -> State | None:
        """The state before the last act; None when there is none."""
        return self._back(self._undo, self._redo, now)

    def redo(self, now: State) -> State | None:
        """The state that undo left; None when there is none."""
        return self._back(self._redo, self._undo, now)

    def _back(self, source: list[State], target: list[State], now: State) -> State | None:
        if not source:
            return None
        target.append(now)
        self._last = frozenset()
        return source.pop()


def changed_fields(a: State, b: State) -> frozenset[str]:
    """The names of what differs. A new problem moves the step along, so beside another field the step is not named."""
    names = {f.name for f in fields(State) if f.name != "problem" and getattr(a, f.name) != getattr(b, f.name)}
    names |= {name for name in FIELDS if getattr(a.problem, name) != getattr(b.problem, name)}
    return frozenset(names - {"step"} if len(names) > 1 else names)
