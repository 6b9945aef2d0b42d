"""The kernel's runs as the window sees them: one RunView, kept up to date from the worker's messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Protocol

from PySide6.QtCore import QObject, Signal

from kernel.bench_saved import SavedBench
from kernel.inputs import Inputs
from kernel.problem import Problem
from kernel.results import Hello, RunResult
from visualizer.frame import RunView
from visualizer.saved import saved_view

STARTING: Final = "worker starting …"
STOPPED: Final = "worker stopped; the next run starts it"


class Worker(Protocol):
    """What is needed of a WorkerClient; see there for its signals."""

    ready: Any
    progress: Any
    finished: Any
    failed: Any
    died: Any
    silent: Any
    hello: Hello | None

    def start(self) -> None: ...
    def run(self, problem: Problem, inputs: Inputs | None = None) -> int: ...
    def cancel(self) -> None: ...
    def close(self) -> None: ...


class Runs(QObject):
    """Starts and cancels runs. A message that carries another number than the run's that is waited for is dropped."""

    changed = Signal()
    failed = Signal(str)
    said = Signal(str)

    def __init__(self, problem: Problem, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.view = RunView(worker="worker not started")
        self._problem = problem
        self._saved: SavedBench | None = None
        self._ran: Problem | None = None
        self._asked: Problem | None = None
        self._number: int | None = None
        self._stage = ""
        self._worker: Worker | None = None

    @property
    def is_running(self) -> bool:
        return self.view.phase == "running"

    def attach(self, worker: Worker) -> None:
        """Takes the worker, and starts it in the background."""
        self._worker = worker
        worker.ready.connect(self._ready)
        worker.progress.connect(self._progress)
        worker.finished.connect(self._finished)
        worker.failed.connect(self._failed)
        worker.died.connect(self._died)
        worker.silent.connect(self._silent)
        self._set(worker=STARTING)
        worker.start()

    def show_problem(self, problem: Problem) -> None:
        """Says which problem is shown: the result of another is stale, and is not when that is shown again."""
        self._problem = problem
        stale = self._is_stale
        if stale != self.view.stale:
            self.view = replace(self.view, stale=stale)
        if self._saved is not None:
            self.view = replace(self.view, saved=saved_view(self._saved, problem))

    def show_saved(self, saved: SavedBench | None) -> None:
        """Shows a benchmark from a file instead of this machine's run, or with None that run again."""
        self._saved = saved
        self._set(saved=None if saved is None else saved_view(saved, self._problem))

    def start(self, problem: Problem, inputs: Inputs | None = None) -> None:
        """Runs the kernel on `problem`; a run that is on its way is given up."""
        if self._worker is None:
            self.said.emit("The worker has not been started yet; try again in a moment.")
            return
        self._asked = problem
        self._number = self._worker.run(problem, inputs)
        self._stage, self._saved = "starting", None
        self._set(saved=None, phase="running", stage=self._stage, fraction=None, message="")

    def cancel(self) -> None:
        """Kills the run that is on its way; the result of an earlier one stays."""
        if self._worker is None or not self.is_running:
            return
        self._number = None
        self._worker.cancel()
        self._set(phase="cancelled", message="The run was cancelled.", worker=STOPPED)

    def close(self) -> None:
        """Ends the worker for good."""
        self._number = None
        if self._worker is not None:
            self._worker.close()

    @property
    def _is_stale(self) -> bool:
        return self._ran is not None and self._ran != self._problem

    def _set(self, **values: Any) -> None:
        self.view = replace(self.view, stale=self._is_stale, **values)
        self.changed.emit()

    def _ready(self, hello: Hello) -> None:
        versions = hello.versions.get("triton")
        device = f"{hello.device} · Triton {versions}" if versions else hello.device
        self._set(worker="worker ready" if hello.can_run else hello.reason, device=device)

    def _progress(self, number: int, stage: str, fraction: float | None) -> None:
        if number == self._number:
            self._stage = stage
            self._set(stage=stage, fraction=fraction)

    def _finished(self, number: int, result: RunResult) -> None:
        if number == self._number:
            self._number, self._ran = None, self._asked
            self._set(phase="done", stage="", fraction=None, message=result.sentence, result=result)

    def _failed(self, number: int, sentence: str) -> None:
        if number == self._number:
            self._number = None
            gone = self._worker is None or self._worker.hello is None
            worker = STOPPED if gone else self.view.worker
            self._set(phase="failed", stage="", fraction=None, message=sentence, worker=worker)
            self.failed.emit(sentence)

    def _silent(self, sentence: str) -> None:
        """What is waited for stands where the stage stands, and in the worker's line as long as that has no other."""
        if self.is_running:
            self._set(stage=sentence or self._stage)
        if self._worker is not None and self._worker.hello is None:
            self._set(worker=sentence or STARTING)

    def _died(self, sentence: str) -> None:
        self._set(worker=STOPPED)
        self.said.emit(sentence)
