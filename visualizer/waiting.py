"""What a person who waits for a worker reads on stderr: how far it has come, and first whether it will take long."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import Final

from kernel.expected import expected_seconds
from kernel.problem import Problem
from kernel.results import Hello
from kernel.tiling import Tiling
from visualizer.numbers import duration

KERNEL: Final = "running kernel"  # the one stage that can take long; the pace of the others foretells nothing
LONG_SECONDS: Final = 60.0
TICK_SECONDS: Final = 1.0
PIPE_SECONDS: Final = 10.0  # a log is not written over
MEASURED_SECONDS: Final = 3.0


class Waiting:
    """Within it a line of the terminal tells how far a run is, and is wiped at the end; a pipe gets one now and then.

    `progress` and `hello` are for call_worker.
    """

    def __init__(self, command: str, problem: Problem) -> None:
        self._command, self._problem = command, problem
        self._stage, self._fraction = "starting the worker", None
        self._since = self._began = time.monotonic()
        self._from: float | None = None
        self._lock, self._over = threading.Lock(), threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Waiting:
        self._terminal = sys.stderr.isatty()
        self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._ticker.join()
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def hello(self, where: Hello) -> None:
        """Warns before what Triton's interpreter needs minutes or days for."""
        if where.backend != "interpreter":
            return
        seconds = sum(expected_seconds(self._problem, False, False).values())
        if seconds > LONG_SECONDS:
            tiles = self._problem.num_heads * int(Tiling(self._problem).visited.sum())
            text = (
                f"Without a GPU the kernel runs in Triton's interpreter, which takes about {duration(seconds)} for "
                f"{tiles:,} tiles; Ctrl+C ends it, and fewer tokens or heads or a GPU (see --worker) are quicker."
            )
            with self._lock:
                wipe = "\r\x1b[K" if self._terminal else ""
                print(f"{wipe}flashscope {self._command}: {text}", file=sys.stderr, flush=True)

    def progress(self, stage: str, fraction: float | None) -> None:
        with self._lock:
            if stage != self._stage:
                self._since, self._from = time.monotonic(), fraction
            self._stage, self._fraction = stage, fraction
            if self._terminal:
                self._show()

    def _tick(self) -> None:
        while not self._over.wait(TICK_SECONDS if self._terminal else PIPE_SECONDS):
            with self._lock:
                self._show()

    def _show(self) -> None:
        words = self._words()
        if self._terminal:
            words = words[: shutil.get_terminal_size().columns - 1]
            print(f"\r\x1b[K{words}", end="", file=sys.stderr, flush=True)
        else:
            print(f"flashscope {self._command}: {words}", file=sys.stderr, flush=True)

    def _words(self) -> str:
        """12 %  running kernel · 40 s · about 5 min left."""
        now = time.monotonic()
        share = "" if self._fraction is None else f"{100 * self._fraction:3.0f} %  "
        parts = [f"{share}{self._stage}"]
        if now - self._began >= MEASURED_SECONDS:
            parts.append(duration(now - self._began))
        waited = self._stage == KERNEL and now - self._since >= MEASURED_SECONDS
        if waited and self._fraction is not None and self._from is not None:
            done = self._fraction - self._from
            if done > 0:
                parts.append(f"about {duration((1 - self._fraction) / done * (now - self._since))} left")
        return " · ".join(parts)
