"""How the score map is painted: two pictures of all tiles (to come, done), then the few things that move."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QImage, QPainter, QPen, QPixmap, QPolygonF

from visualizer.frame import TilesView
from visualizer.panels.tiles_cells import CellPainter
from visualizer.panels.tiles_layout import Label, MapLayout
from visualizer.panels.tiles_picture import code_colors, done_runs, tile_codes, tile_words
from visualizer.theme import Theme

MAX_LABELLED: Final = 64


class MapPainter:
    """Paints a TilesView where a MapLayout says; makes its pictures again only for another range, theme or tiling."""

    def __init__(self) -> None:
        self._key: tuple | None = None
        self._arrays: tuple[np.ndarray, np.ndarray] | None = None
        self._to_come = self._done = self._q = self._k = self._v = QPixmap()
        self._cells = CellPainter()

    def paint(self, painter: QPainter, place: MapLayout, view: TilesView, labels: Sequence[Label]) -> None:
        self._remake(place, view)
        self._paint_tiles(painter, place, view)
        self._cells.paint(painter, place, view)
        self._paint_strips(painter, place, view)
        self._paint_hand(painter, place, view)
        for swatch in place.legend:
            self._paint_swatch(painter, swatch.rect, swatch.kind, place.theme, place.shows_cells)
        for label in labels:
            painter.setFont(label.font)
            painter.setPen(label.color)
            painter.drawText(label.rect, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, label.text)
        if not view.seqlen_k:
            painter.setFont(place.theme.ui_font(11))
            painter.setPen(QColor(place.theme.text))
            painter.drawText(place.strip_area("k"), Qt.AlignmentFlag.AlignCenter, "no keys")

    def _remake(self, place: MapLayout, view: TilesView) -> None:
        key = (place.keys, place.rows, place.theme, place.strip)
        same = self._arrays is not None and self._arrays[0] is view.full and self._arrays[1] is view.visited
        if key == self._key and same:
            return
        self._key, self._arrays = key, (view.full, view.visited)
        codes = tile_codes(place.rows, place.keys, view.full, view.visited)
        height, width = codes.shape
        image = QImage(codes.data, width, height, width, QImage.Format.Format_Indexed8)
        image.setColorTable(code_lut(place.theme, done=False))
        self._to_come = QPixmap.fromImage(image)
        image.setColorTable(code_lut(place.theme, done=True))
        self._done = QPixmap.fromImage(image)
        for picture in (self._to_come, self._done):
            picture.setDevicePixelRatio(place.keys.dpr)
        for quantity, axis in (("q", place.rows), ("k", place.keys), ("v", place.keys)):
            line = np.full(axis.pixels, _rgb(_mix(place.theme.panel, place.theme.color(quantity), 0.36)), np.uint32)
            line[axis.gaps(max(1, round(axis.dpr)))] = _rgb(QColor(place.theme.panel))
            picture = line[:, None] if quantity == "q" else line[None, :]
            setattr(self, f"_{quantity}", _pixmap(np.ascontiguousarray(picture)))
        self._label_tiles(place, view)

    def _label_tiles(self, place: MapLayout, view: TilesView) -> None:
        """Names the tiles in both pictures, once they are large enough to hold it."""
        font = place.theme.code_font(10)
        metrics, px = QFontMetricsF(font), place.theme.px
        problem = place.problem
        rows, keys = place.rows.tiles(), place.keys.tiles()
        if not 0 < len(rows) * len(keys) <= MAX_LABELLED or not _holds_text(place, view, metrics):
            return
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop
        longest = max(tile_text(rows[-1] * place.rows.block, keys[-1] * place.keys.block), key=len)
        ground = QRectF(-px(2), 0, metrics.horizontalAdvance(longest) + 2 * px(2), 2 * metrics.height())
        for picture, done in ((self._to_come, False), (self._done, True)):
            with QPainter(picture) as painter:
                painter.translate(-place.keys.origin, -place.rows.origin)
                painter.setFont(font)
                colors = tile_colors(place.theme, done=done)
                for block in rows:
                    for tile in keys:
                        kind, _, _ = tile_words(problem, block, tile)
                        if kind == "skipped":
                            continue
                        text = tile_text(block * place.rows.block, tile * place.keys.block)
                        rect = place.tile_rect(block, tile).intersected(place.map_rect).adjusted(px(5), px(3), 0, 0)
                        if ground.width() + px(3) > rect.width() or ground.height() > rect.height():
                            continue
                        if kind != "full":
                            painter.fillRect(ground.translated(rect.topLeft()), colors["partial"])
                        painter.setPen(label_color(place.theme, done))
                        painter.drawText(rect, flags, "\n".join(text))

    def _paint_tiles(self, painter: QPainter, place: MapLayout, view: TilesView) -> None:
        rows, keys = place.rows, place.keys
        corner = QPointF(keys.origin, rows.origin)
        painter.drawPixmap(corner, self._to_come)
        runs, partly = done_runs(view.visited, view.done)
        for first, end in runs:
            self._copy(painter, place, view, (keys.origin, keys.end), (rows.span(first)[0], rows.span(end - 1)[1]))
        for row in partly:
            first, end = view.done_tiles(row)
            x = keys.origin if first == 0 else keys.span(first)[0]
            self._copy(painter, place, view, (x, keys.span(end - 1)[1]), rows.span(row))

    def _copy(
        self, painter: QPainter, place: MapLayout, view: TilesView, x: tuple[float, float], y: tuple[float, float]
    ) -> None:
        """Copies a part of the picture of done tiles to its place."""
        area = QRectF(QPointF(x[0], y[0]), QPointF(x[1], y[1])).intersected(place.map_rect)
        if area.isEmpty():
            return
        dpr = place.keys.dpr
        source = area.translated(-place.keys.origin, -place.rows.origin)
        painter.drawPixmap(area, self._done, QRectF(source.topLeft() * dpr, source.size() * dpr))

    def _paint_strips(self, painter: QPainter, place: MapLayout, view: TilesView) -> None:
        theme = place.theme
        for quantity, picture in (("q", self._q), ("k", self._k), ("v", self._v)):
            painter.drawPixmap(place.strip_area(quantity), picture, QRectF(picture.rect()))
        for quantity in ("q", "k", "v"):
            rect = place.strip_rect(view, quantity)
            if rect.isEmpty() or not rect.intersects(place.strip_area(quantity)):
                continue
            rect = rect.intersected(place.strip_area(quantity))
            color = theme.color(quantity)
            if view.load == quantity:
                grown = theme.px(3)
                painter.fillRect(rect.adjusted(-grown, -grown, grown, grown), QColor(theme.text))
                grown -= max(1, theme.px(1.5))
                painter.fillRect(rect.adjusted(-grown, -grown, grown, grown), color)
            else:
                painter.fillRect(rect, color)

    def _paint_hand(self, painter: QPainter, place: MapLayout, view: TilesView) -> None:
        """The row in q's colour, the column in k's, the tile at hand bright, o where it leaves."""
        theme, area = place.theme, place.map_rect
        width = max(2, theme.px(2))
        painter.save()
        painter.setClipRect(area.adjusted(-width, -width, width, width))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if view.tile is not None:
            x0, x1 = place.keys.span(view.tile)
            self._frame(painter, QRectF(QPointF(x0, area.top()), QPointF(x1, area.bottom())), theme.color("k"), width)
        y0, y1 = place.rows.span(view.block)
        self._frame(painter, QRectF(QPointF(area.left(), y0), QPointF(area.right(), y1)), theme.color("q"), width)
        if view.tile is not None:
            rect = place.hand_rect(view)
            ring = theme.px(1.5)
            if place.shows_cells:
                self._frame(painter, rect, QColor(theme.text), width)
                self._frame(painter, rect.adjusted(1, 1, -1, -1), QColor(theme.panel), 1)  # seen beside any score
            else:
                painter.fillRect(rect, QColor(theme.panel))
                painter.fillRect(rect.adjusted(ring, ring, -ring, -ring), QColor(theme.text))
                self._label_hand(painter, place, view, rect)
        painter.restore()
        self._point_outside(painter, place, view)
        if view.store:
            self._paint_output(painter, place, view)

    def _label_hand(self, painter: QPainter, place: MapLayout, view: TilesView, rect: QRectF) -> None:
        font = place.theme.code_font(10)
        metrics, px = QFontMetricsF(font), place.theme.px
        text = tile_text(view.block * place.rows.block, (view.tile or 0) * place.keys.block)
        inner = rect.intersected(place.map_rect).adjusted(px(5), px(3), 0, 0)
        # the last tile may be narrower than a whole one, and a zoomed map may show a part of it
        if inner.width() < max(metrics.horizontalAdvance(line) for line in text):
            return
        if not _holds_text(place, view, metrics):
            return
        painter.setFont(font)
        painter.setPen(QColor(place.theme.panel))
        painter.drawText(inner, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop, "\n".join(text))

    @staticmethod
    def _frame(painter: QPainter, rect: QRectF, color: QColor, width: int) -> None:
        pen = QPen(color, width)
        pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
        painter.setPen(pen)
        half = width / 2
        painter.drawRect(rect.adjusted(-half, -half, half, half))

    def _point_outside(self, painter: QPainter, place: MapLayout, view: TilesView) -> None:
        """An arrow at the edge towards a tile at hand that a zoomed map does not show."""
        hand, area = place.hand_rect(view), place.map_rect
        if hand.intersects(area):
            return
        size = place.theme.px(9)
        at = hand.center()
        edge = QPointF(
            min(max(at.x(), area.left() + size), area.right() - size),
            min(max(at.y(), area.top() + size), area.bottom() - size),
        )
        dx, dy = at.x() - edge.x(), at.y() - edge.y()
        length = max(1.0, (dx * dx + dy * dy) ** 0.5)
        way = QPointF(dx / length, dy / length) * size
        side = QPointF(-way.y(), way.x()) * 0.7
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(place.theme.panel), 1.5))
        painter.setBrush(QColor(place.theme.text))
        painter.drawPolygon(QPolygonF([edge + way, edge - way * 0.5 + side, edge - way * 0.5 - side]))
        painter.restore()

    def _paint_output(self, painter: QPainter, place: MapLayout, view: TilesView) -> None:
        """The o tile, leaving to the right of its row."""
        theme, rect = place.theme, place.output_rect(view)
        if not QRectF(rect).intersects(QRectF(0, place.rows.origin, rect.right(), place.rows.size)):
            return
        painter.fillRect(rect, theme.color("o"))
        font = theme.ui_font(13)
        font.setBold(True)
        metrics = QFontMetricsF(font)
        painter.setFont(font)
        if rect.height() >= metrics.height():
            painter.setPen(QColor("#10151b"))
            painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, "o")
        else:
            above = QRectF(rect.left(), rect.top() - metrics.height() - 1, rect.width(), metrics.height())
            if above.top() < place.rows.origin:
                above.moveTop(rect.bottom() + 1)
            painter.setPen(theme.word("o"))
            painter.drawText(above, Qt.AlignmentFlag.AlignCenter, "o")

    @staticmethod
    def _paint_swatch(painter: QPainter, rect: QRectF, kind: str, theme: Theme, cells: bool) -> None:
        colors = tile_colors(theme, done=kind == "done")
        edge = rect.adjusted(0.5, 0.5, -0.5, -0.5)
        match kind:
            case "hand":
                painter.fillRect(rect, QColor(theme.text))
                if cells:
                    painter.fillRect(rect.adjusted(2, 2, -2, -2), colors["full"])
                return
            case "cells":
                shades = theme.signed_lut("s")[[0, 64, 128, 192, 255]]
                width = rect.width() / len(shades)
                for i, shade in enumerate(shades):
                    painter.fillRect(QRectF(rect.left() + i * width, rect.top(), width, rect.height()), QColor(*shade))
                return
            case "masked":
                painter.fillRect(rect, colors["skipped"])
                painter.fillRect(rect, QBrush(QColor(theme.muted), Qt.BrushStyle.BDiagPattern))
                return
            case "done" | "to come" | "skipped":
                painter.fillRect(rect, colors["skipped" if kind == "skipped" else "full"])
                if kind == "skipped":
                    painter.setPen(QPen(QColor(theme.grid), 1))
                    painter.drawRect(edge)
                return
        painter.save()
        painter.fillRect(rect, colors["partial"])
        painter.setClipRect(rect)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(colors["hatch"], 1.3))
        step = 4.0
        at = rect.left() - rect.height()
        while at < rect.right():
            painter.drawLine(QPointF(at, rect.bottom()), QPointF(at + rect.height(), rect.top()))
            at += step
        painter.restore()


def tile_text(row: int, key: int) -> tuple[str, str]:
    """The two lines in a tile that is large enough: its first row and key."""
    return f"row {row:,}", f"key {key:,}"


def _holds_text(place: MapLayout, view: TilesView, metrics: QFontMetricsF) -> bool:
    """Whether a whole tile has room for the longest tile_text of this problem."""
    px, text = place.theme.px, tile_text(view.seqlen_q, view.seqlen_k)
    width = max(metrics.horizontalAdvance(line) for line in text) + px(8)
    return place.keys.tile_size >= width and place.rows.tile_size >= 2 * metrics.height() + px(8)


def label_color(theme: Theme, done: bool) -> QColor:
    return QColor(theme.text if not done or theme.name == "light" else "#ffffff")


def tile_colors(theme: Theme, *, done: bool) -> dict[str, QColor]:
    """Colours of full and partial tiles, of the hatching, of skipped tiles and of the lines between."""
    full = QColor(theme.done if done else theme.to_come)
    ground, orange = QColor(theme.skipped), _mix(theme.color("k"), theme.color("alpha"), 0.5)
    dark = theme.name == "dark"
    hatch = _mix(full, theme.window if dark else theme.text, 0.5 if dark else 0.33)
    if not done:
        hatch = _mix(ground, orange, 0.6)
    return {
        "full": full,
        "partial": _mix(full, orange, 0.2) if done else _mix(full, ground, 0.4),
        "hatch": hatch,
        "skipped": ground,
        "gap": QColor(theme.panel),
    }


@cache
def code_lut(theme: Theme, *, done: bool) -> list[int]:
    """256 colours 0xffRRGGBB for tile_codes."""
    colors = tile_colors(theme, done=done)
    return code_colors(
        **{name: np.array([c.red(), c.green(), c.blue()], np.float64) for name, c in colors.items()}
    ).tolist()


def _mix(a: QColor | str, b: QColor | str, share: float) -> QColor:
    """`share` of b in a."""
    a, b = QColor(a), QColor(b)
    return QColor(*(round(x + (y - x) * share) for x, y in zip(a.getRgb()[:3], b.getRgb()[:3], strict=True)))  # pyright: ignore


def _rgb(color: QColor) -> int:
    return color.rgb() & 0xFFFFFFFF


def _pixmap(rgb: np.ndarray) -> QPixmap:
    height, width = rgb.shape
    return QPixmap.fromImage(QImage(rgb.data, width, height, 4 * width, QImage.Format.Format_RGB32))
