"""L of every row of the head at hand: kernel, mirror so far and exact, and how far they are apart."""

from __future__ import annotations

from typing import ClassVar

from PySide6.QtWidgets import QVBoxLayout, QWidget

from kernel.tiling import Tiling
from visualizer.frame import Frame
from visualizer.panels.header import FittingCaption
from visualizer.panels.lse_canvas import LseCanvas
from visualizer.panels.panel import Panel
from visualizer.panels.switch import Switch
from visualizer.theme import Theme

UNITS = (
    ("log2", "log₂", "L in base 2, as the kernel stores it"),
    ("ln", "ln", "L as a natural logarithm"),
)
TITLES = {"log2": "L per row  log₂ Σ exp", "ln": "L per row  ln Σ exp"}


class LsePanel(Panel):
    name: ClassVar[str] = "lse"
    title: ClassVar[str] = "L per row  log₂ Σ exp"

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.canvas = LseCanvas(theme)
        self.canvas.row_chosen.connect(self._go_to_row)
        self.canvas.left_alone.connect(self._go_back)
        self._before: dict[str, int] = {}
        self.caption = FittingCaption(self)
        self.switch = Switch("Logarithm of L", UNITS)
        self.switch.chosen.connect(lambda unit: self.change.emit({"lse_unit": unit}))
        self.header.addWidget(self.switch)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.canvas)
        self.restyle()

    def draw(self, frame: Frame) -> None:
        view = frame.lse
        assert view is not None
        if self.title_label.text() != TITLES[view.unit]:
            self.title_label.setText(TITLES[view.unit])
        self.caption.show(view.caption, view.caption)
        self.switch.show_value(view.unit)
        self.canvas.show_view(view)

    def restyle(self) -> None:
        self.header.setSpacing(self.theme.px(8))
        self.caption.fit()
        self.switch.set_theme(self.theme)
        self.canvas.set_theme(self.theme)

    def _go_to_row(self, row: int) -> None:
        """To the first step of the program that the row belongs to."""
        assert self.frame is not None and self.frame.lse is not None and self.frame.transport is not None
        view = self.frame.lse
        self._before = {"step": self.frame.transport.index, "row": view.row - view.rows[0]}
        block, inside = divmod(row, self.frame.problem.block_m)
        self.change.emit({"step": Tiling(self.frame.problem).program_start(view.head, block), "row": inside})

    def _go_back(self) -> None:
        """Where the first click of a double click left from."""
        if self._before:
            self.change.emit(self._before)
