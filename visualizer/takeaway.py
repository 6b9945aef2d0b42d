"""What the window's File menu takes away: pictures to the clipboard or a file, films, and the step's values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QCoreApplication, QEventLoop
from PySide6.QtGui import QColor, QGuiApplication, QImage
from PySide6.QtWidgets import QWidget

from visualizer.dialogs import ask_save, bring_up, open_dialog
from visualizer.export import ExportError, whole
from visualizer.export_values import save
from visualizer.film_dialog import FilmDialog
from visualizer.svg import svg

if TYPE_CHECKING:
    from visualizer.window import Window

PICTURE_FILTER: Final = "Pictures (*.png *.svg)"
VALUE_FILTER: Final = "Numbers (*.npz *.csv)"


class TakeAway:
    """`what` is "window" or a panel's name; errors are said in the window."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._film: FilmDialog | None = None

    def copy(self, what: str) -> None:
        """The picture, as it is on the screen, to the clipboard."""
        QGuiApplication.clipboard().setImage(self.image(what))

    def ask_picture(self, what: str) -> None:
        self._ask("Save the picture", f"{what}.png", PICTURE_FILTER, lambda path: self.save_picture(what, path))

    def save_picture(self, what: str, path: Path) -> None:
        """The picture, as it is on the screen, as PNG or SVG. Raises ExportError."""
        if path.suffix.lower() not in (".png", ".svg"):
            raise ExportError(f"{path.name} must end in .png or .svg.")
        if path.suffix.lower() == ".svg":
            drawn = svg(self._widget(what), QColor(self._window.look.window))
            with whole(path) as part:
                part.write_bytes(drawn)
            return
        image = self.image(what)
        with whole(path) as part:
            if not image.save(str(part), "PNG"):  # pyright: ignore[reportArgumentType, reportCallIssue]
                raise ExportError(f"{path} cannot be written; choose a folder that exists and can be written to.")

    def image(self, what: str) -> QImage:
        """What is on the screen now."""
        return self._widget(what).grab().toImage()

    def ask_values(self, what: str) -> None:
        self._ask("Save the values", f"{what}.npz", VALUE_FILTER, lambda path: self.save_values(what, path))

    def save_values(self, what: str, path: Path) -> None:
        """The numbers at hand: "values" of the step, or "lse" of every row. Raises ExportError."""
        if path.suffix.lower() not in (".npz", ".csv"):
            raise ExportError(f"{path.name} must end in .npz or .csv.")
        c = self._window.controller
        c.arrive()
        frame = self._window.frame
        assert frame is not None
        result = None if frame.lse is None or frame.lse.kernel is None else c.runs.view.result
        save(what, frame, c.tape, c.state, path, None if result is None else result.lse)

    def show_film(self) -> None:
        """The dialog for films, anew, unless one is on its way."""
        old = self._film
        if old is not None and old.job is not None and old.job.is_running:
            bring_up(old)
            return
        if old is not None:
            old.close()
            old.deleteLater()
        self._film = FilmDialog(self._window)
        open_dialog(self._film)

    @property
    def film(self) -> FilmDialog | None:
        return self._film

    def end(self) -> None:
        """The window closes: a film that is on its way ends, and leaves nothing."""
        if self._film is not None:
            self._film.end()

    def _widget(self, what: str) -> QWidget:
        self._window.controller.arrive()
        return self._window if what == "window" else self._window.panels[what]

    def _ask(self, title: str, name: str, kinds: str, write) -> None:
        start = self._window.files.folder() / name
        path = ask_save(self._window, title, start, kinds)
        if path is None:
            return
        # the dialog's shadow must not be in the picture
        QCoreApplication.processEvents(QEventLoop.ProcessEventsFlag.ExcludeUserInputEvents)
        try:
            write(path if path.suffix else path.with_suffix(Path(name).suffix))
        except ExportError as error:
            self._window.say(str(error))
