"""A window on a small problem, with settings of its own and no worker."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from visualizer import app, theme
from visualizer.presets import PRESETS
from visualizer.settings import Settings
from visualizer.state import State
from visualizer.window import Window

TOY = PRESETS[1].state


@pytest.fixture
def dressed(qapp: QApplication) -> QApplication:
    """The tests' application with the fonts and look of the real one."""
    app.application()
    theme.apply(qapp, theme.theme("dark"))
    return qapp


@pytest.fixture
def make_window(dressed: QApplication, qtbot, tmp_path: Path) -> Iterator[Callable[..., Window]]:
    """Makes windows that are shown, active, still, and closed at the end."""
    made: list[Window] = []

    def make(state: State | None = TOY, file: Path | None = None, **options) -> Window:
        settings = Settings(tmp_path / "settings.ini")
        settings.motion = options.pop("motion", False)
        window = app.make_window(settings, file, state)
        made.append(window)
        window.resize(*options.pop("size", (1440, 900)))
        window.show()
        qtbot.waitActive(window)
        qtbot.waitExposed(window)
        window.activateWindow()
        dressed.processEvents()
        return window

    yield make
    for window in made:
        window.close()
        window.deleteLater()
    dressed.setStyleSheet("")


@pytest.fixture
def window(make_window: Callable[..., Window]) -> Window:
    return make_window()
