"""The places of the chip's picture: what each holds now, and its painting."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QImage, QPainter, QPen, QPixmap

from visualizer.frame import ChipView
from visualizer.panels import heatmap
from visualizer.panels.chip_layout import COLUMNS, label_height, lay_out
from visualizer.panels.chip_slot import Slot
from visualizer.theme import Theme

NAMES = {"k": "kᵀ", "alpha": "α", "lse": "L"}
CENTER = Qt.AlignmentFlag.AlignCenter
LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class Slots:
    """All places of the picture: q, k (shown as kᵀ), v, matrix (s or p), acc (at the end o), m, alpha, l, lse."""

    def __init__(self, theme: Theme) -> None:
        self.theme = theme
        self.by_place: dict[str, Slot] = {}
        self._placed: tuple[object, ...] = ()
        self._bold = theme.ui_font(13, theme.ui_font().Weight.DemiBold)
        self._small, self._tiny, self._words = theme.code_font(10.5), theme.code_font(10), theme.ui_font(10.5)
        self._metrics = {id(font): QFontMetrics(font) for font in (self._bold, self._small, self._words)}
        self._widths: dict[tuple[str, int], int] = {}
        self._tables: dict[str, np.ndarray] = {}
        self._names: dict[tuple[object, ...], QPixmap] = {}

    def __getitem__(self, place: str) -> Slot:
        return self.by_place[place]

    def show(self, view: ChipView, width: int, height: int) -> None:
        """Fills the places, laid out in width x height, with what the view holds."""
        if self._placed != (view.shape, width, height):
            self._placed = (view.shape, width, height)
            self.by_place = {n: Slot(rect) for n, rect in lay_out(width, height, view.shape, self.theme).items()}
        rows, keys, d = view.shape
        self._fill(view, "q", "q", view.q, (rows, d))
        self._fill(view, "k", "k", None if view.k is None else view.k.T, (d, keys))
        self._fill(view, "v", "v", view.v, (keys, d))
        self._fill(view, "matrix", view.matrix_name, view.matrix, (rows, keys), view.keep)
        self._fill(view, "acc", view.acc_name, view.acc, (rows, d))
        for name, column in zip(COLUMNS, (view.m, view.alpha, view.l, view.lse), strict=True):
            self._fill(view, name, name, None if column is None else column[:, None], (rows, 1))

    def _fill(
        self,
        view: ChipView,
        place: str,
        quantity: str,
        values: np.ndarray | None,
        shape: tuple[int, int],
        keep: np.ndarray | None = None,
    ) -> None:
        low, high = view.levels["acc" if quantity == "o" else quantity]
        if quantity in ("alpha", "l"):
            low = -high  # their colour grows from the ground at 0
        slot = self.by_place[place]
        slot.fresh = quantity in view.fresh
        slot.fill(quantity, values, keep, (low, high), shape)

    def cell_at(self, point: QPoint) -> tuple[str, int, int] | None:
        """(place, row, column) of the cell at a point, as drawn."""
        for place, slot in self.by_place.items():
            rect = slot.filled
            if slot.values is not None and slot.values.size and rect.contains(point):
                rows, cols = slot.values.shape
                return (
                    place,
                    (point.y() - rect.y()) * rows // rect.height(),
                    (point.x() - rect.x()) * cols // rect.width(),
                )
        return None

    def paint(self, painter: QPainter, ratio: float) -> None:
        """Paints all places; ratio: device pixels to a logical one."""
        for place, slot in self.by_place.items():
            self._paint_slot(painter, slot, ratio)
            self._paint_name(painter, place, slot, ratio)
        self._paint_legend(painter)

    def _paint_slot(self, painter: QPainter, slot: Slot, ratio: float) -> None:
        theme, rect = self.theme, slot.filled
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(theme.thin(theme.muted, 0.35), 1))
        painter.drawRect(slot.rect.adjusted(-1, -1, 0, 0))
        if not slot.held:
            return
        painter.drawPixmap(rect.topLeft(), self._pixmap(slot, ratio))
        color = QColor(theme.muted) if slot.quantity in ("s", "p") else theme.color(slot.quantity)
        painter.setPen(QPen(QColor(heatmap.LOUD) if slot.nans else color, 1))
        painter.drawRect(rect.adjusted(-1, -1, 0, 0))
        if slot.fresh:
            painter.setPen(QPen(QColor(theme.text), 2))
            painter.drawRect(rect.adjusted(-3, -3, 3, 3))
        if slot.uniform and slot.values is not None:
            index = heatmap.to_index(slot.values[:1, :1], slot.levels)[0, 0]
            color = int(self._table(slot.quantity)[index])
            high = self._metrics[id(self._small)].height()
            painter.setFont(self._small)
            painter.fillRect(QRect(rect.x(), rect.center().y() - high // 2, rect.width(), high), QColor.fromRgb(color))
            painter.setPen(heatmap.ink_on(color))
            painter.drawText(rect, CENTER, slot.uniform)

    def _paint_name(self, painter: QPainter, place: str, slot: Slot, ratio: float) -> None:
        px, height = self.theme.px, label_height(self.theme)
        beyond = px(6) if place in COLUMNS else 0
        rect = QRect(slot.rect.x() - beyond, slot.rect.y() - height - px(2), slot.rect.width() + 2 * beyond, height)
        text, note = NAMES.get(slot.quantity, slot.quantity), "" if place in COLUMNS else slot.note
        key = (text, note, slot.quantity, slot.held, slot.nans > 0, rect.width(), ratio)
        if key not in self._names:
            if len(self._names) > 256:
                self._names.clear()
            self._names[key] = self._name(place in COLUMNS, text, note, slot, rect.size(), ratio)
        painter.drawPixmap(rect.topLeft(), self._names[key])

    def _name(self, centred: bool, text: str, note: str, slot: Slot, size: QSize, ratio: float) -> QPixmap:
        """A name and its note as a picture: writing them at every step would be the dearest part of it."""
        theme = self.theme
        pixmap = QPixmap(size * ratio)
        pixmap.setDevicePixelRatio(ratio)
        pixmap.fill(Qt.GlobalColor.transparent)
        with QPainter(pixmap) as painter:
            rect = QRect(QPoint(0, 0), size)
            painter.setFont(self._bold)
            painter.setPen(theme.word(slot.quantity) if slot.held else QColor(theme.muted))
            painter.drawText(rect, CENTER if centred else LEFT, text)
            if self._width(text, self._bold) + theme.px(6) + self._width(note, self._small) <= rect.width():
                painter.setFont(self._small)
                painter.setPen(QColor(theme.bad if slot.nans else theme.muted))
                painter.drawText(rect, RIGHT, note)
        return pixmap

    def legend(self) -> list[tuple[str, str]]:
        """(kind, words) on what the marks in the picture mean: kind is "scale", "masked", "nothing" or "nan"."""
        slot = self.by_place["matrix"]
        items: list[tuple[str, str]] = []
        if slot.held:
            low, high = (heatmap.short(x).removesuffix(".00") for x in slot.levels)
            below, above = self._beyond(slot)
            items.append(("scale", f"{slot.quantity} {'≤ ' * below}{low} … {'≥ ' * above}{high}"))
            if slot.keep is not None and not slot.keep.all():
                items.append(("masked", "masked"))
        if any(s.bare for s in self.by_place.values()):
            items.append(("nothing", "−∞"))
        if any(s.nans for s in self.by_place.values()):
            items.append(("nan", "not a number"))
        return items

    def _beyond(self, slot: Slot) -> tuple[bool, bool]:
        """Whether finite values that are shown lie below and above the colours' limits."""
        if slot.values is None:
            return False, False
        seen = slot.values if slot.keep is None else slot.values[slot.keep]
        seen = seen[np.isfinite(seen)]
        low, high = slot.levels
        return bool((seen < low).any()), bool((seen > high).any())

    def _paint_legend(self, painter: QPainter) -> None:
        """In the free corner above q, from the bottom up; left out where the corner is too small."""
        theme, q = self.theme, self.by_place["q"].rect
        px = theme.px
        line = px(15)
        y = q.y() - label_height(theme) - px(10) - line
        painter.setFont(self._words)
        for kind, words in reversed(self.legend()):
            if y < px(2):
                return
            box = QRect(q.x(), y + px(2), px(22), px(10))
            left = box.right() + px(6)
            if left + self._width(words, self._words) > self.by_place["k"].rect.x() - px(6):
                continue
            self._paint_sample(painter, kind, box)
            painter.setPen(QColor(theme.muted))
            painter.drawText(QRect(left, y, q.width(), line), LEFT | Qt.TextFlag.TextDontClip, words)
            y -= line

    def _paint_sample(self, painter: QPainter, kind: str, box: QRect) -> None:
        theme = self.theme
        ground, ink, style = {
            "masked": (theme.skipped, theme.muted, Qt.BrushStyle.BDiagPattern),
            "nothing": (theme.panel, theme.muted, Qt.BrushStyle.NoBrush),
            "nan": (heatmap.LOUD, "#000000", Qt.BrushStyle.DiagCrossPattern),
            "scale": (theme.panel, theme.panel, Qt.BrushStyle.NoBrush),
        }[kind]
        if kind == "scale":
            shades = self._table(self.by_place["matrix"].quantity)[None, : heatmap.SHADES].copy()
            painter.drawImage(box, QImage(shades.data, heatmap.SHADES, 1, QImage.Format.Format_RGB32))
        else:
            painter.fillRect(box, QColor(ground))
            heatmap.fill_pattern(painter, box, QColor(ink), style)
        if kind == "nothing":  # the pattern's lines are too far apart to be sure that one falls into the box
            for part in (1, 2):
                painter.fillRect(box.x(), box.y() + round(part * box.height() / 3), box.width(), 1, QColor(ink))
        painter.setPen(QPen(QColor(theme.muted), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(box)

    def _pixmap(self, slot: Slot, ratio: float) -> QPixmap:
        if slot.pixmap is None:
            assert slot.values is not None
            rect, (rows, cols) = slot.filled, slot.values.shape
            roomy = rect.width() / cols >= self.theme.px(32) and rect.height() / rows >= self.theme.px(12)
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

    def _table(self, quantity: str) -> np.ndarray:
        if quantity not in self._tables:
            lut = self.theme.heat_lut() if quantity == "p" else self.theme.signed_lut(quantity)
            self._tables[quantity] = heatmap.color_table(lut, self.theme)
        return self._tables[quantity]

    def _width(self, text: str, font) -> int:
        key = (text, id(font))
        if key not in self._widths:
            self._widths[key] = self._metrics[id(font)].horizontalAdvance(text)
        return self._widths[key]
