"""Which keys a focused widget keeps for itself, so that the window's keys work everywhere else."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit, QWidget

FIELDS = (QLineEdit, QAbstractSpinBox, QComboBox)
COMMANDS = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.MetaModifier


class KeyGuard(QObject):
    """Fields keep what can be typed, and Escape leaves them, once it has taken back what was refused in them.

    Buttons keep Space and Return, once reached by Tab. A click gives a button no focus: Space still plays after it.
    """

    def watch(self, root: QWidget) -> None:
        """Looks after every field and button under `root`."""
        for widget in root.findChildren(QWidget):
            if isinstance(widget, QAbstractButton | QComboBox) and widget.focusPolicy() != Qt.FocusPolicy.NoFocus:
                widget.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            if isinstance(widget, (QAbstractButton, *FIELDS)):
                widget.removeEventFilter(self)
                widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if kind not in (QEvent.Type.ShortcutOverride, QEvent.Type.KeyPress) or not isinstance(event, QKeyEvent):
            return False
        key = event.key()
        if isinstance(watched, QAbstractButton):
            return self._button(watched, event, kind)
        if kind == QEvent.Type.ShortcutOverride:
            if not event.modifiers() & COMMANDS and not Qt.Key.Key_F1 <= key <= Qt.Key.Key_F35:
                event.accept()
            return False
        if key == Qt.Key.Key_Escape and isinstance(watched, QWidget) and not watched.property("wrong"):
            if watched.window() is not self.parent():
                return False  # a sheet over the window closes
            watched.clearFocus()
            watched.window().setFocus(Qt.FocusReason.OtherFocusReason)
            return True
        return False

    def _button(self, button: QAbstractButton, event: QKeyEvent, kind: QEvent.Type) -> bool:
        if event.key() == Qt.Key.Key_Space and kind == QEvent.Type.ShortcutOverride:
            event.accept()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and kind == QEvent.Type.KeyPress:
            button.click()
            return True
        return False
