"""The map's deepest level: the scores themselves, a cell each, with their values once they have room."""

from __future__ import annotations

import math

import numpy as np
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QFontMetricsF, QPainter, QPixmap

from visualizer import cells
from visualizer.frame import TilesView
from visualizer.panels.heatmap import color_table, draw_tile
from visualizer.panels.tiles_layout import MapLayout


class CellPainter:
    """Paints the scores in view over the tiles that have them."""

    def __init__(self) -> None:
        self._key: tuple | None = None
        self._picture = QPixmap()
        self._rect = QRectF()

    def paint(self, painter: QPainter, place: MapLayout, view: TilesView) -> None:
        if not place.shows_cells:
            return
        self._remake(place, view)
        painter.save()
        painter.setClipRect(place.map_rect)
        for block in place.rows.tiles():
            first_done, end_done = view.done_tiles(block)
            if block == view.block and view.tile is not None and view.scored:
                first_done, end_done = min(first_done, view.tile), max(end_done, view.tile + 1)
            part = self._tiles_rect(place, block, first_done, end_done).intersected(self._rect)
            if end_done > first_done and not part.isEmpty():
                source = part.translated(-self._rect.topLeft())
                ratio = place.keys.dpr
                painter.drawPixmap(part, self._picture, QRectF(source.topLeft() * ratio, source.size() * ratio))
        painter.restore()

    @staticmethod
    def _tiles_rect(place: MapLayout, block: int, first: int, end: int) -> QRectF:
        """The tiles first ... end - 1 of a row of tiles, without the lines between the tiles of neighbouring rows."""
        (y0, y1), x0 = place.rows.span(block), place.keys.at(first * place.keys.block)
        x1 = place.keys.span(end - 1)[1] if end > first else x0
        return QRectF(QPointF(x0, y0), QPointF(x1, y1))

    def _remake(self, place: MapLayout, view: TilesView) -> None:
        key = (place.keys, place.rows, place.theme, id(view.q), id(view.k), view.level)
        if key == self._key:
            return
        self._key = key
        rows, keys = (_in_view(axis.low, axis.high, axis.length) for axis in (place.rows, place.keys))
        s, keep = cells.scores(place.problem, view, rows, keys)
        x = place.keys.at(keys.start), place.keys.at(keys.stop)
        y = place.rows.at(rows.start), place.rows.at(rows.stop)
        self._rect = QRectF(QPointF(x[0], y[0]), QPointF(x[1], y[1]))
        ratio = place.keys.dpr
        size = max(1, round(self._rect.width() * ratio)), max(1, round(self._rect.height() * ratio))
        font = place.theme.code_font(10)
        metrics = QFontMetricsF(font)
        has_room = place.cell_width >= metrics.horizontalAdvance("-0.00") + 4 and place.cell_height >= metrics.height()
        table = color_table(place.theme.signed_lut("s"), place.theme)
        mask = None if keep.all() else keep
        levels = (-view.level, view.level)
        font = font if has_room else None
        self._picture = draw_tile(np.ascontiguousarray(s), levels, table, size, ratio, place.theme, mask, font)


def _in_view(low: float, high: float, length: int) -> range:
    return range(max(0, math.floor(low)), min(length, math.ceil(high)))
