"""A film that is drawn in a process of its own: the window never waits, and cancel is a kill."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, QProcess, QTimer, Signal

from visualizer.export import part_of
from visualizer.state import State, save

# by its own path, as visualizer.picture_client does
START: Final = "import sys; sys.path.insert(0, {!r}); from visualizer.cli import main; sys.exit(main())"
GRACE_MS: Final = 2000


class FilmJob(QObject):
    """One export. `progressed` carries frames done and all, `ended` a sentence when it failed, "" when it is whole.

    After cancel() nothing is emitted but `cancelled`, and there is no file.
    """

    progressed = Signal(int, int)
    ended = Signal(str)
    cancelled = Signal()

    def __init__(self, what: str, state: State, out: Path, options: dict[str, str], parent: QObject) -> None:
        super().__init__(parent)
        self._out, self._is_cancelled = out, False
        self._folder = tempfile.TemporaryDirectory(prefix="flashscope-")  # closed in _clean
        session = Path(self._folder.name) / "session.json"
        save(state, session)
        code = START.format(str(Path(__file__).resolve().parents[1]))
        arguments = ["-P", "-c", code, "export", what, "--out", str(out), "--session", str(session), "--progress"]
        for name, value in options.items():
            arguments += [f"--{name}", value]
        self._process = QProcess(self)
        self._process.readyReadStandardOutput.connect(self._read)
        self._process.finished.connect(self._finished)
        self._process.errorOccurred.connect(self._not_started)
        self._process.start(sys.executable, arguments)

    @property
    def is_running(self) -> bool:
        return self._process.state() != QProcess.ProcessState.NotRunning

    def cancel(self) -> None:
        """Ends the process, gently and then not."""
        if self.is_running:
            self._is_cancelled = True
            self._process.terminate()
            QTimer.singleShot(GRACE_MS, self._process, self._process.kill)

    def end(self) -> None:
        """As cancel, but done when it returns: the window closes."""
        if self.is_running:
            self._is_cancelled = True
            self._process.terminate()
            if not self._process.waitForFinished(GRACE_MS):
                self._process.kill()
                self._process.waitForFinished(GRACE_MS)
        self._clean()

    def _read(self) -> None:
        lines = bytes(self._process.readAllStandardOutput().data()).decode().split()
        if lines and not self._is_cancelled:
            done, _, total = lines[-1].partition("/")
            self.progressed.emit(int(done), int(total))

    def _finished(self, status: int) -> None:
        self._read()
        words = bytes(self._process.readAllStandardError().data()).decode("utf-8", "replace").strip()
        self._clean()
        if self._is_cancelled:
            self.cancelled.emit()
        elif status == 0:
            self.ended.emit("")
        else:
            last = words.splitlines()[-1].removeprefix("flashscope export: ") if words else ""
            self.ended.emit(last or f"The process that draws ended with status {status}.")

    def _not_started(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            self._clean()
            self.ended.emit(f"The process that draws cannot be started ({self._process.errorString()}).")

    def _clean(self) -> None:
        part_of(self._out).unlink(missing_ok=True)
        self._folder.cleanup()
