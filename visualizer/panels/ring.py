"""A visible focus for painted widgets, shown to those who came by keyboard."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFocusEvent, QPainter, QPen
from PySide6.QtWidgets import QWidget

from visualizer.theme import Theme

KEYBOARD = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason, Qt.FocusReason.ShortcutFocusReason)
# the window losing and regaining the focus, or a menu opening, changes nothing
ELSEWHERE = (Qt.FocusReason.ActiveWindowFocusReason, Qt.FocusReason.PopupFocusReason)


class FocusRing(QWidget):
    """Call `paint_ring` at the end of paintEvent."""

    theme: Theme
    by_keyboard = False

    def focusInEvent(self, event: QFocusEvent) -> None:
        if event.reason() not in ELSEWHERE:
            self.by_keyboard = event.reason() in KEYBOARD
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.update()

    def paint_ring(self, painter: QPainter) -> None:
        if self.hasFocus() and self.by_keyboard:
            painter.setPen(QPen(QColor(self.theme.accent), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.rect().adjusted(1, 1, -1, -1))
