"""A panel or the whole window as a picture, without a display, the same from run to run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kernel.plain_file import shown_path, write_whole
from visualizer.frame import RunView
from visualizer.state import State
from visualizer.steady import enter
from visualizer.tape import Tape

if TYPE_CHECKING:
    from PySide6.QtGui import QImage
    from PySide6.QtWidgets import QApplication

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

    from visualizer import garbage, theme

    QLocale.setDefault(QLocale.c())
    qInstallMessageHandler(_tell)
    app = QApplication(["flashscope"])
    garbage.keep_on_this_thread(app)
    theme.load_fonts()
    return app


def natural_size(what: str) -> tuple[int, int]:
    """The size in logical pixels of a picture whose size nobody says."""
    return {"window": (1440, 900), "transport": (1200, 60)}.get(what, (900, 600))


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
    from PySide6.QtCore import QBuffer, QIODevice

    encoded = QBuffer()
    encoded.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(encoded, "PNG")  # pyright: ignore[reportArgumentType, reportCallIssue]
    try:
        write_whole(out, bytes(encoded.data().data()))
    except OSError as error:
        why = f"choose a folder that exists and can be written to ({error.strerror or error})"
        raise RenderError(f"{shown_path(out)} cannot be written; {why}.") from error


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
    from visualizer import theme as themes
    from visualizer.stage import Stage

    tape = Tape(state.problem) if tape is None else tape
    stage = Stage(app, what, tape, size=size, scale=scale, look=themes.theme(theme, zoom), run=run)
    try:
        return stage.image(state)
    finally:
        stage.close()


def _tell(kind: object, context: object, text: str) -> None:
    """Qt's warnings, but for one that means nothing without a display."""
    if "propagateSizeHints" not in text:
        print(text, file=sys.stderr)
