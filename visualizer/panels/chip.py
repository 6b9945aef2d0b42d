"""What one program holds on the chip, laid out as the equation, and the arithmetic of one of its rows."""

from __future__ import annotations

from typing import ClassVar

from PySide6.QtCore import QRect
from PySide6.QtWidgets import QVBoxLayout, QWidget

from visualizer.frame import Frame
from visualizer.numbers import number
from visualizer.panels.chip_canvas import ChipCanvas
from visualizer.panels.equations import MIN_LINES, Equations
from visualizer.panels.header import FittingCaption
from visualizer.panels.panel import Panel
from visualizer.panels.switch import Switch
from visualizer.theme import Theme

CHOICES = (
    ("auto", "auto", "Show what the step has just written: scores, then weights"),
    ("s", "s", "Keep showing the scores s = q·kᵀ"),
    ("p", "p", "Show the weights p once they are there"),
)


class ChipPanel(Panel):
    name: ClassVar[str] = "chip"
    title: ClassVar[str] = "On chip  (one program)"

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.canvas = ChipCanvas(theme)
        self.canvas.row_chosen.connect(lambda row: self.change.emit({"row": row}))
        self.switch = Switch("Scores or weights", CHOICES)
        self._held: tuple[tuple[str, int], ...] = ()
        self.switch.chosen.connect(lambda value: self.change.emit({"matrix": value}))
        self.header.insertWidget(1, self.switch)
        self.caption = FittingCaption(self)
        self.equations = Equations(theme)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.canvas, 1)
        layout.addWidget(self.equations)
        self.restyle()

    def draw(self, frame: Frame) -> None:
        view = frame.chip
        assert view is not None
        if self._held != view.held or not self.caption_label.text():  # a frame without values clears the label
            self._held = view.held
            self.caption.show(view.caption, *view.short_captions)
            parts = ", ".join(f"{name.replace('alpha', 'α')} {size / 1024:g} KiB" for name, size in view.held)
            self.caption_label.setToolTip(f"{parts}.\n{view.limit_note}")
            dress = "" if view.fits else f"color: {self.theme.bad}"
            if dress != self.caption_label.styleSheet():  # even an equal one costs a polish
                self.caption_label.setStyleSheet(dress)
        self.switch.show_value(frame.options.get("matrix", "auto"))
        self.canvas.show_view(view)
        scale = "|scale|" if frame.problem.scale < 0 else "scale"
        note = f"   {scale}·log₂ e = {number(view.qk_scale)}" if frame.problem.scale else ""
        heading = f"row {view.rows[0] + view.row:,}   (block row {view.row}){note}"
        self.equations.show_equations(heading, view.equations, view.fresh)

    def restyle(self) -> None:
        self._held = ()
        self.switch.set_theme(self.theme)
        self.header.setSpacing(self.theme.px(10))
        self.caption.fit()
        self.canvas.set_theme(self.theme)
        self.equations.set_theme(self.theme)
        self._share_height()
        layout = self.body.layout()
        assert layout is not None
        layout.setSpacing(self.theme.px(8))

    def resizeEvent(self, event) -> None:
        super().resizeEvent(event)
        self._share_height()

    def _share_height(self) -> None:
        """The equations get a fixed part, so that the picture stands still while their number changes."""
        counts = range(7, MIN_LINES, -1)
        fits = (n for n in counts if self.equations.height_for_lines(n) <= 0.38 * self.height())
        self.equations.want_lines(next(fits, MIN_LINES))

    def slot_rect(self, quantity: str) -> QRect:
        """Where a quantity is drawn, in the panel's coordinates: q, k, v, s, p, acc, o, m, alpha, l or lse."""
        rect = self.canvas.slot_rect(quantity)
        return QRect(self.canvas.mapTo(self, rect.topLeft()), rect.size())
