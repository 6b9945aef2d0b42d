"""A combobox with a plain chevron, for small choices inside a panel."""

from __future__ import annotations

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QWheelEvent
from PySide6.QtWidgets import QComboBox, QWidget

from visualizer.theme import Theme


class Picker(QComboBox):
    """Reached with Tab, opened with F4 or alt+down; the wheel over it changes nothing unasked."""

    def __init__(self, name: str, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.restyle(theme)

    def restyle(self, theme: Theme) -> None:
        self.theme = theme
        px = theme.px
        self.setStyleSheet(
            f"QComboBox {{ font-size: {px(12)}px; padding: {px(2)}px {px(6)}px; }}"
            f"QComboBox::drop-down {{ border: none; width: {px(16)}px; }} QComboBox::down-arrow {{ image: none; }}"
        )

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        paint_chevron(self, self.theme)


def paint_chevron(widget: QWidget, theme: Theme) -> None:
    """The sign at a widget's right end that says: this opens a list."""
    size = theme.px(3.5)
    middle = QPointF(widget.width() - theme.px(12), widget.height() / 2)
    with QPainter(widget) as painter:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(theme.muted), max(1.2, theme.zoom * 1.4)))
        painter.drawPolyline(
            [middle + QPointF(-size, -size / 2), middle + QPointF(0, size / 2), middle + QPointF(size, -size / 2)]
        )
