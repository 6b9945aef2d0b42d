"""Export a film: which panel, which steps, how fast; progress, and cancel at any moment."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import (
    QDialog,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
)

from visualizer.actions import PANELS
from visualizer.dialogs import ask_save
from visualizer.export import MAX_FPS, ExportError, frames
from visualizer.film_job import FilmJob
from visualizer.panels.picker import Picker

if TYPE_CHECKING:
    from visualizer.window import Window

SIZES: Final = ("900x600", "1280x800", "1440x900", "1920x1080")
NO_VIDEO: Final = "For MP4 install the package imageio-ffmpeg: pip install imageio-ffmpeg."


class FilmDialog(QDialog):
    """Not modal. What it exports is the window's problem and look at the moment of the click."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self._window = window
        self.job: FilmJob | None = None
        self.setWindowTitle("Export a film — FlashScope")
        self.setAccessibleName("Export a film")
        total, look = len(window.controller.tape), window.look
        self.what = Picker("Show", look)
        for name, title in (("window", "The whole window"), *PANELS.items()):
            self.what.addItem(title, name)
        self.what.setCurrentIndex(self.what.findData(window.panel_layout.maximised or "chip"))
        self.first, self.last = self._number(0, total - 1, 0), self._number(0, total - 1, total - 1)
        self.every = self._number(1, 10_000, 1)
        self.fps = self._number(1, MAX_FPS, 10)
        self.sizes = Picker("Size", look)
        self.sizes.addItems(SIZES)
        self.kind = Picker("Format", look)
        self.kind.addItems([".gif", ".mp4"] if find_spec("imageio_ffmpeg") else [".gif"])
        if self.kind.count() == 2:
            self.kind.setCurrentIndex(1)
        self.note = QLabel()
        self.note.setObjectName("muted")
        self.note.setWordWrap(True)
        self.bar = QProgressBar()
        self.bar.setAccessibleName("Progress of the film")
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(look.px(6))
        self.bar.setStyleSheet(
            f"QProgressBar {{ background: {look.to_come}; border: none; border-radius: {look.px(3)}px; }}"
            f"QProgressBar::chunk {{ background: {look.accent}; border-radius: {look.px(3)}px; }}"
        )
        self.export_button, self.cancel_button = QPushButton("Export…"), QPushButton("Close")
        self.export_button.setObjectName("primary")
        self.export_button.setDefault(True)
        self.export_button.clicked.connect(self._ask)
        self.cancel_button.clicked.connect(self.reject)
        form = QFormLayout()
        for text, field in (
            ("Show", self.what), ("From step", self.first), ("To step", self.last), ("Take every", self.every),
            ("Steps a second", self.fps), ("Size", self.sizes), ("Format", self.kind),
        ):  # fmt: skip
            form.addRow(text, field)
            field.setAccessibleName(text)
            field.setFixedSize(look.px(190), look.px(28))
        for field in (self.first, self.last, self.every, self.fps):
            field.lineEdit().setTextMargins(look.px(5), 0, 0, 0)  # as far from the border as in the lists
        for field in (self.first, self.last, self.every, self.fps):
            field.valueChanged.connect(self._count)
        self.what.currentIndexChanged.connect(self._fit_size)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(self.cancel_button)
        buttons.addWidget(self.export_button)
        px = look.px
        layout = QVBoxLayout(self)
        layout.setContentsMargins(px(22), px(18), px(22), px(16))
        layout.setSpacing(px(12))
        form.setVerticalSpacing(px(8))
        form.setHorizontalSpacing(px(18))
        layout.addLayout(form)
        layout.addWidget(self.note)
        layout.addWidget(self.bar)
        layout.addLayout(buttons)
        self.setMinimumWidth(px(380))
        self.bar.hide()
        self._fit_size()
        self._count()

    def export(self, out: Path) -> None:
        """Starts the film; the dialog shows how far it is."""
        window = self._window
        options = {
            "steps": f"{self.first.value()}:{self.last.value()}:{self.every.value()}",
            "fps": str(self.fps.value()),
            "size": self.sizes.currentText(),
            "theme": window.look.name,
            "zoom": f"{window.look.zoom:g}",
        }
        self.job = FilmJob(self.what.currentData(), window.controller.state, out, options, self)
        self.job.progressed.connect(self._progress)
        self.job.ended.connect(lambda sentence: self._end(sentence or f"{out.name} is written."))
        self.job.cancelled.connect(lambda: self._end("The export was cancelled; no file was written."))
        self.bar.setRange(0, 0)
        self.bar.show()
        self.bar.setValue(0)
        self.export_button.hide()
        self.cancel_button.setText("Cancel")
        self.note.setText(f"Drawing {out.name} …")

    def closeEvent(self, event: QCloseEvent) -> None:
        self.end()
        super().closeEvent(event)

    def reject(self) -> None:
        """Escape and the button: a film that is on its way stops, else the dialog closes."""
        if self.job is not None and self.job.is_running:
            self.note.setText("Stopping …")
            self.job.cancel()
        else:
            super().reject()

    def end(self) -> None:
        """Ends a film that is on its way."""
        if self.job is not None:
            self.job.end()

    def _ask(self) -> None:
        suffix = self.kind.currentText()
        start = self._window.files.folder() / f"{self.what.currentData()}{suffix}"
        path = ask_save(self, "Export a film", start, f"Films (*{suffix})")
        if path is not None:
            self.export(path if path.suffix.lower() in (".gif", ".mp4") else path.with_name(path.name + suffix))

    def _progress(self, done: int, total: int) -> None:
        self.bar.setRange(0, total)
        self.bar.setValue(done)

    def _end(self, sentence: str) -> None:
        self.bar.hide()
        self.export_button.show()
        self.cancel_button.setText("Close")
        self.note.setText(sentence)

    def _count(self) -> None:
        """How many pictures that makes, and how long they last; or why they cannot be."""
        try:
            count = len(
                frames(self._window.controller.state, self.first.value(), self.last.value(), self.every.value())
            )
        except ExportError as error:
            self.note.setText(str(error))
            self.export_button.setEnabled(False)
            return
        seconds = count / self.fps.value()
        long = f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
        self.note.setText(f"{count:,} pictures, {long}." + ("" if self.kind.count() == 2 else f" {NO_VIDEO}"))
        self.export_button.setEnabled(True)

    def _fit_size(self) -> None:
        self.sizes.setCurrentText("1440x900" if self.what.currentData() == "window" else "900x600")

    @staticmethod
    def _number(low: int, high: int, value: int) -> QSpinBox:
        field = QSpinBox()
        field.setRange(low, max(low, high))
        field.setValue(value)
        field.setGroupSeparatorShown(True)
        field.setStyleSheet(  # numbers are typed, or changed with the arrow keys
            "QSpinBox::up-button, QSpinBox::down-button { width: 0; border: none; }"
            "QSpinBox QLineEdit { border: none; padding: 0; background: transparent; }"
        )
        return field
