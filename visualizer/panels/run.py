"""The kernel's run: the verdict, the times against the peers, the errors and where they are."""

from __future__ import annotations

import math
from typing import ClassVar, Final

from PySide6.QtCore import QEvent, QObject, QPoint, QSize, Qt
from PySide6.QtGui import QFocusEvent, QHelpEvent, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QToolButton, QToolTip, QVBoxLayout, QWidget

from kernel.results import RunResult
from kernel.tiling import Tiling
from visualizer.frame import Frame, RunView
from visualizer.numbers import sci, span
from visualizer.panels.canvas import Canvas, Sheet
from visualizer.panels.error_map import ErrorMap
from visualizer.panels.header import FittingCaption
from visualizer.panels.panel import Panel
from visualizer.panels.run_page import Page
from visualizer.theme import Theme

ARROWS: Final = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
}
ENTER: Final = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class RunPanel(Panel):
    """Frame.run as one page, laid out for the space there is; a click in the error map goes to that program."""

    name: ClassVar[str] = "run"
    title: ClassVar[str] = "Kernel run"
    shows_empty: ClassVar[bool] = True

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.run = RunView()
        self.maps: list[ErrorMap] = []
        self._cell: tuple[int, int] | None = None
        self.caption = FittingCaption(self)
        self.canvas = Canvas(self._compose)
        self.canvas.setAccessibleName("Kernel run")
        self.canvas.setMouseTracking(True)
        self.canvas.installEventFilter(self)
        self.close_button = QToolButton()
        self.close_button.setText("✕")
        self.close_button.setAccessibleName("Close the saved benchmark")
        self.close_button.setToolTip("Close the saved benchmark, and show this machine's run again")
        self.close_button.clicked.connect(lambda: self.change.emit({"bench": None}))
        self.close_button.hide()
        self.header.addWidget(self.close_button)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.canvas)

    def draw(self, frame: Frame) -> None:
        if frame.run is self.run and self.canvas.sheet.texts:
            return
        self.run = frame.run
        self._show_verdict()
        self.canvas.refresh()
        self.canvas.setFocusPolicy(Qt.FocusPolicy.NoFocus if self._goal() is None else Qt.FocusPolicy.TabFocus)

    def restyle(self) -> None:
        self._show_verdict()
        self.canvas.refresh()

    def _show_verdict(self) -> None:
        run, theme = self.run, self.theme
        text, short, color = "", "", theme.muted
        self.close_button.setVisible(run.saved is not None)
        if run.saved is not None:
            text = "saved measurement"
        elif run.phase == "running":
            text = "running"
        elif run.phase in ("failed", "cancelled"):
            text, color = ("✗ failed", theme.bad) if run.phase == "failed" else ("cancelled", theme.muted)
        elif run.result is not None and run.stale:
            text, short = "from before the problem changed", "outdated"
        elif run.result is not None:
            text, color = ("✓ matches reference", theme.good) if run.result.ok else (_differs(run.result), theme.bad)
        dress = f"color: {color}; font-weight: 600;"
        if dress != self.caption_label.styleSheet():
            self.caption_label.setStyleSheet(dress)
        self.caption.show(text, short or " ".join(text.split()[:2]))
        self.caption.fit()

    def _compose(self, size: QSize) -> Sheet:
        page = Page(self.run, self.theme, size, self._cell)
        self.maps = page.maps
        return page.sheet

    def _goal(self) -> Tiling | None:
        """The tiling that the map's cells belong to, when they can be gone to."""
        frame, result = self.frame, None if self.run.saved is not None else self.run.result
        if frame is None or result is None or self.run.stale or self.run.phase == "running":
            return None
        tiling = Tiling(frame.problem)
        shape = (frame.problem.num_heads, tiling.num_q_blocks)
        return tiling if result.o_tiles.shape == shape and 0 not in shape else None

    def tip(self, head: int, block: int) -> str:
        """What hovering says of one program."""
        result = self.run.result
        assert result is not None
        start = block * result.block_m
        end = min(start + result.block_m, result.lse.shape[1])
        o, lse = (float(tiles[head, block]) for tiles in (result.o_tiles, result.lse_tiles))
        text = (
            f"program {head * result.o_tiles.shape[1] + block + 1} · head {head} · {span('row', start, end)}\n"
            f"O error {sci(o)} (bound {sci(result.o_bound)}) · L error {sci(lse)}"
        )
        if math.isnan(o):
            text = text.splitlines()[0] + "\nnot checked: the exact result takes too long here"
        return text if self._goal() is None else f"{text}\nClick: go to its first step."

    def _under(self, point: QPoint) -> tuple[int, int] | None:
        return next((cell for cell in (m.at(point) for m in self.maps) if cell is not None), None)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Mouse and keys of the error map."""
        kind = event.type()
        if isinstance(event, QHelpEvent) and kind == QEvent.Type.ToolTip:
            cell = self._under(event.pos())
            QToolTip.showText(event.globalPos(), "" if cell is None else self.tip(*cell), self.canvas)
            return True
        if isinstance(event, QMouseEvent):
            cell = self._under(event.position().toPoint())
            hand = cell is not None and self._goal() is not None
            self.canvas.setCursor(Qt.CursorShape.PointingHandCursor if hand else Qt.CursorShape.ArrowCursor)
            if kind == QEvent.Type.MouseButtonPress and event.button() == Qt.MouseButton.LeftButton and cell:
                self._go(*cell)
        elif isinstance(event, QKeyEvent) and self.maps and event.key() in (*ARROWS, *ENTER):
            if kind == QEvent.Type.ShortcutOverride and not event.modifiers():
                event.accept()
                return True
            if kind == QEvent.Type.KeyPress:
                return self._key(Qt.Key(event.key()))
        elif isinstance(event, QFocusEvent):
            by_key = event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
            self._cell = (0, 0) if event.gotFocus() and by_key else None
            self.canvas.refresh()
        return super().eventFilter(watched, event)

    def _key(self, key: Qt.Key) -> bool:
        head, block = self._cell or (0, 0)
        if key in ENTER:
            self._go(head, block)
        else:
            down, right = ARROWS[key]
            self._cell = (
                min(max(head + down, 0), self.maps[0].heads - 1),
                min(max(block + right, 0), self.maps[0].blocks - 1),
            )
            self.canvas.refresh()
        return True

    def _go(self, head: int, block: int) -> None:
        tiling = self._goal()
        if tiling is not None:
            self.change.emit({"step": tiling.program_start(head, block)})


def _differs(result: RunResult) -> str:
    exact = result.first_bad is None and result.o_error <= result.o_bound and result.lse_error <= result.lse_bound
    return "✗ differs from mirror" if exact else "✗ differs from reference"
