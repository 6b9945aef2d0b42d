"""The small sheet under "inputs": how q, k and v are drawn, or from which file they come."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from kernel.problem import DISTRIBUTIONS, Problem
from visualizer.panels.number_field import number, number_field, text_of
from visualizer.theme import Theme

ABOUT: Final = {
    "normal": "independent normal values",
    "rising": "scores grow along the keys: the maximum keeps moving",
    "spiky": "a few keys outshine all others",
}


class InputsPopup(QFrame):
    """Asks with `wanted(field, value)` and `file_wanted`; closes with Escape or a click elsewhere."""

    wanted = Signal(str, object)
    file_wanted = Signal()

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setObjectName("popup")
        self.setAccessibleName("Inputs")
        self.texts: dict[str, QLineEdit] = {}
        self.choices: dict[str, QRadioButton] = {}
        layout = QVBoxLayout(self)
        group = QButtonGroup(self)
        for name in DISTRIBUTIONS:
            choice = QRadioButton(f"{name}: {ABOUT[name]}")
            choice.clicked.connect(lambda _=False, name=name: self.wanted.emit("distribution", name))
            group.addButton(choice)
            layout.addWidget(choice)
            self.choices[name] = choice
        form = QFormLayout()
        for name, tip in (("seed", "Another seed draws other values."), ("std", "Standard deviation of q, k and v.")):
            edit = number_field(name, tip)
            edit.textEdited.connect(lambda text, name=name: self.wanted.emit(name, text))
            form.addRow(name, edit)
            self.texts[name] = edit
        layout.addLayout(form)
        self.reason = QLabel()
        self.reason.setObjectName("problem")
        self.reason.setWordWrap(True)
        layout.addWidget(self.reason)
        self.file_label = QLabel()
        self.file_label.setObjectName("muted")
        self.file_label.setWordWrap(True)
        layout.addWidget(self.file_label)
        buttons = QHBoxLayout()
        self.file_button = QPushButton("From file…")
        self.file_button.setToolTip("q, k and v from an .npz or .safetensors file; the problem takes its shapes.")
        self.file_button.clicked.connect(self._choose_file)
        self.drawn_button = QPushButton("Draw them again")
        self.drawn_button.setToolTip("Leave the file, and draw the values from the seed.")
        self.drawn_button.clicked.connect(lambda: self.wanted.emit("inputs", None))
        buttons.addWidget(self.file_button)
        buttons.addWidget(self.drawn_button)
        buttons.addStretch(1)
        layout.addLayout(buttons)
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        """Takes another dress or zoom."""
        px = theme.px
        side = px(12) - 2
        ring = f"border-radius: {(side + 2) // 2}px; width: {side}px; height: {side}px; border: 1px solid"
        dot = f"border-radius: {px(6)}px; width: {px(4)}px; height: {px(4)}px; border: {px(4)}px solid"
        self.setStyleSheet(
            f"QFrame#popup {{ background: {theme.panel}; border: 1px solid {theme.border}; }}"
            f"QRadioButton::indicator {{ background: {theme.field}; {ring} {theme.muted}; }}"
            f"QRadioButton::indicator:focus {{ border-color: {theme.text}; }}"
            f"QRadioButton::indicator:checked {{ background: {theme.panel}; {dot} {theme.accent}; }}"
            f"QRadioButton::indicator:checked:disabled {{ border-color: {theme.muted}; }}"
        )
        layout = self.layout()
        assert layout is not None
        self._margins = 2 * px(18)
        layout.setContentsMargins(px(14), px(12), px(14), px(12))
        layout.setSpacing(px(8))

    def show_problem(self, problem: Problem) -> None:
        """Sets choices and texts without asking anything; a text that already means the value stays."""
        drawn = problem.inputs is None
        for name, choice in self.choices.items():
            choice.setChecked(name == problem.distribution)
            choice.setEnabled(drawn)
        for name, edit in self.texts.items():
            if number(name, edit.text()) != getattr(problem, name) and not edit.property("wrong"):
                edit.setText(text_of(getattr(problem, name)))
            edit.setEnabled(drawn)
        self.file_label.setText("" if drawn else f"From {problem.inputs}")
        self.file_label.setVisible(not drawn)
        self.drawn_button.setVisible(not drawn)

    def show_reason(self, reason: str) -> None:
        """Why the seed or the std in its field cannot be."""
        self.reason.setText(reason)
        self.reason.setVisible(bool(reason))
        self.setFixedWidth(max(choice.sizeHint().width() for choice in self.choices.values()) + self._margins)
        self.adjustSize()

    def open_below(self, widget: QWidget) -> None:
        """Shows itself under the widget, whole on its screen."""
        self.show_reason(self.reason.text())
        at = widget.mapToGlobal(QPoint(0, widget.height() + 2))
        area = widget.screen().availableGeometry()
        self.move(
            max(area.left(), min(at.x(), area.right() - self.width())),
            max(area.top(), min(at.y(), area.bottom() - self.height())),
        )
        self.show()

    def _choose_file(self) -> None:
        self.close()
        self.file_wanted.emit()
