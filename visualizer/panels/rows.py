"""m, alpha and l: over the rows of the block on the left, tile by tile for the selected row on the right."""

from __future__ import annotations

from typing import ClassVar

from PySide6.QtWidgets import QVBoxLayout, QWidget

from visualizer.frame import Frame
from visualizer.panels.header import FittingCaption
from visualizer.panels.panel import Panel
from visualizer.panels.rows_canvas import RowsCanvas
from visualizer.theme import Theme


class RowsPanel(Panel):
    name: ClassVar[str] = "rows"
    title: ClassVar[str] = "Row state  m α l"

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.canvas = RowsCanvas(theme)
        self.caption = FittingCaption(self)
        self.canvas.row_chosen.connect(lambda row: self.change.emit({"row": row}))
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.canvas)
        self.restyle()

    def draw(self, frame: Frame) -> None:
        view = frame.rows
        assert view is not None
        caption = view.caption if view.moved is None else f"m moved in {view.moved} of {len(view.m)} · {view.caption}"
        self.caption.show(caption, view.caption)
        self.canvas.show_view(view)

    def restyle(self) -> None:
        letters = "&nbsp; ".join(
            f'<span style="color: {self.theme.word(q).name()}">{text}</span>'
            for q, text in (("m", "m"), ("alpha", "α"), ("l", "l"))
        )
        self.title_label.setText(f"Row state &nbsp; {letters}")
        self.canvas.set_theme(self.theme)
        self.caption.fit()
