"""Sessions and tensor files: opened, saved, dropped in, and the last state kept for the next start."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from PySide6.QtCore import QMimeData, QObject, QTimer, Signal
from PySide6.QtWidgets import QWidget

from kernel.plain_file import is_there
from visualizer.controller import Controller
from visualizer.dialogs import ask_open, ask_save
from visualizer.settings import Settings, last_session
from visualizer.state import State, StateError, load, save

SUFFIX: Final = ".flashscope.json"
AUTOSAVE_MS: Final = 20_000
OPEN_FILTER: Final = "Sessions, tensors and saved benchmarks (*.json *.npz *.safetensors);;All files (*)"
SAVE_FILTER: Final = f"Sessions (*{SUFFIX});;All files (*)"


class Files(QObject):
    """What File > Open and Save do. `said` carries a sentence on what could not be done, or "" when a file opened."""

    said = Signal(str)

    def __init__(self, controller: Controller, settings: Settings, window: QWidget) -> None:
        super().__init__(window)
        self._controller, self._settings, self._window = controller, settings, window
        self._kept: State | None = None
        self._timer = QTimer(self)
        self._timer.timeout.connect(self.keep)
        self._timer.start(AUTOSAVE_MS)

    def open(self, path: Path) -> bool:
        """Opens a session, a tensor file or a saved benchmark, and remembers it."""
        path = path.absolute()
        if not self._controller.open_file(path):
            if not is_there(path):
                self._settings.drop_recent(path)
            return False
        self.said.emit(self._controller.trouble)  # what was said of another file is over
        self._settings.add_recent(path)
        self._settings.session = self._controller.session
        return True

    def save(self) -> bool:
        """Saves to the open session's file; asks for a name where there is none."""
        path = self._controller.session
        return self.ask_save() if path is None else self.save_to(path)

    def save_to(self, path: Path) -> bool:
        path = path.absolute()
        if not self._controller.save_file(path):
            return False
        self._settings.add_recent(path)
        self._settings.session = path
        return True

    def ask_open(self) -> None:
        path = ask_open(self._window, "Open", self.folder(), OPEN_FILTER)
        if path is not None:
            self.open(path)

    def ask_save(self) -> bool:
        start = self._controller.session or self.folder() / f"session{SUFFIX}"
        path = ask_save(self._window, "Save the session", start, SAVE_FILTER)
        if path is None:
            return False
        return self.save_to(path if path.suffix == ".json" else path.with_name(path.name + SUFFIX))

    def dropped(self, data: QMimeData) -> None:
        """Opens the first file of a drop."""
        paths = dropped_paths(data)
        if not paths:
            self.said.emit(
                "Only files can be dropped here: a session or benchmark (.json), or tensors (.npz or .safetensors)."
            )
        else:
            self.open(paths[0])

    def keep(self) -> None:
        """Writes the state for the next start, when it has changed."""
        state = self._controller.state
        if state == self._kept:
            return
        path = last_session()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            save(state, path)
        except (OSError, StateError) as error:
            self._timer.stop()
            self.said.emit(f"The state cannot be kept for the next start: {error}")
            return
        self._kept = state

    def folder(self) -> Path:
        """Where a file dialog begins: beside what was opened or saved last."""
        recent = self._settings.recent
        return recent[0].parent if recent else Path.home()


def dropped_paths(data: QMimeData) -> list[Path]:
    """The local files in a drop."""
    return [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]


def kept_state() -> tuple[State | None, str]:
    """The state of the last start, or None with a sentence when it cannot be read; ("" when there was none)."""
    path = last_session()
    if not is_there(path):
        return None, ""
    try:
        return load(path), ""
    except StateError as error:
        return None, f"The last state could not be restored: {error}"
