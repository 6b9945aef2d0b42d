"""The arithmetic of the selected row, line by line; in the loop and at the end each quantity has its own place.

Where there is no room for all places, as many of the newest lines as fit stand there, none of them cut.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from visualizer.frame import Equation
from visualizer.numbers import MINUS
from visualizer.theme import Theme

ALIGN = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
MIN_LINES: Final = 3
# what will stand in a place: its name, and the rest where there is room
PLACES: Final = {
    "s": ("max s", " = max q·kᵀ"),
    "m": ("m", " ← max(m, max s·scale)"),
    "alpha": ("α", f" = 2^(m {MINUS} m_new)"),
    "p": ("Σ p", f" = Σ 2^(s·scale {MINUS} m_new)"),
    "l": ("l", " ← l·α + Σ p"),
    "acc": ("acc", " ← acc·α + p·v"),
}
END_PLACES: Final = {
    "m": ("m", ""),
    "l": ("l", ""),
    "acc": ("acc", ""),
    "o": ("o", " = acc / l"),
    "lse": ("L", " = m + log₂ l"),
}

Written = tuple[str, str, str, bool]  # text, note beside it, quantity, whether it is quiet


@dataclass(frozen=True, slots=True)
class Line:
    """One written line; note stands behind the text, muted; fresh: the quantity that the step wrote here, or ""."""

    rect: QRect
    text: str
    color: QColor
    note: str = ""
    note_rect: QRect | None = None
    fresh: str = ""


class Equations(QWidget):
    """A quiet box with a heading and equations; `lines` is what it shows."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Arithmetic of the selected row")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.theme = theme
        self.lines: list[Line] = []
        self._wanted = MIN_LINES
        self._heading = ""
        self._equations: tuple[Equation, ...] = ()
        self._fresh: frozenset[str] = frozenset()
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self._font, self._small = theme.code_font(12), theme.code_font(11)
        self._metrics = QFontMetrics(self._font)
        sample = "0" * 100
        self._character = self._metrics.horizontalAdvance(sample) / 100
        self._small_character = QFontMetrics(self._small).horizontalAdvance(sample) / 100
        self._arrange()

    def height_for_lines(self, count: int) -> int:
        return count * self._line_height + 2 * self.theme.px(8)

    @property
    def _line_height(self) -> int:
        return max(self._metrics.height() + self.theme.px(2), self.theme.px(17))

    def show_equations(
        self, heading: str, equations: tuple[Equation, ...], fresh: frozenset[str] = frozenset()
    ) -> None:
        """`fresh` names the quantities that the step has just written; their lines are marked at the left edge."""
        if (heading, equations, fresh) != (self._heading, self._equations, self._fresh):
            self._heading, self._equations, self._fresh = heading, equations, fresh
            self.setAccessibleDescription("; ".join([heading, *(f"{e.text} {e.note}".strip() for e in equations)]))
            self._arrange()

    def sizeHint(self) -> QSize:
        return QSize(200, self.height_for_lines(self._wanted))

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.height_for_lines(MIN_LINES))

    def want_lines(self, count: int) -> None:
        """Asks for room for so many lines; less, down to MIN_LINES, where the panel has not got it."""
        if count != self._wanted:
            self._wanted = count
            self.updateGeometry()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._arrange()

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self.theme.field))
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.drawRoundedRect(self.rect(), self.theme.px(5), self.theme.px(5))
            muted = QColor(self.theme.muted)
            for line in self.lines:
                if line.fresh:
                    edge = QRect(self.theme.px(4), line.rect.top() + 1, self.theme.px(3), line.rect.height() - 2)
                    painter.fillRect(edge, self.theme.color(line.fresh))
                painter.setFont(self._font)
                painter.setPen(line.color)
                painter.drawText(line.rect, ALIGN, line.text)
                if line.note_rect is not None:
                    painter.setFont(self._small)
                    painter.setPen(muted)
                    painter.drawText(line.note_rect, ALIGN, line.note)

    def _arrange(self) -> None:
        """Sets the heading and the equations; too long ones are broken before an equals sign."""
        px, high = self.theme.px, self._line_height
        width = self.width() - 2 * px(12)
        room = max(1, (self.height() - 2 * px(8)) // high)
        muted = QColor(self.theme.muted)
        blocks = self._placed(width, room - 1) or self._newest(width, room)
        y = px(8)
        self.lines = []
        if sum(map(len, blocks)) < room:
            heading = self._heading
            while "   " in heading and self._advance(heading) > width:
                heading = heading.rpartition("   ")[0].rstrip()
            self.lines.append(Line(QRect(px(12), y, width, high), heading, muted))
            y += high
        for block in blocks:
            for text, note, quantity, quiet in block:
                color = muted if quiet else self.theme.word(quantity)
                used = math.ceil(self._advance(text))
                rect = QRect(px(12), y, used, high)
                small = math.ceil(len(note) * self._small_character)
                note_rect = QRect(px(12) + used + px(14), y, small, high) if note else None
                fresh = quantity if quantity in self._fresh and not quiet else ""
                self.lines.append(Line(rect, text, color, note, note_rect, fresh))
                y += high
        self.update()

    @property
    def _places(self) -> dict[str, tuple[str, str]]:
        return END_PLACES if any(e.quantity == "o" for e in self._equations) else PLACES

    def _placed(self, width: int, room: int) -> list[list[Written]]:
        """Every quantity in its place, with its formula until it is there; nothing where room lacks."""
        by_quantity = {e.quantity: e for e in self._equations}
        blocks = [
            self._broken(by_quantity[q], width)
            if q in by_quantity
            else [(name + (rest if self._advance(name + rest) <= width else ""), "", q, True)]
            for q, (name, rest) in self._places.items()
        ]
        blocks = [[line for n, line in enumerate(block) if n == 0 or not line[3]] for block in blocks]
        return blocks if sum(map(len, blocks)) <= room else []

    def _newest(self, width: int, room: int) -> list[list[Written]]:
        """The newest equations that fit, in the order of the places; notes go first, then the heading."""
        blocks = [self._broken(e, width) for e in self._equations]
        if sum(map(len, blocks)) + 1 > room:
            blocks = [[line for line in block if not line[3]] for block in blocks]
        chosen: list[list[Written]] = []
        left = room - 1
        for block in reversed(blocks):
            if len(block) > left and chosen:
                break
            chosen.insert(0, block)
            left -= len(block)
        order = list(self._places)
        return sorted(chosen, key=lambda block: order.index(block[0][2]))

    def _advance(self, text: str) -> float:
        """Width of a text in the code font, all of whose characters are as wide as each other."""
        return len(text) * self._character

    def _broken(self, equation: Equation, width: int) -> list[Written]:
        """(text, note beside it, quantity, whether it is a note alone) for each line of an equation."""
        advance = self._advance
        lines: list[str] = []
        for part in equation.text.split(" = "):
            piece = part if not lines else f"= {part}"
            longer = f"{lines[-1]} {piece}" if lines else piece
            if lines and advance(longer) <= width:
                lines[-1] = longer
            else:
                lines.append(piece if not lines else f"  {piece}")
        result: list[Written] = [(line, "", equation.quantity, False) for line in lines]
        if equation.note:
            last = lines[-1]
            beside = advance(last) + self.theme.px(14) + len(equation.note) * self._small_character
            if beside <= width:
                result[-1] = (last, equation.note, equation.quantity, False)
            else:
                result.append((f"  {equation.note}", "", equation.quantity, True))
        return result
