"""The kernel's runs as the window sees them: one RunView, kept up to date from the worker's messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from PySide6.QtCore import QObject, Signal

from kernel.problem import Problem
from visualizer.frame import RunView


class Worker(Protocol):
    """What is needed of WorkerClient; `run` returns the number that its messages will carry."""

    ready: Any
    progress: Any
    finished: Any
    failed: Any
    died: Any

    def run(self, problem: Problem) -> int: ...
    def cancel(self) -> None: ...


class Runs(QObject):
    """Starts and cancels runs; messages that carry another number than the current run's are dropped."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._view = RunView()
        self._number: int | None = None
        self._worker: Worker | None = None
        self._waiting: Problem | None = None
        self._ran: Problem | None = None
        self.problem: Problem | None = None

    @property
    def view(self) -> RunView:
        stale = self._view.result is not None and self._ran is not None and self._ran != self.problem
        return replace(self._view, stale=stale)

    @property
    def is_running(self) -> bool:
        return self._view.phase == "running"
