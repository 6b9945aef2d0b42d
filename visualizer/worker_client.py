"""The window's side of the worker: runs are numbered, signals tell how they go, and nothing here ever waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, Qt, QTimer, Signal

from kernel import protocol
from kernel.inputs import Inputs
from kernel.problem import Problem, ProblemError
from kernel.results import Hello, RunResult
from visualizer.worker_call import (
    FIRST_WORD_SECONDS,
    NEXT_WORD_SECONDS,
    TAIL_BYTES,
    WorkerError,
    cannot_start,
    command_line,
    complaint_in,
    ended,
    environment,
    kind_of,
    progress_in,
    read_hello,
    run_messages,
    silence,
)

WRITE_AHEAD: Final = 1 << 20
CLOSE_MS: Final = 2000
PROGRESS_MS: Final = 40


class WorkerClient(QObject):
    """One worker process, started when it is first needed, and again after it was cancelled or has died.

    ready(Hello) once it is up; progress(number, stage, fraction or None), finished(number, RunResult) and
    failed(number, sentence) belong to the run of that number; died(sentence) tells of a worker that went while nothing
    was running; silent(sentence) says what is waited for, now and then, while an answer is due and none comes, and ""
    once one has come. A run that is cancelled, or followed by another, is never heard of again.
    """

    ready = Signal(object)
    progress = Signal(int, str, object)
    finished = Signal(int, object)
    failed = Signal(int, str)
    died = Signal(str)
    silent = Signal(str)

    def __init__(self, command: str | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._command = command
        self._link: _Link | None = None
        self._number = 0
        self._problem: Problem | None = None
        self._newest: tuple[str, float | None] | None = None
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(PROGRESS_MS)
        self._pause.timeout.connect(self._tell_progress)
        self._stage = ""
        self._quiet = 0
        self._patience = QTimer(self)
        self._patience.timeout.connect(self._tell_silence)
        self.hello: Hello | None = None

    @property
    def busy(self) -> bool:
        """Whether a run is on its way."""
        return self._problem is not None

    def start(self) -> None:
        """Starts the worker in the background, if there is none."""
        if self._link is not None:
            return
        try:
            command = command_line(self._command)
        except WorkerError as error:
            QTimer.singleShot(0, self, lambda text=str(error): self._lost(text))
            return
        self._link = _Link(command, environment(self._command), self)
        self._link.message.connect(self._take)
        self._link.lost.connect(self._lost)
        self._link.heard.connect(self._listen)
        self._stage = ""
        self._listen()
        self._link.send(iter([protocol.encode({"op": "hello"})]))

    def run(self, problem: Problem, inputs: Inputs | None = None) -> int:
        """Asks for a run and returns its number; a run that is still on its way is cancelled.

        `inputs`, if at hand, saves reading a problem's file again.
        """
        self.cancel()
        self._number += 1
        self._newest = None
        self._problem = problem
        self.start()
        if self._link is not None:
            self._link.send(run_messages(self._number, problem, inputs))
            if self.hello is not None:
                self._stage = "starting"
            self._listen()
        return self._number

    def cancel(self) -> None:
        """Kills the worker if a run is on its way; the next run starts it again. Returns at once."""
        if self.busy:
            self._drop()

    def close(self) -> None:
        """Ends the worker for good, when the application quits; waits for a moment, so that nothing stays behind."""
        self._drop()
        for link in self.findChildren(_Link):
            link.wait(CLOSE_MS)

    def _drop(self) -> None:
        self._problem = None
        self.hello = None
        self._patience.stop()
        if self._link is not None:
            self._link.kill()
            self._link = None

    def _take(self, message: protocol.Message) -> None:
        number = message.get("number")
        try:
            kind = kind_of(message)
            if kind == "progress":
                self._stage = progress_in(message)[0]
            if kind == "hello":
                self.hello = read_hello(message)
                self.ready.emit(self.hello)
            elif self._problem is None or number != self._number:
                pass  # of a run that nobody waits for
            elif kind == "progress":
                self._newest = progress_in(message)
                if not self._pause.isActive():
                    self._tell_progress()
            elif kind == "result":
                result = RunResult.from_message(message.get("result", {}), self._problem)
                self._problem = None
                self.finished.emit(self._number, result)
            elif kind == "error" and message.get("fatal"):
                self._lost(complaint_in(message))
            elif kind == "error":
                self._problem = None
                self.failed.emit(self._number, complaint_in(message))
        except (ValueError, WorkerError) as error:
            self._lost(str(error))
        self._listen()

    def _listen(self) -> None:
        """Begins to wait, after each sign of life, as long as something is due."""
        if self._quiet:
            self._quiet = 0
            self.silent.emit("")
        if self._link is None or (self.hello is not None and not self.busy):
            self._patience.stop()
        else:
            self._patience.start(1000 * (NEXT_WORD_SECONDS if self._stage else FIRST_WORD_SECONDS))

    def _tell_silence(self) -> None:
        self._quiet += self._patience.interval() // 1000
        if self._link is not None:
            self.silent.emit(silence(self._command, self._quiet, self._stage, self._link.tail))

    def _tell_progress(self) -> None:
        """The newest progress, and no other for a moment: a flood of it must not keep the window from its work."""
        if self._newest is not None and self.busy:
            newest, self._newest = self._newest, None
            self._pause.start()
            self.progress.emit(self._number, *newest)

    def _lost(self, sentence: str) -> None:
        """The worker is of no use any more."""
        running = self.busy
        self._drop()
        if running:
            self.failed.emit(self._number, sentence)
        else:
            self.died.emit(sentence)


class _Link(QObject):
    """A process and the messages to and from it. lost(sentence) comes at most once, and nothing after it or a kill.

    heard: a part of a message, or something on stderr, has come.
    """

    message = Signal(object)
    heard = Signal()
    lost = Signal(str)

    def __init__(self, command: list[str], environ: dict[str, str], parent: QObject) -> None:
        super().__init__(parent)
        self._command = command
        self._decoder = protocol.Decoder()
        self._tail = bytearray()
        self._frames: list[Iterator[bytes]] = []
        self._open = True
        self._process = QProcess(self)
        wanted = QProcessEnvironment()
        for name, value in environ.items():
            wanted.insert(name, value)
        self._process.setProcessEnvironment(wanted)
        self._process.readyReadStandardOutput.connect(self._read)
        self._process.readyReadStandardError.connect(self._read_errors)
        self._process.bytesWritten.connect(self._write)
        self._process.started.connect(self._write)
        self._process.finished.connect(self._ended)
        # queued, so that whoever starts a run has its number before it can fail
        self._process.errorOccurred.connect(self._failed, Qt.ConnectionType.QueuedConnection)
        self._process.start(command[0], command[1:])

    @property
    def tail(self) -> bytes:
        """The end of what the process has written to stderr."""
        return bytes(self._tail)

    def send(self, frames: Iterator[bytes]) -> None:
        """Sends frames as the process takes them, so that a large tensor is never in memory twice."""
        self._frames.append(frames)
        QTimer.singleShot(0, self, self._write)

    def kill(self) -> None:
        """Ends the process at once, without waiting for it."""
        self._open = False
        self._frames.clear()
        if self._process.state() == QProcess.ProcessState.NotRunning:
            self.deleteLater()
        else:
            self._process.kill()

    def wait(self, milliseconds: int) -> None:
        """For the end of the application only."""
        self._process.waitForFinished(milliseconds)

    def _write(self) -> None:
        if self._process.state() != QProcess.ProcessState.Running:
            return
        while self._open and self._frames and self._process.bytesToWrite() < WRITE_AHEAD:
            try:
                frame = next(self._frames[0], None)
            except (ProblemError, protocol.ProtocolError, MemoryError) as error:
                self._lose(str(error) or "There is no memory for the inputs.")
                return
            if frame is None:
                self._frames.pop(0)
            else:
                self._process.write(frame)

    def _read(self) -> None:
        if not self._open:
            return
        self.heard.emit()
        try:
            for message in self._decoder.feed(self._process.readAllStandardOutput().data()):
                if self._open:
                    self.message.emit(message)
        except protocol.ProtocolError as error:
            self._lose(str(error))

    def _read_errors(self) -> None:
        self._tail += self._process.readAllStandardError().data()
        del self._tail[:-TAIL_BYTES]
        if self._open:
            self.heard.emit()

    def _failed(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            self._lose(cannot_start(self._command, self._process.errorString()))
            self.deleteLater()

    def _ended(self, code: int, how: QProcess.ExitStatus) -> None:
        self._read()
        self._read_errors()
        # Qt gives the signal as the code of a crash
        sentence = ended(-code if how == QProcess.ExitStatus.CrashExit else code, bytes(self._tail))
        self._lose(f"{sentence[:-1]}; the next run starts it again.")
        self.deleteLater()

    def _lose(self, sentence: str) -> None:
        if self._open:
            self._open = False
            self.lost.emit(sentence)
