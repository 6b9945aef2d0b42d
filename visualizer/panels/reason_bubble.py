"""The reason why a field's text cannot be, under the field."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, Qt
from PySide6.QtGui import QFontMetrics, QHideEvent, QShowEvent
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from visualizer.panels.canvas import wrap
from visualizer.theme import DARK, Theme


class ReasonBubble(QLabel):
    """Stands over whatever is below the bar, so that nothing moves while a person types; the mouse goes through it.

    It goes when its field loses the focus, and with the next click or key that is not the field's.
    """

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.theme = DARK
        self._field: QWidget = parent
        self.setObjectName("reason")
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def set_theme(self, theme: Theme) -> None:
        """Takes another dress or zoom."""
        px, self.theme = theme.px, theme
        self.setStyleSheet(
            f"background: {theme.field}; color: {theme.bad}; border: 1px solid {theme.bad}; "
            f"border-radius: {px(5)}px; padding: {px(4)}px {px(8)}px; font-size: {px(12)}px;"
        )

    def stand_under(self, field: QWidget, bar: QWidget, reason: str) -> None:
        """Shows the reason at the bar's lower edge, from the field's left on, inside the window."""
        self._field, host, px = field, bar.window(), self.theme.px
        if self.parentWidget() is not host:
            self.setParent(host)
        metrics = QFontMetrics(self.theme.ui_font(12))
        lines = wrap(reason, metrics, min(px(560), max(px(120), host.width() - px(40))))
        self.setText("\n".join(lines))
        width = max(map(metrics.horizontalAdvance, lines)) + px(22)
        self.setFixedSize(width, len(lines) * metrics.lineSpacing() + px(10))
        left = min(field.mapTo(host, QPoint(0, 0)).x(), host.width() - width - px(8))
        top = min(bar.mapTo(host, QPoint(0, bar.height() - px(3))).y(), host.height() - self.height())
        self.move(max(0, left), max(0, top))
        self.raise_()
        self.show()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if kind == QEvent.Type.FocusOut:
            if watched is self._field:
                self.hide()
        elif kind in (QEvent.Type.MouseButtonPress, QEvent.Type.ShortcutOverride):
            is_elsewhere = isinstance(watched, QWidget) and watched is not self._field
            if is_elsewhere and (kind == QEvent.Type.MouseButtonPress or not self._field.hasFocus()):
                self.hide()
        return False

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        QApplication.instance().installEventFilter(self)  # pyright: ignore

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        QApplication.instance().removeEventFilter(self)  # pyright: ignore
