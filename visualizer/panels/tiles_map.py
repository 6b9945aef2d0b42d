"""The map of the score matrix: strips, tiles, the tile at hand; zooms and pans like any map."""

from __future__ import annotations

import math
from typing import NamedTuple

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QToolButton, QToolTip, QWidget

from kernel.problem import Problem
from visualizer.frame import Frame, TilesView
from visualizer.panels.tiles_paint import MapPainter
from visualizer.panels.tiles_picture import Axis, tile_words
from visualizer.theme import Theme

STRETCH = 1.5
THINNEST = 0.4
SMALLEST = 4.0


class Label(NamedTuple):
    """A text where it stands; `rect` holds it whole."""

    rect: QRectF
    text: str
    color: QColor
    font: QFont


class Swatch(NamedTuple):
    rect: QRectF
    kind: str


class ScoreMap(QWidget):
    """Draws a TilesView. The range in view (zoom and centre) is the widget's own and lasts as long as the problem's
    tiles: it is not part of a session, as with any map.
    """

    tile_clicked = Signal(int, int)
    strip_clicked = Signal(str, int)
    seek = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.theme = theme
        self.frame: Frame | None = None
        self.zoom, self._center = 1.0, (0.5, 0.5)
        self.keys = Axis(1, 1, 0, 1, 0, 1)
        self.rows = self.keys
        self.legend: list[Swatch] = []
        self.labels: list[Label] = []
        self._fixed: list[Label] = []
        self._drag: tuple[QPointF, tuple[float, float], bool] | None = None
        self._before: int | None = None
        self._painter = MapPainter()
        self.strip = self._apart = 1
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Map of the score tiles")
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setMouseTracking(True)
        self.setMinimumSize(180, 160)
        self.fit_button = QToolButton(self)
        self.fit_button.setAccessibleName("Show the whole matrix")
        self.fit_button.setToolTip("Show the whole matrix (0, or a double click)")
        self.fit_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.fit_button.clicked.connect(self.fit)
        self.fit_button.hide()

    # what is shown

    def show_frame(self, frame: Frame) -> None:
        old, self.frame = self.frame, frame
        new = self.view
        before = None if old is None else old.tiles
        shape = (new.seqlen_q, new.seqlen_k, new.block_m, new.block_n, new.num_heads)
        if before is None or shape != (
            before.seqlen_q,
            before.seqlen_k,
            before.block_m,
            before.block_n,
            before.num_heads,
        ):
            self.zoom, self._center = 1.0, (0.5, 0.5)
            self.layout_map()
        elif before.head != new.head or before.skipped != new.skipped:
            self.layout_map()
        elif self.zoom > 1 and (before.block, before.tile) != (new.block, new.tile):
            self._follow(before, new)
        self._place_labels()
        self.update()

    def restyle(self, theme: Theme) -> None:
        self.theme = theme
        self.fit_button.setFont(theme.code_font(11))
        if self.frame is not None:
            self.layout_map()
            self._place_labels()
        self.update()

    @property
    def view(self) -> TilesView:
        assert self.frame is not None and self.frame.tiles is not None
        return self.frame.tiles

    @property
    def map_rect(self) -> QRectF:
        return QRectF(self.keys.origin, self.rows.origin, self.keys.size, self.rows.size)

    def tile_rect(self, block: int, tile: int) -> QRectF:
        """Where a tile lies; may be outside the view."""
        (x0, x1), (y0, y1) = self.keys.span(tile), self.rows.span(block)
        return QRectF(QPointF(x0, y0), QPointF(x1, y1))

    def strip_rect(self, quantity: str) -> QRectF:
        """The strip's tile at hand: of q always, of k and v while the program is in its loop; else empty."""
        view, s = self.view, self.strip
        if quantity == "q":
            y0, y1 = _at_least(*self.rows.span(view.block), SMALLEST)
            return QRectF(self.keys.origin - self._apart - s, y0, s, y1 - y0)
        if view.tile is None:
            return QRectF()
        x0, x1 = _at_least(*self.keys.span(view.tile), SMALLEST)
        y = self.rows.origin - self._apart - s if quantity == "k" else self.rows.end + self._apart
        return QRectF(x0, y, x1 - x0, s)

    def strip_area(self, quantity: str) -> QRectF:
        """The whole strip of q, k or v."""
        s, away = self.strip, self._apart + self.strip
        if quantity == "q":
            return QRectF(self.keys.origin - away, self.rows.origin, s, self.rows.size)
        y = self.rows.origin - away if quantity == "k" else self.rows.end + self._apart
        return QRectF(self.keys.origin, y, self.keys.size, s)

    def hand_rect(self) -> QRectF:
        """The tile at hand (the first of the row, outside the loop), never too small to be seen."""
        view = self.view
        (x0, x1), (y0, y1) = self.keys.span(view.tile or 0), self.rows.span(view.block)
        (x0, x1), (y0, y1) = _at_least(x0, x1, SMALLEST), _at_least(y0, y1, SMALLEST)
        return QRectF(QPointF(x0, y0), QPointF(x1, y1))

    def output_rect(self) -> QRectF:
        """Where the o tile leaves, at the end of the row at hand."""
        y0, y1 = _at_least(*self.rows.span(self.view.block), SMALLEST)
        return QRectF(self.keys.end + self._apart, y0, self.strip, y1 - y0)

    # geometry

    def layout_map(self) -> None:
        """Axes, legend and the labels that stay, for the widget's size and the problem."""
        view, px = self.view, self.theme.px
        code, name = QFontMetricsF(self.theme.code_font(11)), QFontMetricsF(self._name_font)
        self.strip, self._apart = px(16), px(9)
        line = math.ceil(code.height())
        grouped = view.num_heads > 1 and self.problem.heads != self.problem.kv_heads
        self._names = {
            "q": "Q" + (_subscript(view.head) if grouped else ""),
            "k": f"K{_subscript(view.kv_head)}ᵀ" if grouped else "Kᵀ",
            "v": "V" + (_subscript(view.kv_head) if grouped else ""),
        }
        left = math.ceil(max(code.horizontalAdvance(f"{view.seqlen_q:,}"), name.horizontalAdvance(self._names["q"])))
        left += px(5) + self.strip + self._apart
        right = math.ceil(max(name.horizontalAdvance(self._names["k"]), self._apart + self.strip)) + px(8)
        top = line + px(2) + self.strip + self._apart
        self._legend_height = self._layout_legend()
        bottom = self._apart + self.strip + px(8) + self._legend_height
        width, height = max(8, self.width() - left - right), max(8, self.height() - top - bottom)
        keys, rows = max(1, view.seqlen_k), max(1, view.seqlen_q)
        # true proportions, stretched a little to fill the room, and never so thin that tiles vanish
        scale = min(width / keys, height / rows)
        w, h = min(width, keys * scale * STRETCH), min(height, rows * scale * STRETCH)
        w, h = round(max(w, min(width, THINNEST * h))), round(max(h, min(height, THINNEST * w)))
        x, y = left + (width - w) // 2, top
        dpr = self.devicePixelRatioF()
        self.zoom = min(max(1.0, self.zoom), self._max_zoom)
        centers = []
        for center in self._center:
            half = 0.5 / self.zoom
            centers.append(min(max(center, half), 1 - half))
        self._center = (centers[0], centers[1])
        (kl, kh), (rl, rh) = (
            (n * (c - 0.5 / self.zoom), n * (c + 0.5 / self.zoom))
            for n, c in zip((keys, rows), self._center, strict=True)
        )
        self.keys = Axis(view.seqlen_k, view.block_n, x, w, kl, kh, dpr)
        self.rows = Axis(view.seqlen_q, view.block_m, y, h, rl, rh, dpr)
        self._place_legend(self.height() - self._legend_height)
        self._place_fit_button()

    @property
    def _max_zoom(self) -> float:
        """One tile fills the view. (Cells with their values would go deeper.)"""
        return float(max(1, self.view.num_k_blocks, self.view.num_q_blocks))

    @property
    def problem(self) -> Problem:
        assert self.frame is not None
        return self.frame.problem

    @property
    def _name_font(self) -> QFont:
        return self.theme.ui_font(13, QFont.Weight.Bold)

    def _legend_entries(self) -> list[tuple[str, str]]:
        view = self.view
        entries = [("done", "done"), ("to come", "to come")]
        if (view.full < view.visited).any():
            entries.append(("partial", "partly masked"))
        entries.append(("skipped", f"skipped {view.skipped:,} of {view.total:,}"))
        if view.skipped:
            saved = min(99, round(100 * view.skipped / view.total)) if view.skipped < view.total else 100
            entries.append(("", f"{saved} % saved"))
        return entries

    def _layout_legend(self) -> int:
        """Breaks the legend into lines; returns their height."""
        px, metrics = self.theme.px, QFontMetricsF(self.theme.ui_font(12))
        line = math.ceil(metrics.height()) + px(2)
        x, y = 0.0, 0.0
        self._legend_flow: list[tuple[float, float, float, str, str]] = []
        for kind, text in self._legend_entries():
            swatch = px(17) if kind else 0
            width = swatch + math.ceil(metrics.horizontalAdvance(text)) + 1
            if x and x + width > self.width():
                x, y = 0.0, y + line
            self._legend_flow.append((x, y, width, kind, text))
            x += width + px(12)
        return round(y + line)

    def _place_legend(self, top: float) -> None:
        px, font = self.theme.px, self.theme.ui_font(12)
        line = QFontMetricsF(font).height() + px(2)
        self.legend, self._fixed = [], []
        for x, y, width, kind, text in self._legend_flow:
            start = 0
            if kind:
                start = px(17)
                self.legend.append(Swatch(QRectF(x, round(top + y + (line - px(11)) / 2), px(11), px(11)), kind))
            color = QColor(self.theme.muted)
            self._fixed.append(Label(QRectF(x + start, top + y, width - start, line), text, color, font))
        name = QFontMetricsF(self._name_font)
        for quantity, text in self._names.items():
            width, height = math.ceil(name.horizontalAdvance(text)), name.height()
            if quantity == "q":
                center = self.keys.origin - self._apart - self.strip / 2
                rect = QRectF(center - width / 2, self.rows.origin - height - px(1), width, height)
            else:
                y = self.rows.origin - self._apart - self.strip if quantity == "k" else self.rows.end + self._apart
                rect = QRectF(self.keys.end + px(6), y + (self.strip - height) / 2, width, height)
            self._fixed.append(Label(rect, text, self.theme.word(quantity), self._name_font))

    def _place_labels(self) -> None:
        """The first row and key of the tile at hand, and the ends of the view where there is room."""
        view, px = self.view, self.theme.px
        font = self.theme.code_font(11)
        metrics = QFontMetricsF(font)
        height, strong, muted = metrics.height(), QColor(self.theme.text), QColor(self.theme.muted)
        labels: list[Label] = []

        def put(rect: QRectF, text: str, color: QColor) -> None:
            if not any(rect.adjusted(-px(3), 0, px(3), 0).intersects(label.rect) for label in labels):
                labels.append(Label(rect, text, color, font))

        top = self.rows.origin - self._apart - self.strip - px(2) - height
        x0, x1 = self.keys.origin, self.keys.end

        def key(element: int, at: float, color: QColor) -> None:
            text = f"{element:,}"
            width = math.ceil(metrics.horizontalAdvance(text))
            put(QRectF(min(max(at - width / 2, x0), x1 - width), top, width, height), text, color)

        def row(element: int, at: float, color: QColor) -> None:
            text = f"{element:,}"
            width = math.ceil(metrics.horizontalAdvance(text))
            right = x0 - self._apart - self.strip - px(5)
            y = min(max(at - height / 2, self.rows.origin), self.rows.end - height)
            put(QRectF(right - width, y, width, height), text, color)

        y0, y1 = self.rows.span(view.block)
        if y1 > self.rows.origin and y0 < self.rows.end:
            row(view.block * view.block_m, (y0 + y1) / 2, strong)
        if view.tile is not None:
            k0, k1 = self.keys.span(view.tile)
            if k1 > x0 and k0 < x1:
                key(view.tile * view.block_n, (k0 + k1) / 2, strong)
        if view.seqlen_k:
            key(math.ceil(self.keys.low), x0, muted)
            key(min(view.seqlen_k, math.ceil(self.keys.high)) - 1, x1, muted)
        row(math.ceil(self.rows.low), self.rows.origin, muted)
        row(min(view.seqlen_q, math.ceil(self.rows.high)) - 1, self.rows.end, muted)
        self.labels = self._fixed + labels

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        if self.frame is None or self.frame.tiles is None:
            painter.fillRect(self.rect(), QColor(self.theme.panel))
        else:
            if self.devicePixelRatioF() != self.keys.dpr:
                self.layout_map()
                self._place_labels()
            self._painter.paint(painter, self)
        painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        if self.frame is not None:
            self.layout_map()
            self._place_labels()

    # zoom and pan

    def fit(self) -> None:
        """Shows the whole matrix."""
        self.set_range(1.0, (0.5, 0.5))

    def set_range(self, zoom: float, center: tuple[float, float]) -> None:
        """Shows 1/zoom of the matrix around `center`, a (key, row) position in 0 ... 1 each."""
        self.zoom, self._center = zoom, center
        if self.frame is not None:
            self.layout_map()
            self._place_labels()
        self.update()

    def zoom_at(self, factor: float, at: QPointF) -> None:
        """Zooms by `factor`; what lies under `at` stays there."""
        if self.frame is None:
            return
        zoom = min(max(1.0, self.zoom * factor), self._max_zoom)
        center = []
        for axis, pixel, c in zip((self.keys, self.rows), (at.x(), at.y()), self._center, strict=True):
            fixed = min(max(axis.element(pixel) / max(1, axis.length), 0.0), 1.0)
            center.append(fixed + (c - fixed) * self.zoom / zoom)
        self.set_range(zoom, (center[0], center[1]))

    def _follow(self, before: TilesView, new: TilesView) -> None:
        """Keeps a zoomed map on the tile at hand, if that was in view: who looks elsewhere is left in peace."""
        tile = new.tile or 0
        seen = self.map_rect.intersects(self.tile_rect(before.block, before.tile or 0))
        if not seen or self.map_rect.contains(self.tile_rect(new.block, tile).center()):
            return
        key = (tile + 0.5) * new.block_n / max(1, new.seqlen_k)
        self._center = (key, (new.block + 0.5) * new.block_m / new.seqlen_q)
        self.layout_map()

    def _place_fit_button(self) -> None:
        button = self.fit_button
        button.setText(f"fit  ×{self.zoom:.3g}")
        button.setVisible(self.zoom > 1)
        if self.zoom > 1:
            button.setStyleSheet(
                f"background: {self.theme.field}; border: 1px solid {self.theme.border};"
                f"border-radius: {self.theme.px(5)}px; padding: {self.theme.px(2)}px {self.theme.px(6)}px;"
            )
            button.adjustSize()
            button.move(round(self.keys.end - button.width() - 4), round(self.rows.origin + 4))

    def wheelEvent(self, event: QWheelEvent) -> None:
        turn = event.angleDelta().y() or event.angleDelta().x()
        self.zoom_at(1.2 ** (turn / 120), event.position())
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._drag = (event.position(), self._center, False)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._drag is None or self.frame is None:
            return
        start, center, moving = self._drag
        way = event.position() - start
        if not moving and way.manhattanLength() < 5:
            return
        self._drag = (start, center, True)
        self.setCursor(Qt.CursorShape.ClosedHandCursor)
        x, y = way.x() / (self.keys.size * self.zoom), way.y() / (self.rows.size * self.zoom)
        self.set_range(self.zoom, (center[0] - x, center[1] - y))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        drag, self._drag = self._drag, None
        self.unsetCursor()
        if drag is None or drag[2] or self.frame is None or event.button() != Qt.MouseButton.LeftButton:
            return
        transport = self.frame.transport
        self._before = None if transport is None else transport.index
        self._click(event.position())

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Back to the whole matrix, and to the step before the first of the two clicks went elsewhere."""
        if self.zoom > 1:
            self.fit()
            if self._before is not None:
                self.seek.emit(self._before)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, middle = event.key(), self.map_rect.center()
        if key == Qt.Key.Key_0:
            self.fit()
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.zoom_at(1.5, middle)
        elif key == Qt.Key.Key_Minus:
            self.zoom_at(1 / 1.5, middle)
        else:
            super().keyPressEvent(event)

    # pointing

    def _click(self, at: QPointF) -> None:
        hit = self.tile_under(at)
        if hit is not None:
            self.tile_clicked.emit(*hit)
            return
        strip = self.strip_under(at)
        if strip is not None:
            self.strip_clicked.emit(*strip)

    def tile_under(self, at: QPointF) -> tuple[int, int] | None:
        """(block, tile) under a position, or None."""
        block, tile = self.rows.tile_at(at.y()), self.keys.tile_at(at.x())
        return None if block is None or tile is None else (block, tile)

    def strip_under(self, at: QPointF) -> tuple[str, int] | None:
        """("q", block), ("k", tile) or ("v", tile) under a position, or None."""
        q = self.keys.origin - self._apart - self.strip
        k, v = self.rows.origin - self._apart - self.strip, self.rows.end + self._apart
        block, tile = self.rows.tile_at(at.y()), self.keys.tile_at(at.x())
        if block is not None and q <= at.x() < q + self.strip:
            return "q", block
        if tile is not None and k <= at.y() < k + self.strip:
            return "k", tile
        if tile is not None and v <= at.y() < v + self.strip:
            return "v", tile
        return None

    def words(self, at: QPointF) -> str:
        """What a tooltip says at a position; empty where there is nothing to say."""
        view, hit, strip = self.view, self.tile_under(at), self.strip_under(at)
        if hit is not None:
            block, tile = hit
            kind, where, why = tile_words(self.problem, block, tile)
            if kind != "skipped":
                state = "done" if tile < view.done[block] else "to come"
                kind = f"{kind}, {'at hand' if hit == (view.block, view.tile) else state}"
            return f"{where}\n{kind}: {why}"
        if strip is not None:
            quantity, index = strip
            head = view.head if quantity == "q" else view.kv_head
            block, length = (view.block_m, view.seqlen_q) if quantity == "q" else (view.block_n, view.seqlen_k)
            first, last = index * block, min((index + 1) * block, length) - 1
            name = {"q": "q tile: rows", "k": "k tile: keys", "v": "v tile: keys"}[quantity]
            owner = "head" if quantity == "q" else "kv head"
            return f"{name} {first:,} … {last:,} of {owner} {head}"
        return ""

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and self.frame is not None:
            text = self.words(QPointF(event.pos()))  # pyright: ignore[reportAttributeAccessIssue]
            if text:
                QToolTip.showText(event.globalPos(), text, self)  # pyright: ignore[reportAttributeAccessIssue]
            else:
                QToolTip.hideText()
            return True
        return super().event(event)


def _at_least(start: float, end: float, size: float) -> tuple[float, float]:
    """The interval, widened about its middle to at least `size`."""
    if end - start >= size:
        return start, end
    middle = (start + end) / 2
    return middle - size / 2, middle + size / 2


def _subscript(n: int) -> str:
    return "".join("₀₁₂₃₄₅₆₇₈₉"[int(digit)] for digit in str(n))
