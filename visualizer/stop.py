"""Ctrl+C, SIGTERM and SIGHUP while pictures are made: raised within a widget's painting, Qt would swallow them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

# a terminal that is closed sends SIGHUP, which Windows does not have
KINDS: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def _nobody(done: int, total: int) -> None:
    """Nobody waits."""


# `settle` tells it, all the time, how many programs of the head at hand are done; what it raises ends the work
WATCHER: Final[ContextVar[Callable[[int, int], None]]] = ContextVar("watcher", default=_nobody)


class Stop:
    """Within it they are kept until `check`, which is called between two frames, and by `settle` all the time.

    It tells a person at a terminal how far settling has come.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}
        self._told = ""

    def __enter__(self) -> Stop:
        for kind in KINDS:
            if kind in (signal.SIGINT, signal.SIGTERM) or signal.getsignal(kind) is not signal.SIG_IGN:  # nohup
                self._before[kind] = signal.signal(kind, self._ask)
        self._token = WATCHER.set(self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        WATCHER.reset(self._token)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._told:
            print(file=sys.stderr)

    def _ask(self, kind: int, frame: object) -> None:
        self.asked = True

    def check(self) -> None:
        """Raises KeyboardInterrupt when the work shall end."""
        if self.asked:
            raise KeyboardInterrupt

    def _watch(self, done: int, total: int) -> None:
        self.check()
        then = ", now the exact values" if done == total else ""
        words = f"\rL of all rows: {done:,} of {total:,} programs{then}"
        if words != self._told and sys.stderr.isatty():
            print(words, end="", file=sys.stderr, flush=True)
            self._told = words
