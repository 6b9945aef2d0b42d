"""A few words of which one is chosen, as small joined buttons."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QToolButton, QWidget

from visualizer.theme import CODE_FONT, Theme


class Switch(QWidget):
    """`chosen` carries the value that a person picks; `show_value` sets it without a signal."""

    chosen = Signal(str)

    def __init__(self, name: str, choices: Sequence[tuple[str, str, str]], parent: QWidget | None = None) -> None:
        """choices: (value, word on the button, what it does)."""
        super().__init__(parent)
        self.setAccessibleName(name)
        self._group = QButtonGroup(self)
        self.buttons: dict[str, QToolButton] = {}
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        for value, word, help_text in choices:
            button = QToolButton()
            button.setText(word)
            button.setCheckable(True)
            button.setAccessibleName(f"{name}: {word}")
            button.setToolTip(help_text)
            button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            button.clicked.connect(lambda _checked=False, value=value: self.chosen.emit(value))
            self._group.addButton(button)
            self.buttons[value] = button
            row.addWidget(button)

    def show_value(self, value: str) -> None:
        if not self.buttons[value].isChecked():
            self.buttons[value].setChecked(True)

    @property
    def value(self) -> str:
        return next(value for value, button in self.buttons.items() if button.isChecked())

    def set_theme(self, theme: Theme) -> None:
        px = theme.px
        self.setStyleSheet(
            f"""
            QToolButton {{ font-family: "{CODE_FONT}"; font-size: {px(11)}px; color: {theme.muted};
                border: 1px solid {theme.border}; border-radius: {px(4)}px; padding: 0px {px(5)}px; }}
            QToolButton:hover {{ background: {theme.border}; }}
            QToolButton:checked {{ color: {theme.text}; background: {theme.field}; border-color: {theme.muted}; }}
            QToolButton:focus {{ border: {px(2)}px solid {theme.accent}; padding: 0px {px(4)}px; }}
            """
        )
