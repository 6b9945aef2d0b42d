"""The picture of the chip: a heat map for each tile and column, the selected row through all of them."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF, QResizeEvent
from PySide6.QtWidgets import QToolTip, QWidget

from visualizer.explain import explain
from visualizer.frame import ChipView
from visualizer.panels.chip_layout import COLUMNS
from visualizer.panels.chip_slots import Slots
from visualizer.panels.ring import FocusRing
from visualizer.theme import CODE_FONT, Theme

ROWS = ("q", "matrix", *COLUMNS, "acc")


class ChipCanvas(FocusRing):
    """Shows a ChipView; `slots` is what it shows, place by place."""

    row_chosen = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Tiles on the chip; up and down choose the row")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setMinimumSize(200, 140)
        self.view: ChipView | None = None
        self.hovered: tuple[str, int, int] | None = None
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self.slots = Slots(theme)
        self._refill()

    def show_view(self, view: ChipView) -> None:
        self.view = view
        self._refill()
        if self.hovered is not None:
            place, i, j = self.hovered
            values = self.slots[place].values
            if values is None or i >= values.shape[0] or j >= values.shape[1]:
                self.hovered = None
            self._tell(self.cursor().pos())

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._refill()

    def _refill(self) -> None:
        if self.view is not None:
            self.slots.show(self.view, self.width(), self.height())
        self.update()

    def slot_rect(self, quantity: str) -> QRect:
        """Where a quantity is drawn, in this widget's coordinates; an empty rectangle before the first view."""
        place = {"s": "matrix", "p": "matrix", "o": "acc"}.get(quantity, quantity)
        slot = self.slots.by_place.get(place)
        return QRect() if slot is None else slot.filled

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.view is None:
            return
        with QPainter(self) as painter:
            self.slots.paint(painter, self.devicePixelRatioF())
            self._paint_row(painter)
            self._paint_hover(painter)
            self.paint_ring(painter)

    def _paint_row(self, painter: QPainter) -> None:
        assert self.view is not None
        theme = self.theme
        first, last = self.slots["q"], self.slots["acc"]
        cell = first.rect.height() / first.shape[0]
        top = first.rect.y() + self.view.row * cell
        left, right = first.rect.x() - theme.px(3), last.rect.x() + last.rect.width() + theme.px(3)
        halo, ink = QColor(theme.panel), QColor(theme.text)
        halo.setAlpha(150)
        if cell >= theme.px(7):
            box = QRectF(left, top, right - left, cell)
            for color, width in ((halo, 3), (ink, 1)):
                painter.setPen(QPen(color, width))
                painter.drawRect(box)
        else:
            y = round(top + cell / 2)
            painter.fillRect(QRectF(left, y - 1, right - left, 3), halo)
            painter.fillRect(QRectF(left, y, right - left, 1), ink)
        y, size = top + cell / 2, theme.px(4)
        tip = left - theme.px(2)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(ink)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.drawPolygon(
            QPolygonF([QPointF(tip - 1.5 * size, y - size), QPointF(tip, y), QPointF(tip - 1.5 * size, y + size)])
        )
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def _paint_hover(self, painter: QPainter) -> None:
        """The hovered cell, and the row and column that it was worked out from."""
        if self.hovered is None:
            return
        place, i, j = self.hovered
        parts: list[tuple[str, int | None, int | None]] = [(place, i, j)]
        if place == "matrix":
            parts += [("q", i, None), ("k", None, j)]
        elif place == "acc":
            parts += [("matrix", i, None), ("v", None, j)]
        elif place in ("m", "l"):
            parts.append(("matrix", i, None))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(self.theme.accent), self.theme.px(1.5)))
        for name, row, col in parts:
            slot = self.slots[name]
            if slot.values is None:
                continue
            rect, (rows, cols) = QRectF(slot.filled), slot.values.shape
            w, h = rect.width() / cols, rect.height() / rows
            x, width = (rect.x(), rect.width()) if col is None else (rect.x() + col * w, w)
            y, height = (rect.y(), rect.height()) if row is None else (rect.y() + row * h, h)
            painter.drawRect(QRectF(x - 1, y - 1, width + 1, height + 1))

    def explanation(self, cell: tuple[str, int, int]) -> tuple[str, ...]:
        """Where the cell's value came from."""
        if self.view is None:
            return ()
        place, i, j = cell
        return explain(self.view, self.slots[place].quantity, *((j, i) if place == "k" else (i, j)))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        cell = self.slots.cell_at(event.position().toPoint())
        if cell != self.hovered:
            self.hovered = cell
            self._tell(event.globalPosition().toPoint())
            self.update()

    def _tell(self, at: QPoint) -> None:
        lines = () if self.hovered is None else self.explanation(self.hovered)
        if not lines:
            QToolTip.hideText()
            return
        text = "\n".join(line.replace("<", "&lt;") for line in lines)
        style = f"margin: 0; white-space: pre; font-family: {CODE_FONT}; font-size: {self.theme.px(12)}px"
        QToolTip.showText(at, f'<p style="{style}">{text}</p>', self)

    def leaveEvent(self, event: QEvent) -> None:
        self.hovered = None
        self.update()

    def row_at(self, point: QPoint) -> int | None:
        """The row of the block that a point in q, the matrix, acc or a column stands for."""
        assert self.view is not None
        first = self.slots["q"].rect
        across = any(self.slots[name].rect.adjusted(-8, 0, 8, 0).contains(point) for name in ROWS)
        if not across:
            return None
        return min(
            (point.y() - first.y()) * self.view.shape[0] // first.height(), self.view.rows[1] - self.view.rows[0] - 1
        )

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if self.view is not None and event.button() == Qt.MouseButton.LeftButton:
            row = self.row_at(event.position().toPoint())
            if row is not None:
                self.row_chosen.emit(row)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        keys = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1, Qt.Key.Key_PageUp: -16, Qt.Key.Key_PageDown: 16}
        move = keys.get(Qt.Key(event.key()))
        if move is None or self.view is None or event.modifiers() != Qt.KeyboardModifier.NoModifier:
            super().keyPressEvent(event)
            return
        row = min(max(self.view.row + move, 0), self.view.rows[1] - self.view.rows[0] - 1)
        if row != self.view.row:
            self.row_chosen.emit(row)
