"""The window's theme, its zoom, and the presentation: one place that scales and colours everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QMainWindow

from visualizer import theme
from visualizer.settings import ZOOMS, Settings

PRESENTATION_ZOOM: Final = 1.5


class Dressed(Protocol):
    def set_theme(self, theme: theme.Theme, /) -> None: ...


class Dress:
    """Holds the look; every change goes to all `parts`, and then to `fitted`; `presented` makes room for a talk."""

    def __init__(
        self,
        window: QMainWindow,
        settings: Settings,
        fitted: Callable[[], None],
        presented: Callable[[bool], None],
    ) -> None:
        self._window, self._settings, self._fitted, self._presented = window, settings, fitted, presented
        self.look = theme.theme(settings.theme, settings.zoom)
        self.parts: list[Dressed] = []
        self.is_presenting = False
        self._before = (settings.zoom, False)

    def switch_theme(self) -> None:
        self._settings.theme = "light" if self.look.name == "dark" else "dark"
        self._put_on(self._settings.theme, self.look.zoom)

    def change_zoom(self, by: int) -> None:
        """One notch larger (1) or smaller (-1); 0 is the normal size. A presentation's zoom is its own."""
        others = [z for z in ZOOMS if (z - self.look.zoom) * by > 0.01]
        zoom = 1.0 if by == 0 else min(others, key=lambda z: abs(z - self.look.zoom), default=self.look.zoom)
        if not self.is_presenting:
            self._settings.zoom = zoom
        self._put_on(self.look.name, zoom)

    def switch_presentation(self) -> None:
        """The whole screen, larger and without what a talk does not need; a second time: back."""
        window = self._window
        self.is_presenting = not self.is_presenting
        window.menuBar().setVisible(not self.is_presenting)
        self._presented(self.is_presenting)
        QApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)  # sizes without what is gone
        if self.is_presenting:
            self._before = (self.look.zoom, window.isMaximized())
            window.showFullScreen()
            self._put_on(self.look.name, max(self._largest_zoom(PRESENTATION_ZOOM), self.look.zoom))
        else:
            zoom, was_maximised = self._before
            window.showMaximized() if was_maximised else window.showNormal()
            self._put_on(self.look.name, zoom)

    def keep_on_screen(self) -> None:
        """A smaller zoom where not all panels fit: on a small screen, or in a presentation with a lesson's words."""
        zoom = self._largest_zoom(self.look.zoom)
        if zoom < self.look.zoom:
            self._put_on(self.look.name, zoom)

    def _largest_zoom(self, wanted: float) -> float:
        """`wanted`, or the largest zoom at which all panels still fit on the screen; the smallest where none does."""
        screen, least = self._window.screen().size(), self._window.minimumSizeHint()
        fits = self.look.zoom * min(screen.width() / least.width(), screen.height() / least.height())
        return max([zoom for zoom in ZOOMS if zoom <= min(wanted, fits)], default=ZOOMS[0])

    def _put_on(self, name: theme.ThemeName, zoom: float) -> None:
        self.look = theme.theme(name, zoom)
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        theme.apply(app, self.look)
        for part in self.parts:
            part.set_theme(self.look)
        self._fitted()
