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
from visualizer.steady import enter
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
SHOW_OTHERS: Final = ("lse", "transport", "window")  # these show what is known of other programs
FILL_TURNS: Final = 4000


class RenderError(ValueError):
    """A picture that cannot be made; one sentence."""


def application(scale: float = 1) -> QApplication:
    """The QApplication for pictures, with no display and the bundled fonts alone. The caller keeps it while rendering.

    `scale` is the device pixel ratio; it holds for the whole process, so it counts in the first call only. So does
    the rest of what visualizer.steady sets: where Qt or NumPy were loaded before, pictures may differ in their details.
    """
    if "PySide6.QtWidgets" in sys.modules:
        from PySide6.QtWidgets import QApplication

        found = QApplication.instance()
        if isinstance(found, QApplication):
            return found
    enter(scale)
    from PySide6.QtCore import QLocale, qInstallMessageHandler
    from PySide6.QtWidgets import QApplication

    from visualizer import theme

    QLocale.setDefault(QLocale.c())
    qInstallMessageHandler(_tell)
    app = QApplication(["flashscope"])
    theme.load_fonts()
    return app


def natural_size(what: str) -> tuple[int, int]:
    """The size in logical pixels of a picture whose size nobody says."""
    return (1440, 900) if what == "window" else (900, 600)


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
    write(picture(app, what, state, size=size, scale=scale, theme=theme, zoom=zoom, run=run), out)


def render_all(
    state: State, folder: Path, *, scale: float = 1, theme: ThemeName = "dark", run: RunView | None = None
) -> list[Path]:
    """Writes every panel and the window at `state` to `folder`, as tiles.png … window.png. Raises as `render` does."""
    app = application(scale)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RenderError(f"The folder {folder} cannot be made: {error.strerror or error}.") from error
    tape = Tape(state.problem)
    paths = [folder / f"{what}.png" for what in WHAT]
    for what, path in zip(WHAT, paths, strict=True):
        size = natural_size(what)
        write(picture(app, what, state, size=size, scale=scale, theme=theme, run=run, tape=tape), path)
    return paths


def write(image: QImage, out: Path) -> None:
    """The PNG file, whole or not at all. Raises RenderError."""
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
    tape: Tape | None = None,
) -> QImage:
    """As `render`, but in memory. `tape`, of the state's problem, saves time where many pictures are made of it."""
    from PySide6.QtCore import QCoreApplication, QEvent
    from PySide6.QtGui import QColor, QImage
    from PySide6.QtWidgets import QWidget

    from visualizer import theme as themes
    from visualizer.panels.panel import Panel

    look = themes.theme(theme, zoom)
    if app.styleSheet() != themes.style_sheet(look) or app.palette() != themes.palette(look):
        themes.apply(app, look)
    tape = Tape(state.problem) if tape is None else tape
    settle(tape, state.step, others=what in SHOW_OTHERS)
    widget = _window(state, tape, run, look) if what == "window" else _panel(what, look)
    try:
        widget.resize(*size)
        if isinstance(widget, Panel):
            widget.show_frame(resolve(state, tape, run or RunView()))
        widget.show()
        for _ in range(3):
            app.processEvents()
            if what != "window" and (focused := app.focusWidget()) is not None:
                focused.clearFocus()  # a panel alone would give it to its first button
        image = QImage(round(size[0] * scale), round(size[1] * scale), QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(scale)
        image.fill(QColor(look.window))
        QWidget.render(widget, image)
        return image
    finally:
        widget.hide()
        widget.deleteLater()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


def settle(tape: Tape, step: int, *, others: bool = True) -> None:
    """Computes what a picture of `step` may show besides the step: always the same, however long that takes.

    That is the history of the program at hand and, with `others`, L of the rows stored so far and the exact values of
    the head at hand; very long sequences show what FILL_TURNS turns bring.
    """
    if not len(tape):
        return
    at = min(step, len(tape) - 1)
    wanted = (tape.tiling.locate(at).head + 1) * tape.tiling.num_q_blocks if others else -1
    tape.history(at)
    for _ in range(FILL_TURNS):
        if (tape.programs_filled > wanted and not tape.is_completing) or not tape.fill(0):
            break


def _tell(kind: object, context: object, text: str) -> None:
    """Qt's warnings, but for one that means nothing without a display."""
    if "propagateSizeHints" not in text:
        print(text, file=sys.stderr)


def _panel(name: str, look) -> QWidget:
    return getattr(import_module(f"visualizer.panels.{name}"), PANEL_CLASSES[name])(look)


def _window(state: State, tape: Tape, run: RunView | None, look) -> QWidget:
    from visualizer.controller import Controller
    from visualizer.settings import Settings
    from visualizer.window import Window

    controller = Controller(state)
    controller.tape = tape
    if run is not None:
        controller.runs.view = run
    settings = Settings.of_nobody()
    settings.theme, settings.zoom, settings.motion = look.name, look.zoom, False
    return Window(controller, settings)
