"""A widget that paints a list of texts and shapes: laid out once for a frame and a size, painted as often as needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QImage, QPainter, QPaintEvent, QPen, QPolygonF, QResizeEvent
from PySide6.QtWidgets import QWidget

LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
CENTER = Qt.AlignmentFlag.AlignCenter


@dataclass(frozen=True, slots=True)
class Text:
    """`whole` is what was to be written; `text` is shorter, and ends in an ellipsis, where that did not fit."""

    rect: QRect
    text: str
    whole: str
    font: QFont
    color: QColor
    align: Qt.AlignmentFlag


@dataclass(frozen=True, slots=True)
class Shape:
    """A filled rectangle (two points: corners), a polyline, or with `image` a picture stretched over the rectangle."""

    points: tuple[QPointF, ...]
    color: QColor
    width: float = 0
    dashed: bool = False
    image: QImage | None = None

    @property
    def rect(self) -> QRectF:
        return QRectF(self.points[0], self.points[-1])

    def reaches(self, area: QRect) -> bool:
        """Whether any of it can be between the top and the bottom of area."""
        heights = [point.y() for point in self.points]
        return min(heights) - self.width <= area.bottom() + 1 and max(heights) + self.width >= area.top()


@dataclass(slots=True)
class Sheet:
    """What one layout holds, in the order of painting, shapes below texts."""

    shapes: list[Shape] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)

    def text(self, rect: QRect, text: str, font: QFont, color: QColor | str, align: Qt.AlignmentFlag = LEFT) -> Text:
        """Writes one line into rect. The item's rect is what the line covers, so that overlaps can be found."""
        metrics = QFontMetrics(font)
        shown = text
        if metrics.horizontalAdvance(text) > rect.width():
            shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, rect.width())
        width = min(metrics.horizontalAdvance(shown), rect.width())
        left = rect.left()
        if align & Qt.AlignmentFlag.AlignRight:
            left = rect.left() + rect.width() - width
        elif align & Qt.AlignmentFlag.AlignHCenter:
            left = rect.left() + (rect.width() - width) // 2
        item = Text(QRect(left, rect.top(), width, rect.height()), shown, text, font, QColor(color), align)
        self.texts.append(item)
        return item

    def wrapped(self, rect: QRect, text: str, font: QFont, color: QColor | str) -> int:
        """Writes words into the lines of rect, as many as they need and it has; returns the height used."""
        metrics = QFontMetrics(font)
        height, top = metrics.height(), rect.top()
        lines, room = wrap(text, metrics, rect.width()), max(1, (rect.height() + 2) // height)
        if len(lines) > room:
            lines[room - 1 :] = [f"{lines[room - 1]} …"]
        for line in lines:
            self.text(QRect(rect.left(), top, rect.width(), height), line, font, color)
            top += height
        return top - rect.top()

    def box(self, rect: QRectF, color: QColor | str) -> None:
        self.shapes.append(Shape((rect.topLeft(), rect.bottomRight()), QColor(color)))

    def line(self, points: Sequence[QPointF], color: QColor | str, width: float = 1, dashed: bool = False) -> None:
        self.shapes.append(Shape(tuple(points), QColor(color), width, dashed))

    def image(self, rect: QRectF, image: QImage) -> None:
        self.shapes.append(Shape((rect.topLeft(), rect.bottomRight()), QColor(), image=image))

    def add(self, other: Sheet) -> None:
        """Paints the other sheet too."""
        self.shapes += other.shapes
        self.texts += other.texts

    @property
    def elided(self) -> list[str]:
        """The lines that did not fit."""
        return [item.whole for item in self.texts if item.text != item.whole]


class Canvas(QWidget):
    """Paints what `compose(size)` lays out; asks again when it is resized or refreshed."""

    def __init__(self, compose: Callable[[QSize], Sheet], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._compose = compose
        self.sheet = Sheet()

    def refresh(self) -> None:
        """Lays out anew and paints."""
        self.lay_out()
        self.update()

    def lay_out(self) -> None:
        """Lays out anew, for a caller who knows what must be painted; screen readers get the texts in reading order."""
        self.sheet = self._compose(self.size())
        self.setAccessibleDescription("; ".join(item.whole for item in self.sheet.texts))

    def resizeEvent(self, event: QResizeEvent) -> None:
        self.refresh()

    def paintEvent(self, event: QPaintEvent) -> None:
        dirty = event.rect()
        with QPainter(self) as painter:
            for shape in self.sheet.shapes:
                if not shape.reaches(dirty):
                    continue
                if shape.image is not None:
                    painter.drawImage(shape.rect, shape.image)
                elif shape.width:
                    style = Qt.PenStyle.DashLine if shape.dashed else Qt.PenStyle.SolidLine
                    painter.setRenderHint(QPainter.RenderHint.Antialiasing, _slanted(shape.points))
                    painter.setPen(QPen(shape.color, shape.width, style))
                    painter.drawPolyline(QPolygonF(shape.points))
                else:
                    painter.fillRect(shape.rect, shape.color)
            lowest = self.height() + 2  # a line that would be cut in half is left out
            for item in self.sheet.texts:
                if not item.rect.intersects(dirty) or (item.rect.top() > 0 and item.rect.bottom() > lowest):
                    continue
                painter.setFont(item.font)
                painter.setPen(item.color)
                painter.drawText(item.rect, Qt.TextFlag.TextDontClip | LEFT, item.text)


def wrap(text: str, metrics: QFontMetrics, width: int) -> list[str]:
    """The text in lines of at most `width` pixels, broken between words (a longer word stands alone)."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and metrics.horizontalAdvance(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _slanted(points: tuple[QPointF, ...]) -> bool:
    return any(a.x() != b.x() and a.y() != b.y() for a, b in pairwise(points))
