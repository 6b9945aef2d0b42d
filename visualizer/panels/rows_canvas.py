"""Six small plots: a row of plots for each of m, alpha and l, with one scale for both plots of a row."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QKeyEvent, QMouseEvent, QPainter, QPen, QPixmap
from PySide6.QtWidgets import QWidget

from visualizer.frame import RowsView
from visualizer.numbers import number
from visualizer.panels.chart import Axes, draw_grid, draw_line, draw_x_ticks, index_ticks, outline, range_ticks
from visualizer.panels.heatmap import LOUD
from visualizer.panels.ring import FocusRing
from visualizer.theme import Theme

QUANTITIES: Final = (("m", "m"), ("alpha", "α"), ("l", "l"))


class Series(NamedTuple):
    """What is drawn of one quantity: over the rows of the block, and over the iterations of the selected row."""

    over_rows: np.ndarray
    history: np.ndarray
    limits: tuple[float, float]


class RowsCanvas(FocusRing):
    """Shows a RowsView. `series` is what it draws, `readouts` the numbers beside the plots, `notes` whose they are
    where not this tile's: those are drawn dotted.
    """

    row_chosen = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("m, alpha and l of the block's rows; left and right choose the row")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumSize(220, 110)
        self.view: RowsView | None = None
        self.series: dict[str, Series] = {}
        self.readouts: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self._ground: tuple[object, QPixmap] | None = None
        self._strips: dict[str, tuple[object, QPixmap]] = {}
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self._small = theme.code_font(10)
        self._words = theme.ui_font(10.5)
        self._value = theme.code_font(12)
        self._letter = theme.ui_font(13, theme.ui_font().Weight.DemiBold)
        self._ground = None
        self._strips = {}
        self.update()

    def show_view(self, view: RowsView) -> None:
        self.view = view
        self.series = {
            "m": Series(view.m, view.history_m, view.m_range),
            "alpha": Series(view.alpha, view.history_alpha, (0.0, 1.0)),
            "l": Series(view.l, view.history_l, view.l_range),
        }
        self.readouts = {q: compact(float(s.over_rows[view.row])) for q, s in self.series.items()}
        if view.alpha_tile < 0:
            self.readouts["alpha"] = "–"
        self.notes = {"alpha": "last tile"} if 0 <= view.alpha_tile != view.iteration else {}
        described = ", ".join(
            f"{name} = {self.readouts[q]}{f' ({self.notes[q]})' if q in self.notes else ''}" for q, name in QUANTITIES
        )
        self.setAccessibleDescription(f"row {view.rows[0] + view.row}: {described}")
        self.update()

    def axes(self, quantity: str) -> tuple[Axes, Axes]:
        """The axes of a quantity's two plots: over the rows, and over the iterations."""
        assert self.view is not None
        px = self.theme.px
        left, right = px(42), px(62)
        head, foot, gap, between = px(17), px(17), px(12), px(14)
        width = self.width() - left - right - between
        height = (self.height() - head - foot - 2 * gap) / 3
        top = head + next(i for i, (q, _) in enumerate(QUANTITIES) if q == quantity) * (height + gap)
        first = round(width * 0.6)
        limits = self.series[quantity].limits
        start, end = self.view.rows
        last = max(1, self.view.iterations) - 0.5
        return (
            Axes(QRectF(left, top, first, height), (start - 0.5, end - 0.5), limits),
            Axes(QRectF(left + first + between, top, width - first, height), (-0.5, last), limits),
        )

    def paintEvent(self, event) -> None:
        view = self.view
        if view is None:
            return
        with QPainter(self) as painter:
            painter.drawPixmap(0, 0, self._background())
            for quantity, _ in QUANTITIES:
                over_rows, history = self.axes(quantity)
                painter.drawPixmap(QPointF(0, _strip_top(over_rows)), self._curves(quantity, over_rows, history))
                self._paint_marks(painter, quantity, over_rows, history)
                self._paint_missing(painter, quantity, over_rows)
                self._paint_readout(painter, quantity, history)
            self.paint_ring(painter)

    def _curves(self, quantity: str, over_rows: Axes, history: Axes) -> QPixmap:
        """The curves of a quantity, drawn again only when one of them changes: a step changes one quantity at most."""
        assert self.view is not None
        view, series, ratio = self.view, self.series[quantity], self.devicePixelRatioF()
        old = quantity in self.notes
        numbers = (series.over_rows.tobytes(), series.history.tobytes())
        key = (self.width(), ratio, over_rows, history, numbers, old, view.alpha_tile < 0)
        kept = self._strips.get(quantity)
        if kept is not None and kept[0] == key:
            return kept[1]
        high = math.ceil(over_rows.rect.bottom() - _strip_top(over_rows)) + 5
        pixmap = QPixmap(max(1, round(self.width() * ratio)), max(1, round(high * ratio)))
        pixmap.setDevicePixelRatio(ratio)
        pixmap.fill(Qt.GlobalColor.transparent)
        with QPainter(pixmap) as painter:
            painter.translate(0, -_strip_top(over_rows))
            color, rows = self.theme.word(quantity), np.arange(view.rows[0], view.rows[1])
            draw_line(painter, outline(over_rows, rows, series.over_rows), color, self.theme.zoom, dashed=old)
            draw_line(painter, outline(history, np.arange(len(series.history)), series.history), color, self.theme.zoom)
            self._paint_gaps(painter, quantity, over_rows)
        self._strips[quantity] = (key, pixmap)
        return pixmap

    def missing(self, quantity: str) -> str:
        """Why a quantity has nothing to draw over the rows; empty when it has."""
        assert self.view is not None
        values = self.series[quantity].over_rows
        if np.isfinite(values).any():
            return ""
        if quantity == "alpha" and self.view.alpha_tile < 0:
            return "none yet"
        if not (values == -np.inf).all():
            return "not finite"
        is_early = len(self.view.history_m) < self.view.iterations
        return "all −∞: no key seen yet" if is_early else "all −∞: no key seen"

    def _paint_missing(self, painter: QPainter, quantity: str, axes: Axes) -> None:
        """Says why nothing is drawn, over the mark of the row."""
        text = self.missing(quantity)
        place = QFontMetrics(self._words).boundingRect(text).toRectF()
        place.moveCenter(axes.rect.center())
        if text and place.height() <= axes.rect.height() + 2 and place.width() <= axes.rect.width():
            painter.setFont(self._words)
            painter.setPen(QColor(self.theme.muted))
            painter.fillRect(place.adjusted(-self.theme.px(4), 0, self.theme.px(4), 0), QColor(self.theme.panel))
            painter.drawText(axes.rect, Qt.AlignmentFlag.AlignCenter, text)

    def _paint_gaps(self, painter: QPainter, quantity: str, axes: Axes) -> None:
        """Ticks for the rows without a finite value: -inf at the bottom, NaN and +inf loud at the top."""
        assert self.view is not None
        values = self.series[quantity].over_rows
        if np.isfinite(values).all() or (quantity == "alpha" and self.view.alpha_tile < 0):
            return
        size = self.theme.px(4)
        for where, y, color in (
            (values == -np.inf, axes.rect.bottom() - size, QColor(self.theme.muted)),
            (~np.isfinite(values) & (values != -np.inf), axes.rect.top(), QColor(LOUD)),
        ):
            painter.setPen(QPen(color, max(1, self.theme.px(1))))
            xs = np.unique(np.round(axes.to_x(self.view.rows[0] + np.flatnonzero(where)))) + 0.5
            painter.drawLines([QLineF(x, y, x, y + size) for x in xs.tolist()])

    def _paint_marks(self, painter: QPainter, quantity: str, over_rows: Axes, history: Axes) -> None:
        """The selected row, and the iteration at hand."""
        assert self.view is not None
        view, color = self.view, self.theme.word(quantity)
        series = self.series[quantity]
        painter.setPen(QPen(QColor(self.theme.muted), 1))
        x = round(float(over_rows.to_x(view.rows[0] + view.row))) + 0.5
        painter.drawLine(QPointF(x, over_rows.rect.top()), QPointF(x, over_rows.rect.bottom()))
        at = view.iteration if view.iteration >= 0 else None
        if at is not None:
            t = round(float(history.to_x(at))) + 0.5
            painter.setPen(QPen(QColor(self.theme.muted), 1, Qt.PenStyle.DotLine))
            painter.drawLine(QPointF(t, history.rect.top()), QPointF(t, history.rect.bottom()))
        value = float(series.over_rows[view.row])
        if np.isfinite(value):
            size = self.theme.px(3)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(self.theme.panel), 1))
            painter.setBrush(color)
            painter.drawEllipse(QPointF(x, float(over_rows.to_y(value))), size, size)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def _paint_readout(self, painter: QPainter, quantity: str, history: Axes) -> None:
        """The letter and the selected row's number, right of the plots."""
        px = self.theme.px
        box = QRectF(history.rect.right() + px(8), history.rect.top(), self.width() - history.rect.right() - px(8), 0)
        letter = QFontMetrics(self._letter).height()
        number = QFontMetrics(self._value).height()
        if history.rect.height() + self.theme.px(12) < letter + number:  # the numbers alone; their colour says whose
            letter = 0
        box.setTop(history.rect.center().y() - (letter + number) / 2)
        painter.setPen(self.theme.word(quantity))
        align = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        if letter:
            painter.setFont(self._letter)
            painter.drawText(QRectF(box.left(), box.top(), box.width(), letter), align, dict(QUANTITIES)[quantity])
        if quantity in self.notes:
            painter.setPen(QColor(self.theme.muted))
            if letter:
                painter.setFont(self._words)
                painter.drawText(
                    QRectF(box.left() + px(13), box.top() + 1, box.width() - px(13), letter),
                    align,
                    self.notes[quantity],
                )
        painter.setFont(self._value)
        painter.drawText(QRectF(box.left(), box.top() + letter, box.width(), number), align, self.readouts[quantity])

    def _background(self) -> QPixmap:
        """Grid, ticks and headings; drawn again only when a range or the size changes."""
        assert self.view is not None
        view, ratio = self.view, self.devicePixelRatioF()
        key = (self.size(), ratio, view.rows, view.iterations, view.row, *(s.limits for s in self.series.values()))
        if self._ground is not None and self._ground[0] == key:
            return self._ground[1]
        pixmap = QPixmap(max(1, round(self.width() * ratio)), max(1, round(self.height() * ratio)))
        pixmap.setDevicePixelRatio(ratio)
        pixmap.fill(Qt.GlobalColor.transparent)
        with QPainter(pixmap) as painter:
            px = self.theme.px
            for quantity, _ in QUANTITIES:
                over_rows, history = self.axes(quantity)
                values = range_ticks(*over_rows.y, most=max(3, round(over_rows.rect.height() / px(10))))
                draw_grid(painter, over_rows, values, self.theme, self._small, labels=True)
                draw_grid(painter, history, values, self.theme, self._small, labels=False)
            over_rows, history = self.axes("l")
            start, end = view.rows
            rows = index_ticks(start, end - 1, max(1, int(over_rows.rect.width() / px(30))))
            draw_x_ticks(painter, over_rows, rows, self.theme, self._small)
            tiles = replace(history, x=(0.5, history.x[1] + 1))  # counted from 1
            numbers = index_ticks(*tiles.x, max(1, int(tiles.rect.width() / px(30))))
            draw_x_ticks(painter, tiles, numbers, self.theme, self._small)
            over_rows, history = self.axes("m")
            painter.setFont(self._words)
            painter.setPen(QColor(self.theme.muted))
            align = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop
            metrics, right = QFontMetrics(self._words), (history.rect.left() - px(8), float(self.width()))
            words = (
                ("all rows of the block", "all rows"),
                (f"row {start + view.row:,} by tile", f"row {start + view.row:,}"),
            )
            for axes, end, texts in zip((over_rows, history), right, words, strict=True):
                width = end - axes.rect.left()
                text = next((t for t in texts if metrics.horizontalAdvance(t) <= width), "")
                painter.drawText(QRectF(axes.rect.left(), 0, width, px(14)), align, text)
        self._ground = (key, pixmap)
        return pixmap

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if self.view is None or event.button() != Qt.MouseButton.LeftButton:
            return
        axes = self.axes("m")[0]
        x = event.position().x()
        if axes.rect.left() - 6 <= x <= axes.rect.right() + 6:
            start, end = self.view.rows
            self.row_chosen.emit(min(round(axes.value_at(x)), end - 1) - start)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        moves = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1, Qt.Key.Key_PageUp: -16, Qt.Key.Key_PageDown: 16}
        move = moves.get(Qt.Key(event.key()))
        if move is None or self.view is None or event.modifiers() != Qt.KeyboardModifier.NoModifier:
            super().keyPressEvent(event)
            return
        row = min(max(self.view.row + move, 0), self.view.rows[1] - self.view.rows[0] - 1)
        if row != self.view.row:
            self.row_chosen.emit(row)


def _strip_top(axes: Axes) -> int:
    """Where the picture of a quantity's curves begins: dots reach beyond the plot."""
    return int(axes.rect.top()) - 5


def compact(x: float) -> str:
    """A number in at most seven characters (eight when negative and far from 1)."""
    text = number(x)
    return text if len(text) <= 7 else number(x, 3)
