"""How the score map is painted: two pictures of all tiles (to come, done), then the few things that move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter, QPen, QPixmap, QPolygonF

from visualizer.panels.tiles_picture import code_colors, done_runs, tile_codes, tile_words
from visualizer.theme import Theme

if TYPE_CHECKING:
    from visualizer.panels.tiles_map import ScoreMap

MAX_LABELLED: Final = 200


class MapPainter:
    """Paints a ScoreMap. The pictures are made again only when the range, the tiles or the theme change."""

    def __init__(self) -> None:
        self._key: tuple | None = None
        self._arrays: tuple[np.ndarray, np.ndarray] | None = None
        self._to_come = self._done = self._q = self._k = self._v = QPixmap()

    def paint(self, painter: QPainter, score: ScoreMap) -> None:
        theme = score.theme
        painter.fillRect(score.rect(), QColor(theme.panel))
        self._remake(score)
        self._paint_tiles(painter, score)
        self._paint_strips(painter, score)
        self._paint_hand(painter, score)
        for swatch in score.legend:
            self._paint_swatch(painter, swatch.rect, swatch.kind, theme)
        for label in score.labels:
            painter.setFont(label.font)
            painter.setPen(label.color)
            painter.drawText(label.rect, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, label.text)
        if not score.view.seqlen_k:
            painter.setPen(QColor(theme.muted))
            painter.drawText(score.map_rect, Qt.AlignmentFlag.AlignCenter, "no keys")
        if score.hasFocus():
            painter.setPen(QPen(QColor(theme.text), 1, Qt.PenStyle.DotLine))
            painter.drawRect(QRectF(score.rect()).adjusted(0.5, 0.5, -0.5, -0.5))

    def _remake(self, score: ScoreMap) -> None:
        view = score.view
        key = (score.keys, score.rows, score.theme, score.strip)
        same = self._arrays is not None and self._arrays[0] is view.full and self._arrays[1] is view.visited
        if key == self._key and same:
            return
        self._key, self._arrays = key, (view.full, view.visited)
        codes = tile_codes(score.rows, score.keys, view.full, view.visited)
        self._to_come = _pixmap(code_lut(score.theme, done=False)[codes], score.keys.dpr)
        self._done = _pixmap(code_lut(score.theme, done=True)[codes], score.keys.dpr)
        for quantity, axis in (("q", score.rows), ("k", score.keys), ("v", score.keys)):
            line = np.full(axis.pixels, _rgb(_mix(score.theme.panel, score.theme.color(quantity), 0.36)), np.uint32)
            line[axis.gaps(max(1, round(axis.dpr)))] = _rgb(QColor(score.theme.panel))
            picture = line[:, None] if quantity == "q" else line[None, :]
            setattr(self, f"_{quantity}", _pixmap(np.ascontiguousarray(picture), 1))
        self._label_tiles(score)

    def _label_tiles(self, score: ScoreMap) -> None:
        """Names the tiles in both pictures, once they are large enough to hold it."""
        font = score.theme.code_font(10)
        metrics, px = QFontMetricsF(font), score.theme.px
        problem = score.problem
        rows, keys = score.rows.tiles(), score.keys.tiles()
        if len(rows) * len(keys) > MAX_LABELLED or score.rows.tile_size < 2 * metrics.height() + px(8):
            return
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop
        for picture, done in ((self._to_come, False), (self._done, True)):
            painter = QPainter(picture)
            painter.translate(-score.keys.origin, -score.rows.origin)
            painter.setFont(font)
            for block in rows:
                for tile in keys:
                    kind, _, _ = tile_words(problem, block, tile)
                    if kind == "skipped":
                        continue
                    text = tile_text(block * score.rows.block, tile * score.keys.block)
                    rect = score.tile_rect(block, tile).intersected(score.map_rect).adjusted(px(5), px(3), 0, 0)
                    if metrics.horizontalAdvance(text[1]) + px(6) > rect.width():
                        continue
                    painter.setPen(label_color(score.theme, done))
                    painter.drawText(rect, flags, "\n".join(text))
            painter.end()

    def _paint_tiles(self, painter: QPainter, score: ScoreMap) -> None:
        view, rows, keys = score.view, score.rows, score.keys
        corner = QPointF(keys.origin, rows.origin)
        painter.drawPixmap(corner, self._to_come)
        runs, partly = done_runs(view.visited, view.done)
        for first, end in runs:
            self._copy(painter, score, (keys.origin, keys.end), (rows.span(first)[0], rows.span(end - 1)[1]))
        for row in partly:
            self._copy(painter, score, (keys.origin, keys.span(int(view.done[row]) - 1)[1]), rows.span(row))

    def _copy(self, painter: QPainter, score: ScoreMap, x: tuple[float, float], y: tuple[float, float]) -> None:
        """Copies a part of the picture of done tiles to its place."""
        area = QRectF(QPointF(x[0], y[0]), QPointF(x[1], y[1])).intersected(score.map_rect)
        if area.isEmpty():
            return
        dpr = score.keys.dpr
        source = area.translated(-score.keys.origin, -score.rows.origin)
        painter.drawPixmap(area, self._done, QRectF(source.topLeft() * dpr, source.size() * dpr))

    def _paint_strips(self, painter: QPainter, score: ScoreMap) -> None:
        theme = score.theme
        for quantity, picture in (("q", self._q), ("k", self._k), ("v", self._v)):
            painter.drawPixmap(score.strip_area(quantity), picture, QRectF(picture.rect()))
        for quantity in ("q", "k", "v"):
            rect = score.strip_rect(quantity)
            if rect.isEmpty() or not rect.intersects(score.strip_area(quantity)):
                continue
            rect = rect.intersected(score.strip_area(quantity))
            color = theme.color(quantity)
            if score.view.load == quantity:
                grown = theme.px(3)
                painter.fillRect(rect.adjusted(-grown, -grown, grown, grown), QColor(theme.text))
                grown -= max(1, theme.px(1.5))
                painter.fillRect(rect.adjusted(-grown, -grown, grown, grown), color)
            else:
                painter.fillRect(rect, color)

    def _paint_hand(self, painter: QPainter, score: ScoreMap) -> None:
        """The row in q's colour, the column in k's, the tile at hand bright, o where it leaves."""
        theme, view, area = score.theme, score.view, score.map_rect
        width = max(2, theme.px(2))
        painter.save()
        painter.setClipRect(area.adjusted(-width, -width, width, width))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if view.tile is not None:
            x0, x1 = score.keys.span(view.tile)
            self._frame(painter, QRectF(QPointF(x0, area.top()), QPointF(x1, area.bottom())), theme.color("k"), width)
        y0, y1 = score.rows.span(view.block)
        self._frame(painter, QRectF(QPointF(area.left(), y0), QPointF(area.right(), y1)), theme.color("q"), width)
        if view.tile is not None:
            rect = score.hand_rect()
            painter.fillRect(rect.adjusted(-1, -1, 1, 1), QColor(theme.panel))
            painter.fillRect(rect, QColor(theme.text))
            self._label_hand(painter, score, rect)
        painter.restore()
        self._point_outside(painter, score)
        if view.store:
            self._paint_output(painter, score)

    def _label_hand(self, painter: QPainter, score: ScoreMap, rect: QRectF) -> None:
        font = score.theme.code_font(10)
        metrics, px = QFontMetricsF(font), score.theme.px
        text = tile_text(score.view.block * score.rows.block, (score.view.tile or 0) * score.keys.block)
        inner = rect.intersected(score.map_rect).adjusted(px(5), px(3), 0, 0)
        if inner.height() < 2 * metrics.height() or metrics.horizontalAdvance(text[1]) + px(6) > inner.width():
            return
        painter.setFont(font)
        painter.setPen(QColor(score.theme.panel))
        painter.drawText(inner, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop, "\n".join(text))

    @staticmethod
    def _frame(painter: QPainter, rect: QRectF, color: QColor, width: int) -> None:
        pen = QPen(color, width)
        pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
        painter.setPen(pen)
        half = width / 2
        painter.drawRect(rect.adjusted(-half, -half, half, half))

    def _point_outside(self, painter: QPainter, score: ScoreMap) -> None:
        """An arrow at the edge towards a tile at hand that a zoomed map does not show."""
        hand, area = score.hand_rect(), score.map_rect
        if hand.intersects(area):
            return
        size = score.theme.px(9)
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
        painter.setPen(QPen(QColor(score.theme.panel), 1.5))
        painter.setBrush(QColor(score.theme.text))
        painter.drawPolygon(QPolygonF([edge + way, edge - way * 0.5 + side, edge - way * 0.5 - side]))
        painter.restore()

    def _paint_output(self, painter: QPainter, score: ScoreMap) -> None:
        """The o tile, leaving to the right of its row."""
        theme, rect = score.theme, score.output_rect()
        if not QRectF(rect).intersects(QRectF(0, score.rows.origin, score.width(), score.rows.size)):
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
            if above.top() < score.rows.origin:
                above.moveTop(rect.bottom() + 1)
            painter.setPen(theme.word("o"))
            painter.drawText(above, Qt.AlignmentFlag.AlignCenter, "o")

    @staticmethod
    def _paint_swatch(painter: QPainter, rect: QRectF, kind: str, theme: Theme) -> None:
        colors = tile_colors(theme, done=kind == "done")
        if kind != "partial":
            painter.fillRect(rect, colors["skipped" if kind == "skipped" else "full"])
            if kind == "skipped":
                painter.setPen(QPen(QColor(theme.grid), 1))
                painter.drawRect(rect.adjusted(0.5, 0.5, -0.5, -0.5))
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


def label_color(theme: Theme, done: bool) -> QColor:
    return QColor(theme.text if not done or theme.name == "light" else "#ffffff")


def tile_colors(theme: Theme, *, done: bool) -> dict[str, QColor]:
    """Colours of full and partial tiles, of the hatching, of skipped tiles and of the lines between."""
    full = QColor(theme.done if done else theme.to_come)
    orange = theme.color("k")
    dark = theme.name == "dark"
    ground = QColor(theme.skipped)
    hatch = _mix(full, QColor("#3a2c12" if dark else "#4d3a10"), 0.6) if done else _mix(ground, orange, 0.55)
    return {
        "full": full,
        "partial": _mix(full, orange, 0.14) if done else _mix(full, ground, 0.4),
        "hatch": hatch,
        "skipped": ground,
        "gap": QColor(theme.panel),
    }


def code_lut(theme: Theme, *, done: bool) -> np.ndarray:
    """(256,) uint32 colours for tile_codes."""
    colors = tile_colors(theme, done=done)
    return code_colors(**{name: np.array([c.red(), c.green(), c.blue()], np.float64) for name, c in colors.items()})


def _mix(a: QColor | str, b: QColor | str, share: float) -> QColor:
    """`share` of b in a."""
    a, b = QColor(a), QColor(b)
    return QColor(*(round(x + (y - x) * share) for x, y in zip(a.getRgb()[:3], b.getRgb()[:3], strict=True)))  # pyright: ignore


def _rgb(color: QColor) -> int:
    return color.rgb() & 0xFFFFFFFF


def _pixmap(argb: np.ndarray, dpr: float) -> QPixmap:
    height, width = argb.shape
    image = QImage(argb.data, width, height, 4 * width, QImage.Format.Format_RGB32)
    pixmap = QPixmap.fromImage(image)
    pixmap.setDevicePixelRatio(dpr)
    return pixmap
