"""Small parts of the problem bar: a field with its name above, numbers as text, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QCheckBox, QComboBox, QLabel, QLineEdit, QToolButton, QVBoxLayout, QWidget

from visualizer.panels.canvas import RIGHT
from visualizer.theme import DARK

MAX_TEXT: Final = 24
FLOATS: Final = ("sm_scale", "std")


def number(name: str, text: str) -> int | float | str | None:
    """What a text means for a field of Problem; a text that is no number stays one, and Problem says what it expects.

    Whole numbers may have separators (1,024 or 65 536). For sm_scale "auto" or nothing is None.
    """
    text = text.strip()
    if name == "sm_scale" and text.lower() in ("", "auto"):
        return None
    try:
        if name in FLOATS:
            return float(text)
        return int(text.replace(",", "").replace(" ", "").replace("\u202f", ""))
    except ValueError:
        return text


def text_of(value: int | float | None) -> str:
    """A number as a field shows it."""
    if value is None:
        return "auto"
    if isinstance(value, int):
        return str(value)
    short = f"{value:.6g}"
    return short if float(short) == value else repr(value)


class Tick(QCheckBox):
    """A check box whose box is filled when it is on, and easy to see on any ground."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.theme = DARK

    def sizeHint(self) -> QSize:
        px = self.theme.px
        return QSize(QFontMetrics(self.theme.ui_font(13)).horizontalAdvance(self.text()) + px(24), px(22))

    def hitButton(self, pos: QPoint) -> bool:
        return self.rect().contains(pos)

    def paintEvent(self, event: QPaintEvent) -> None:
        theme, px = self.theme, self.theme.px
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            side = px(16)
            box = QRectF(0.5, (self.height() - side) / 2 + 0.5, side - 1, side - 1)
            around = theme.text if self.hasFocus() else theme.accent if self.isChecked() else theme.muted
            painter.setPen(QPen(QColor(around), px(1)))
            painter.setBrush(QColor(theme.accent if self.isChecked() else theme.field))
            painter.drawRoundedRect(box, px(4), px(4))
            if self.isChecked():
                painter.setPen(QPen(QColor("#10151b"), px(2)))
                at = [(0.24, 0.52), (0.43, 0.70), (0.76, 0.32)]
                painter.drawPolyline([QPointF(box.x() + x * side, box.y() + y * side) for x, y in at])
            painter.setPen(QColor(theme.text))
            painter.setFont(theme.ui_font(13))
            painter.drawText(self.rect().adjusted(px(23), 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, self.text())


class Choice(QComboBox):
    """A combo box with a quiet arrow."""

    def __init__(self) -> None:
        super().__init__()
        self.theme = DARK

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        with QPainter(self) as painter:
            painter.setPen(QColor(self.theme.text))
            painter.setFont(self.theme.ui_font(12))
            painter.drawText(self.rect().adjusted(0, 0, -self.theme.px(7), 0), RIGHT, "▾")


class Named(QLabel):
    """The small name above a field."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.setObjectName("field")


def number_field(name: str, tip: str) -> QLineEdit:
    """A field for one number."""
    edit = QLineEdit()
    edit.setMaxLength(MAX_TEXT)
    edit.setToolTip(tip)
    edit.setAccessibleName(name)
    return edit


def tool_button(text: str, name: str, tip: str) -> QToolButton:
    """A button that opens something below it."""
    button = QToolButton()
    button.setText(text)
    button.setAccessibleName(name)
    button.setToolTip(tip)
    button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    return button


def stacked(above: QWidget, below: QWidget) -> QWidget:
    """The two widgets above each other; a label is the other one's buddy."""
    group = QWidget()
    layout = QVBoxLayout(group)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.addWidget(above)
    layout.addWidget(below)
    if isinstance(above, QLabel) and not isinstance(below, QLabel) and above.text():
        above.setBuddy(below)
        if not below.accessibleName():
            below.setAccessibleName(above.text())
    return group


def refit(group: QWidget, px: Callable[[float], int]) -> None:
    """The distances in a group, and the heights of its two rows, for another zoom."""
    layout = group.layout()
    assert layout is not None
    layout.setSpacing(px(1))
    for at, height in ((0, 15), (1, 22)):
        widget = layout.itemAt(at).widget()  # pyright: ignore
        assert widget is not None
        widget.setFixedHeight(px(height))
