"""What lies over a panel's body while the values of the step are being computed."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from visualizer.theme import Theme

COMING: Final = "The values of this step are being computed."


class Veil(QWidget):
    """Opaque: the old values must not be seen beside the new step. The body under it keeps the focus."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.theme = theme
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName(COMING)
        self.hide()

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.fillRect(self.rect(), QColor(self.theme.panel))
            painter.setPen(QColor(self.theme.muted))
            painter.setFont(self.theme.ui_font(13))
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, COMING)
