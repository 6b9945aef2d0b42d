"""A panel or the whole window as a picture, without a display, the same from run to run."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from visualizer.frame import RunView
from visualizer.resolve import resolve
from visualizer.state import State
from visualizer.tape import Tape

if TYPE_CHECKING:
    from PySide6.QtGui import QImage
    from PySide6.QtWidgets import QApplication, QWidget

    from visualizer.theme import ThemeName

PANEL_CLASSES: Final = {
    "tiles": "TilesPanel",
    "chip": "ChipPanel",
    "rows": "RowsPanel",
    "lse": "LsePanel",
    "source": "SourcePanel",
    "run": "RunPanel",
    "ledger": "LedgerPanel",
    "transport": "TransportPanel",
}
WHAT: Final = (*PANEL_CLASSES, "window")
FILL_TURNS: Final = 4000


class RenderError(ValueError):
    """A picture that cannot be made; one sentence."""


def application(scale: float = 1) -> QApplication:
    """The QApplication for pictures, with no display and the bundled fonts. The caller keeps it while rendering.

    `scale` is the device pixel ratio; it holds for the whole process, so it counts in the first call only.
    """
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    os.environ["QT_FONT_DPI"] = "96"
    os.environ["LC_ALL"] = "C.UTF-8"
    os.environ["QT_SCALE_FACTOR"] = f"{scale:g}"
    os.environ.pop("QT_SCREEN_SCALE_FACTORS", None)
    from PySide6.QtCore import QLocale, qInstallMessageHandler
    from PySide6.QtWidgets import QApplication

    from visualizer import theme

    found = QApplication.instance()
    if isinstance(found, QApplication):
        return found
    QLocale.setDefault(QLocale.c())
    qInstallMessageHandler(_tell)
    app = QApplication(["flashscope"])
    theme.load_fonts()
    return app


def render(
    what: str,
    state: State,
    out: Path,
    *,
    size: tuple[int, int] = (900, 600),
    scale: float = 1,
    theme: ThemeName = "dark",
    zoom: float = 1.0,
    run: RunView | None = None,
) -> None:
    """Writes `what` (one of WHAT) at `state` to the PNG file `out`; size is in logical pixels, scale multiplies it.

    Raises RenderError, and ProblemError when the state's inputs cannot be read.
    """
    if what not in WHAT:
        raise RenderError(f"There is no panel {what!r}; choose {', '.join(WHAT[:-1])} or {WHAT[-1]}.")
    app = application(scale)
    image = picture(app, what, state, size=size, scale=scale, theme=theme, zoom=zoom, run=run)
    part = out.with_name(f".{out.name}.part")
    if not image.save(str(part), "PNG"):  # pyright: ignore[reportArgumentType, reportCallIssue]
        part.unlink(missing_ok=True)
        raise RenderError(f"{out} cannot be written; choose a folder that exists and can be written to.")
    os.replace(part, out)


def picture(
    app: QApplication,
    what: str,
    state: State,
    *,
    size: tuple[int, int],
    scale: float,
    theme: ThemeName,
    zoom: float = 1.0,
    run: RunView | None = None,
) -> QImage:
    """As `render`, but in memory."""
    from PySide6.QtCore import QCoreApplication, QEvent
    from PySide6.QtGui import QImage
    from PySide6.QtWidgets import QWidget

    from visualizer import theme as themes

    look = themes.theme(theme, zoom)
    themes.apply(app, look)
    widget = _window(state, run, look) if what == "window" else _panel(what, state, run, look)
    try:
        widget.resize(*size)
        widget.show()
        for _ in range(3):
            app.processEvents()
        image = QImage(round(size[0] * scale), round(size[1] * scale), QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(scale)
        QWidget.render(widget, image)
        return image
    finally:
        widget.hide()
        widget.deleteLater()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


def settle(tape: Tape, step: int) -> None:
    """Computes what a picture of `step` may show of other programs: always the same, however long that takes.

    That is L of the rows stored so far and the exact values of the head at hand; very long sequences show what
    FILL_TURNS turns bring.
    """
    if not len(tape):
        return
    head = tape.tiling.locate(min(step, len(tape) - 1)).head
    for _ in range(FILL_TURNS):
        if tape.programs_filled > (head + 1) * tape.tiling.num_q_blocks or not tape.fill(0):
            break


def _tell(kind: object, context: object, text: str) -> None:
    """Qt's warnings, but for one that means nothing without a display."""
    if "propagateSizeHints" not in text:
        print(text, file=sys.stderr)


def _panel(name: str, state: State, run: RunView | None, look) -> QWidget:
    panel_class = getattr(import_module(f"visualizer.panels.{name}"), PANEL_CLASSES[name])
    tape = Tape(state.problem)
    if name == "lse":
        settle(tape, state.step)
    panel = panel_class(look)
    panel.show_frame(resolve(state, tape, run or RunView()))
    return panel


def _window(state: State, run: RunView | None, look) -> QWidget:
    from visualizer.controller import Controller
    from visualizer.settings import Settings
    from visualizer.window import Window

    controller = Controller(state)
    settle(controller.tape, state.step)
    if run is not None:
        controller.runs.view = run
    settings = Settings.of_nobody()
    settings.theme, settings.zoom, settings.motion = look.name, look.zoom, False
    return Window(controller, settings)
