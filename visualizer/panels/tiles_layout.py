"""Where everything of the score map stands: axes, strips, legend, labels. Geometry only; nothing is painted here."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QFont, QFontMetricsF

from kernel.problem import Problem
from visualizer.frame import TilesView
from visualizer.panels.tiles_picture import MIN_HATCH, Axis
from visualizer.theme import Theme

STRETCH: Final = 1.5
THINNEST: Final = 0.5
SMALLEST: Final = 6.0
SMALLEST_CELL: Final = 6.0
FEWEST_CELLS: Final = 6


class Label(NamedTuple):
    """A text where it stands; `rect` holds it whole."""

    rect: QRectF
    text: str
    color: QColor
    font: QFont


class Swatch(NamedTuple):
    """A square of the legend: "hand", "done", "cells", "to come", "partial", "masked" or "skipped"."""

    rect: QRectF
    kind: str


class MapLayout:
    """The map for one size, theme, problem and head, showing 1/zoom of the matrix around center.

    `zoom` and `center` (a (key, row) position in 0 ... 1 each) are taken as near to what is asked for as can be.
    """

    def __init__(
        self,
        problem: Problem,
        view: TilesView,
        theme: Theme,
        size: tuple[int, int],
        dpr: float,
        zoom: float = 1.0,
        center: tuple[float, float] = (0.5, 0.5),
    ) -> None:
        px = theme.px
        self.theme, self.problem = theme, problem
        self.strip, self.apart = px(16), px(9)
        self.max_zoom = max(1.0, max(view.seqlen_k, view.seqlen_q) / FEWEST_CELLS)
        self.zoom = min(max(1.0, zoom), self.max_zoom)
        half = 0.5 / self.zoom
        self.center = (min(max(center[0], half), 1 - half), min(max(center[1], half), 1 - half))
        self.code_font, self.name_font = theme.code_font(11), theme.ui_font(13, QFont.Weight.Bold)
        self.names = strip_names(problem, view)
        code, name = QFontMetricsF(self.code_font), QFontMetricsF(self.name_font)
        left = math.ceil(max(code.horizontalAdvance(f"{view.seqlen_q:,}"), name.horizontalAdvance(self.names["q"])))
        left += px(5) + self.strip + self.apart
        right = math.ceil(max(name.horizontalAdvance(self.names["k"]), self.apart + self.strip)) + px(8)
        top = math.ceil(code.height()) + px(4) + self.strip + self.apart
        flow, legend_height = self._shortest_legend(legend_entries(view), size[0])
        bottom = self.apart + self.strip + px(8) + legend_height
        width, height = max(8, size[0] - left - right), max(8, size[1] - top - bottom)
        keys, rows = max(1, view.seqlen_k), max(1, view.seqlen_q)
        # true proportions, stretched a little to fill the room, and never so thin that tiles vanish
        scale = min(width / keys, height / rows)
        w, h = min(width, keys * scale * STRETCH), min(height, rows * scale * STRETCH)
        w, h = round(max(w, min(width, THINNEST * h))), round(max(h, min(height, THINNEST * w)))
        x, y = left + (width - w) // 2, top + (height - h) // 2
        (kl, kh), (rl, rh) = (
            (n * (c - half), n * (c + half)) for n, c in ((keys, self.center[0]), (rows, self.center[1]))
        )
        self.keys = Axis(view.seqlen_k, view.block_n, x, w, kl, kh, dpr)
        self.rows = Axis(view.seqlen_q, view.block_m, y, h, rl, rh, dpr)
        self.legend: list[Swatch] = []
        self._fixed: list[Label] = []
        hatched = min(self.keys.tile_size, self.rows.tile_size) >= MIN_HATCH
        drawn, drawn_height = self._shortest_legend(legend_entries(view, hatched, self.shows_cells), size[0])
        flow = drawn if drawn_height <= legend_height else flow
        self._place_legend(flow, size[1] - legend_height)
        self._place_names(name)

    @property
    def cell_width(self) -> float:
        """Logical pixels of one key."""
        return self.keys.tile_size / self.keys.block

    @property
    def cell_height(self) -> float:
        """Logical pixels of one row."""
        return self.rows.tile_size / self.rows.block

    @property
    def shows_cells(self) -> bool:
        """Whether single scores are large enough to be seen."""
        return min(self.cell_width, self.cell_height) >= SMALLEST_CELL and min(self.keys.length, self.rows.length) > 0

    def cell_under(self, at: QPointF) -> tuple[int, int] | None:
        """(row, key) under a position where single scores are shown, or None."""
        if not self.shows_cells or self.tile_under(at) is None:
            return None
        return int(self.rows.element(at.y())), int(self.keys.element(at.x()))

    @property
    def map_rect(self) -> QRectF:
        return QRectF(self.keys.origin, self.rows.origin, self.keys.size, self.rows.size)

    def tile_rect(self, block: int, tile: int) -> QRectF:
        """Where a tile lies; may be outside the view."""
        (x0, x1), (y0, y1) = self.keys.span(tile), self.rows.span(block)
        return QRectF(QPointF(x0, y0), QPointF(x1, y1))

    def hand_rect(self, view: TilesView) -> QRectF:
        """The tile at hand (the first of the row, outside the loop), never too small to be seen."""
        rect = self.tile_rect(view.block, view.tile or 0)
        (x0, x1), (y0, y1) = _at_least(rect.left(), rect.right()), _at_least(rect.top(), rect.bottom())
        return QRectF(QPointF(x0, y0), QPointF(x1, y1))

    def strip_area(self, quantity: str) -> QRectF:
        """The whole strip of q, k or v."""
        away = self.apart + self.strip
        if quantity == "q":
            return QRectF(self.keys.origin - away, self.rows.origin, self.strip, self.rows.size)
        y = self.rows.origin - away if quantity == "k" else self.rows.end + self.apart
        return QRectF(self.keys.origin, y, self.keys.size, self.strip)

    def strip_tile(self, quantity: str, index: int) -> QRectF:
        """One tile of a strip, never too small to be seen; may be outside the view."""
        area = self.strip_area(quantity)
        if quantity == "q":
            y0, y1 = _at_least(*self.rows.span(index))
            return QRectF(area.left(), y0, area.width(), y1 - y0)
        x0, x1 = _at_least(*self.keys.span(index))
        return QRectF(x0, area.top(), x1 - x0, area.height())

    def strip_rect(self, view: TilesView, quantity: str) -> QRectF:
        """The strip's tile at hand: of q always, of k and v while the program is in its loop; else empty."""
        index = view.block if quantity == "q" else view.tile
        return QRectF() if index is None else self.strip_tile(quantity, index)

    def output_rect(self, view: TilesView) -> QRectF:
        """Where the o tile leaves, at the end of the row at hand."""
        y0, y1 = _at_least(*self.rows.span(view.block))
        return QRectF(self.keys.end + self.apart, y0, self.strip, y1 - y0)

    def tile_under(self, at: QPointF) -> tuple[int, int] | None:
        """(block, tile) under a position, or None."""
        block, tile = self.rows.tile_at(at.y()), self.keys.tile_at(at.x())
        return None if block is None or tile is None else (block, tile)

    def strip_under(self, at: QPointF) -> tuple[str, int] | None:
        """("q", block), ("k", tile) or ("v", tile) under a position, or None."""
        for quantity in ("q", "k", "v"):
            if self.strip_area(quantity).contains(at):
                index = self.rows.tile_at(at.y()) if quantity == "q" else self.keys.tile_at(at.x())
                return None if index is None else (quantity, index)
        return None

    def labels(self, view: TilesView) -> list[Label]:
        """All texts: legend, strip names, the first row and key of the tile at hand, and the ends of the range."""
        metrics, px = QFontMetricsF(self.code_font), self.theme.px
        height, strong, muted = metrics.height(), QColor(self.theme.text), QColor(self.theme.muted)
        right, top = self.strip_area("q").left() - px(5), self.strip_area("k").top() - px(4) - height
        labels: list[Label] = []
        for axis, hand, block in ((self.keys, view.tile, view.block_n), (self.rows, view.block, view.block_m)):
            wanted: list[tuple[int, float, QColor]] = []
            if hand is not None and not self.shows_cells:
                start, end = axis.span(hand)
                if end > axis.origin and start < axis.end:
                    wanted.append((hand * block, (start + end) / 2, strong))
            first, last = math.ceil(axis.low), min(axis.length, math.ceil(axis.high)) - 1
            wanted += [(first, axis.origin, muted), (last, axis.end, muted)] if last >= 0 else []
            seen: set[int] = set()
            for element, at, color in wanted:
                text = f"{element:,}"
                width = math.ceil(metrics.horizontalAdvance(text))
                if axis is self.keys:
                    rect = QRectF(min(max(at - width / 2, axis.origin), axis.end - width), top, width, height)
                else:
                    rect = QRectF(
                        right - width, min(max(at - height / 2, axis.origin), axis.end - height), width, height
                    )
                near = rect.adjusted(-px(3), 0, px(3), 0)
                if element not in seen and not any(near.intersects(label.rect) for label in labels):
                    seen.add(element)
                    labels.append(Label(rect, text, color, self.code_font))
        return self._fixed + labels

    def _shortest_legend(
        self, wordings: list[list[tuple[str, str]]], room: int
    ) -> tuple[list[tuple[float, float, float, str, str]], int]:
        """Of the wordings that take the fewest lines the fullest."""
        return min((self._flow_legend(entries, room) for entries in wordings), key=lambda flow: flow[1])

    def _flow_legend(
        self, entries: list[tuple[str, str]], room: int
    ) -> tuple[list[tuple[float, float, float, str, str]], int]:
        """The legend broken into lines, as (x, y, width, kind, text), and their height."""
        px, metrics = self.theme.px, QFontMetricsF(self.theme.ui_font(11))
        line = math.ceil(metrics.height()) + px(2)
        x, y = 0.0, 0.0
        flow = []
        for kind, text in entries:
            width = (px(15) if kind else 0) + math.ceil(metrics.horizontalAdvance(text)) + 1
            if x and x + width > room:
                x, y = 0.0, y + line
            flow.append((x, y, width, kind, text))
            x += width + px(9)
        return flow, round(y + line)

    def _place_legend(self, flow: list[tuple[float, float, float, str, str]], top: float) -> None:
        px, font = self.theme.px, self.theme.ui_font(11)
        line = math.ceil(QFontMetricsF(font).height()) + px(2)
        for x, y, width, kind, text in flow:
            start = px(15) if kind else 0
            if kind:
                self.legend.append(Swatch(QRectF(x, round(top + y + (line - px(11)) / 2), px(11), px(11)), kind))
            rect = QRectF(x + start, top + y, width - start, line)
            self._fixed.append(Label(rect, text, QColor(self.theme.muted), font))

    def _place_names(self, metrics: QFontMetricsF) -> None:
        for quantity, text in self.names.items():
            width, height = math.ceil(metrics.horizontalAdvance(text)), metrics.height()
            area = self.strip_area(quantity)
            if quantity == "q":
                rect = QRectF(area.center().x() - width / 2, area.top() - height - self.theme.px(4), width, height)
            else:
                rect = QRectF(area.right() + self.theme.px(6), area.center().y() - height / 2, width, height)
            self._fixed.append(Label(rect, text, self.theme.word(quantity), self.name_font))


