"""The picture of the chip: a heat map for each tile and column, the selected row through all of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QKeyEvent, QMouseEvent, QPainter, QPen, QPixmap, QPolygonF
from PySide6.QtWidgets import QToolTip, QWidget

from visualizer.explain import explain
from visualizer.frame import ChipView
from visualizer.panels import heatmap
from visualizer.panels.chip_layout import COLUMNS, label_height, lay_out
from visualizer.theme import CODE_FONT, Theme

NAMES = {"k": "kᵀ", "alpha": "α", "lse": "L"}
ROWS = ("q", "matrix", *COLUMNS, "acc")


@dataclass(slots=True)
class Slot:
    """One place of the picture: which quantity fills it, with which numbers (None: nothing held), and its drawing."""

    rect: QRect
    quantity: str = ""
    values: np.ndarray | None = None
    keep: np.ndarray | None = None
    levels: tuple[float, float] = (0.0, 1.0)
    shape: tuple[int, int] = (1, 1)
    fresh: bool = False
    pixmap: QPixmap | None = field(default=None, repr=False)
    uniform: str = ""
    nans: int = 0

    @property
    def filled(self) -> QRect:
        """The part that holds numbers; a ragged tile leaves the rest of its slot free."""
        if self.values is None:
            return self.rect
        rows, cols = self.values.shape
        width, height = (
            max(1, round(a * b / c))
            for a, b, c in zip(
                (self.rect.width(), self.rect.height()), (cols, rows), (self.shape[1], self.shape[0]), strict=True
            )
        )
        return QRect(self.rect.topLeft(), self.rect.size().__class__(width, height))


class ChipCanvas(QWidget):
    """Shows a ChipView. `slots` is what it shows, by place: q, k, v, matrix, acc, m, alpha, l, lse."""

    row_chosen = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Tiles on the chip; up and down choose the row")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setMinimumSize(200, 140)
        self.view: ChipView | None = None
        self.slots: dict[str, Slot] = {}
        self.hovered: tuple[str, int, int] | None = None
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self._bold = theme.ui_font(13, theme.ui_font().Weight.DemiBold)
        self._small = theme.code_font(10.5)
        self._tiny = theme.code_font(10)
        self._tables: dict[str, np.ndarray] = {}
        self.slots = {}
        if self.view is not None:
            self.show_view(self.view)
        self.update()

    def show_view(self, view: ChipView) -> None:
        if self.view is None or self.view.shape != view.shape or not self.slots:
            self._place(view.shape)
        self.view = view
        d, rows, keys = view.head_dim, view.shape[0], view.shape[1]
        kt = None if view.k is None else view.k.T
        self._fill("q", "q", view.q, (rows, d))
        self._fill("k", "k", kt, (d, keys))
        self._fill("v", "v", view.v, (keys, d))
        self._fill("matrix", view.matrix_name, view.matrix, (rows, keys), view.keep)
        self._fill("acc", view.acc_name, view.acc, (rows, d))
        for name, column in zip(COLUMNS, (view.m, view.alpha, view.l, view.lse), strict=True):
            self._fill(name, name, None if column is None else column[:, None], (rows, 1))
        if self.hovered is not None:
            self._tell(QPoint(self.cursor().pos()))
        self.update()

    def slot_rect(self, quantity: str) -> QRect:
        """Where a quantity is drawn, in this widget's coordinates; an empty rectangle before the first view."""
        place = {"s": "matrix", "p": "matrix", "o": "acc"}.get(quantity, quantity)
        slot = self.slots.get(place)
        return QRect() if slot is None else slot.filled

    def _place(self, shape: tuple[int, int, int]) -> None:
        rects = lay_out(self.width(), self.height(), shape, self.theme)
        self.slots = {name: Slot(rect) for name, rect in rects.items()}

    def _fill(
        self,
        place: str,
        quantity: str,
        values: np.ndarray | None,
        shape: tuple[int, int],
        keep: np.ndarray | None = None,
    ) -> None:
        assert self.view is not None
        slot = self.slots[place]
        levels = self.view.levels["acc" if quantity == "o" else quantity]
        if quantity in ("alpha", "l"):
            levels = (-levels[1], levels[1])
        if quantity == "lse":
            levels = self.view.levels["m"]
        slot.fresh = quantity in self.view.fresh
        same = _same(slot.values, values) and _same(slot.keep, keep)
        if same and (slot.quantity, slot.levels, slot.shape) == (quantity, levels, shape):
            return
        slot.quantity, slot.values, slot.keep, slot.levels, slot.shape = quantity, values, keep, levels, shape
        slot.pixmap = None
        slot.uniform, slot.nans = "", 0
        if values is not None and values.size:
            slot.nans = int(np.isnan(values).sum())
            first = values[0, 0]
            if first in (0, 1, -np.inf) and (values == first).all():
                slot.uniform = heatmap.short(float(first)).removesuffix(".00")

    def _table(self, quantity: str) -> np.ndarray:
        if quantity not in self._tables:
            lut = self.theme.heat_lut() if quantity == "p" else self.theme.signed_lut(quantity)
            self._tables[quantity] = heatmap.color_table(lut, self.theme)
        return self._tables[quantity]

    def _pixmap(self, slot: Slot) -> QPixmap:
        if slot.pixmap is None:
            assert slot.values is not None
            ratio, rect = self.devicePixelRatioF(), slot.filled
            rows, cols = slot.values.shape
            roomy = rect.width() / cols >= self.theme.px(34) and rect.height() / rows >= self.theme.px(12)
            slot.pixmap = heatmap.draw_tile(
                slot.values,
                slot.levels,
                self._table(slot.quantity),
                (max(1, round(rect.width() * ratio)), max(1, round(rect.height() * ratio))),
                ratio,
                self.theme,
                slot.keep,
                self._tiny if roomy else None,
            )
            if roomy:
                slot.uniform = ""
        return slot.pixmap

    def resizeEvent(self, event) -> None:
        if self.view is not None:
            self.slots = {}
            self.show_view(self.view)

    def paintEvent(self, event) -> None:
        if self.view is None:
            return
        painter = QPainter(self)
        for place, slot in self.slots.items():
            self._paint_slot(painter, place, slot)
        self._paint_row(painter)
        self._paint_hover(painter)
        if self.hasFocus():
            painter.setPen(QPen(QColor(self.theme.accent), 1, Qt.PenStyle.DashLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        painter.end()

    def _paint_slot(self, painter: QPainter, place: str, slot: Slot) -> None:
        theme = self.theme
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(theme.border), 1))
        painter.drawRect(slot.rect.adjusted(-1, -1, 0, 0))
        held = slot.values is not None and slot.values.size > 0
        if held:
            rect = slot.filled
            painter.drawPixmap(rect.topLeft(), self._pixmap(slot))
            color = QColor(theme.muted) if slot.quantity in ("s", "p") else theme.color(slot.quantity)
            painter.setPen(QPen(QColor(heatmap.LOUD) if slot.nans else color, 1))
            painter.drawRect(rect.adjusted(-1, -1, 0, 0))
            if slot.fresh:
                painter.setPen(QPen(QColor(theme.text), 2))
                painter.drawRect(rect.adjusted(-3, -3, 3, 3))
            if slot.uniform:
                index = heatmap.to_index(slot.values[:1, :1], slot.levels)[0, 0]
                shade = QColor.fromRgb(int(self._table(slot.quantity)[index]))
                painter.setFont(self._small)
                painter.setPen(QColor("#10151b") if shade.lightness() > 120 else QColor("#f4f6f9"))
                painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, slot.uniform)
        self._paint_label(painter, place, slot, held)

    def _paint_label(self, painter: QPainter, place: str, slot: Slot, held: bool) -> None:
        theme, height = self.theme, label_height(self.theme)
        text = NAMES.get(slot.quantity, slot.quantity)
        rect = QRect(slot.rect.x(), slot.rect.y() - height - theme.px(2), slot.rect.width(), height)
        painter.setFont(self._bold)
        painter.setPen(theme.word(slot.quantity) if held else QColor(theme.muted))
        if place in COLUMNS:
            rect.adjust(-theme.px(6), 0, theme.px(6), 0)
            painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, text)
            return
        painter.drawText(rect, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, text)
        note = self.note(place)
        used = QFontMetrics(self._bold).horizontalAdvance(text) + theme.px(6)
        if used + QFontMetrics(self._small).horizontalAdvance(note) <= rect.width():
            painter.setFont(self._small)
            painter.setPen(QColor(theme.bad if slot.nans else theme.muted))
            painter.drawText(rect, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, note)

    def note(self, place: str) -> str:
        """What stands beside the name of a tile: its shape, or how many of its numbers are NaN."""
        slot = self.slots[place]
        if slot.nans:
            return f"{slot.nans} NaN"
        return "" if slot.values is None else f"{slot.values.shape[0]}×{slot.values.shape[1]}"

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
        parts = [(place, i, j)]
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

    def cell_at(self, point: QPoint) -> tuple[str, int, int] | None:
        """(place, row, column) of the cell at a point, as drawn."""
        for place, slot in self.slots.items():
            rect = slot.filled
            if slot.values is not None and slot.values.size and rect.contains(point):
                rows, cols = slot.values.shape
                i = (point.y() - rect.y()) * rows // rect.height()
                return place, min(i, rows - 1), min((point.x() - rect.x()) * cols // rect.width(), cols - 1)
        return None

    def explanation(self, cell: tuple[str, int, int]) -> tuple[str, ...]:
        """Where the cell's value came from."""
        if self.view is None:
            return ()
        place, i, j = cell
        return explain(self.view, self.slots[place].quantity, *((j, i) if place == "k" else (i, j)))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        cell = self.cell_at(event.position().toPoint())
        if cell != self.hovered:
            self.hovered = cell
            self._tell(event.globalPosition().toPoint())
            self.update()

    def _tell(self, at: QPoint) -> None:
        lines = () if self.hovered is None else self.explanation(self.hovered)
        if not lines:
            QToolTip.hideText()
            return
        text = "<br>".join(line.replace("<", "&lt;").replace(" ", "&nbsp;") for line in lines)
        size = self.theme.px(12)
        QToolTip.showText(at, f'<span style="font-family: {CODE_FONT}; font-size: {size}px">{text}</span>', self)

    def leaveEvent(self, event) -> None:
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


def _same(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    """Whether two arrays are the same cut of the same numbers; the tape never writes an array twice."""
    if a is None or b is None:
        return a is b
    return a is b or (a.shape == b.shape and a.base is not None and a.base is b.base and a.ctypes.data == b.ctypes.data)