def strip_names(problem: Problem, view: TilesView) -> dict[str, str]:
    """The strips' names; where heads share keys, each with the number of the head that it belongs to."""
    if problem.heads == problem.kv_heads:
        return {"q": "Q", "k": "Kᵀ", "v": "V"}
    key_head = _subscript(view.kv_head)
    return {"q": f"Q{_subscript(view.head)}", "k": f"K{key_head}ᵀ", "v": f"V{key_head}"}


def legend_entries(view: TilesView, hatched: bool = True, cells: bool = False) -> list[list[tuple[str, str]]]:
    """(kind, text) of the legend, from the fullest to the shortest wording; kind "" has no square.

    hatched: tiles are large enough for hatching; cells: single scores are shown.
    """
    begin = [("hand", "now"), ("cells", "scores") if cells else ("done", "done"), ("to come", "to come")]
    partial: list[tuple[str, str]] = []
    short: list[tuple[str, str]] = []
    if hatched and (view.full < view.visited).any():
        partial, short = [("partial", "partly masked")], [("partial", "masked")]
        if cells:
            partial, short = [("partial", "masked to come"), ("masked", "masked")], [("masked", "masked")]
    skipped = f"skipped {view.skipped:,} of {view.total:,}"
    if not view.skipped:
        return [[*begin, *p, ("skipped", t)] for p, t in ((partial, skipped), (short, skipped), (short, "skipped"))]
    share = min(99, round(100 * view.skipped / view.total)) if view.skipped < view.total else 100
    return [
        [*begin, *partial, ("skipped", f"{skipped}: {share} %")],
        [*begin, *short, ("skipped", f"{skipped}: {share} %")],
        [*begin, *short, ("skipped", f"skipped {share} %")],
        [*begin[1:], *short, ("skipped", f"skipped {share} %")],
    ]


def _at_least(start: float, end: float) -> tuple[float, float]:
    """The interval, widened about its middle to at least SMALLEST."""
    if end - start >= SMALLEST:
        return start, end
    middle = (start + end) / 2
    return middle - SMALLEST / 2, middle + SMALLEST / 2


def _subscript(n: int) -> str:
    return "".join("₀₁₂₃₄₅₆₇₈₉"[int(digit)] for digit in str(n))
