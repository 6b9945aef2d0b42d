"""The curves of L and of the differences below, with the numbers that sum them up.

Three marks that differ in more than colour: exact is a broad pale band, the mirror a filled area that grows, the kernel
a thin line on top. The curves stay in a picture of their own, so that a step repaints only the shading and the marker.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QKeyEvent, QMouseEvent, QPainter, QPen, QPixmap
from PySide6.QtWidgets import QWidget

from visualizer.frame import LseView
from visualizer.panels.chart import Axes, curve, draw_curve, draw_grid, draw_x_ticks, ticks
from visualizer.panels.ring import FocusRing
from visualizer.panels.rows_canvas import _with_ends
from visualizer.theme import Theme

NAMES = ("kernel", "mirror", "exact")
LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class Text(NamedTuple):
    rect: QRectF
    text: str


class LseCanvas(FocusRing):
    """Shows an LseView. `legend` and `figures` are the texts above and below the plots."""

    row_chosen = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("L of every row; left and right page keys move by blocks")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setMinimumSize(220, 110)
        self.view: LseView | None = None
        self.hovered: int | None = None
        self._curves: tuple[tuple[object, ...], QPixmap] | None = None
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self._small = theme.code_font(10)
        self._words = theme.ui_font(11)
        self._numbers = theme.code_font(11.5)
        self._curves = None
        self.update()

    def show_view(self, view: LseView) -> None:
        self.view = view
        self.setAccessibleDescription("; ".join(f"{name} {value}" for name, value in self.figures()))
        self.update()

    def figures(self) -> list[tuple[str, str]]:
        """The numbers below the plots: (what, value)."""
        view = self.view
        assert view is not None
        stored = f"{view.stored_rows:,} of {view.num_rows:,}"
        if view.kernel is None:
            return [
                ("max |mirror − exact|", _size(view.max_mirror_exact)),
                ("kernel", "not run"),
                ("rows stepped", stored),
            ]
        return [
            ("max |kernel − exact|", _size(view.max_kernel_exact)),
            ("max |kernel − mirror|", _size(view.max_kernel_mirror)),
            ("rows stepped", stored),
        ]

    def legend(self) -> list[tuple[str, str]]:
        """(series, its value at the hovered or selected row) for each series that is there."""
        view = self.view
        assert view is not None
        row = view.row if self.hovered is None else self.hovered
        at = np.searchsorted(view.exact_rows, row)
        known = at < len(view.exact_rows) and view.exact_rows[at] == row
        values = {
            "kernel": None if view.kernel is None else float(view.kernel[row]),
            "mirror": float(view.mirror[row]),
            "exact": float(view.exact[at]) if known else np.nan,
        }
        return [(name, _value(values[name])) for name in NAMES if values[name] is not None]

    def layout_parts(self) -> tuple[Axes, Axes, QRectF]:
        """The axes of L and of the differences, and the place of the figures."""
        assert self.view is not None
        view, px = self.view, self.theme.px
        left, right = px(44), px(4)
        lines = 1 if self._columns_fit() else 3
        figures = lines * px(16) + (px(15) if lines == 1 else 0)
        head, foot, gap = px(18), px(16), px(12)
        free = max(20, self.height() - head - foot - gap - figures)
        width = max(10, self.width() - left - right)
        top = round(free * 0.66)
        x = (0.0, float(max(1, view.num_rows - 1)))
        limit = view.difference_range
        upper = Axes(QRectF(left, head, width, top), x, view.value_range)
        lower = Axes(QRectF(left, head + top + gap, width, free - top), x, (-limit, limit))
        return upper, lower, QRectF(0, self.height() - figures, self.width(), figures)

    def _columns_fit(self) -> bool:
        metrics, numbers = QFontMetrics(self._words), QFontMetrics(self._numbers)
        widest = max(
            max(metrics.horizontalAdvance(name), numbers.horizontalAdvance(value)) for name, value in self.figures()
        )
        return 3 * (widest + self.theme.px(8)) <= self.width()

    def paintEvent(self, event) -> None:
        view = self.view
        if view is None:
            return
        upper, lower, place = self.layout_parts()
        painter = QPainter(self)
        shade = QColor(self.theme.color("q"))
        shade.setAlpha(46)
        for axes in (upper, lower):
            left, right = float(axes.to_x(view.rows[0] - 0.5)), float(axes.to_x(view.rows[1] - 0.5))
            left, right = max(left, axes.rect.left()), min(max(right, left + 1), axes.rect.right() + 1)
            painter.fillRect(QRectF(left, axes.rect.top(), right - left, axes.rect.height()), shade)
        painter.drawPixmap(0, 0, self._picture(upper, lower))
        for row, style in ((view.row, Qt.PenStyle.SolidLine), (self.hovered, Qt.PenStyle.DotLine)):
            if row is not None:
                painter.setPen(QPen(QColor(self.theme.text), 1, style))
                x = round(float(upper.to_x(row))) + 0.5
                painter.drawLine(QPointF(x, upper.rect.top()), QPointF(x, upper.rect.bottom()))
                painter.drawLine(QPointF(x, lower.rect.top()), QPointF(x, lower.rect.bottom()))
        self._paint_legend(painter)
        self._paint_figures(painter, place)
        self.paint_ring(painter)
        painter.end()

    def _picture(self, upper: Axes, lower: Axes) -> QPixmap:
        """Grid and curves; made anew only when one of them has changed."""
        view, ratio = self.view, self.devicePixelRatioF()
        assert view is not None
        key = (
            view.mirror, view.kernel, view.exact, view.difference,
            QSize(self.size()), ratio, view.value_range, view.difference_range, upper.rect.height(),
        )  # fmt: skip
        if self._curves is not None and all(
            a is b if isinstance(a, np.ndarray) or a is None else not isinstance(b, np.ndarray) and a == b
            for a, b in zip(key, self._curves[0], strict=True)
        ):
            return self._curves[1]
        pixmap = QPixmap(round(self.width() * ratio), round(self.height() * ratio))
        pixmap.setDevicePixelRatio(ratio)
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        self._draw_axes(painter, upper, lower)
        self._draw_curves(painter, upper, lower)
        painter.end()
        self._curves = (key, pixmap)
        return pixmap

    def _draw_axes(self, painter: QPainter, upper: Axes, lower: Axes) -> None:
        view, theme = self.view, self.theme
        assert view is not None
        px = theme.px
        most = max(2, int(upper.rect.height() / px(24)))
        draw_grid(painter, upper, ticks(*upper.y, most), theme, self._small, labels=True)
        limit = view.difference_range
        draw_grid(painter, lower, [-limit, 0.0, limit], theme, self._small, labels=True)
        last = view.num_rows - 1
        inner = [t for t in ticks(0, last, max(1, int(upper.rect.width() / px(80)))) if t == int(t)]
        draw_x_ticks(painter, lower, _with_ends(0, last, inner), theme, self._small)
        painter.setFont(self._words)
        painter.setPen(QColor(theme.muted))
        top = QRectF(lower.rect.left() + px(4), lower.rect.top() - px(13), lower.rect.width(), px(13))
        painter.drawText(top, LEFT, view.difference_name)

    def _draw_curves(self, painter: QPainter, upper: Axes, lower: Axes) -> None:
        view, theme = self.view, self.theme
        assert view is not None
        rows = np.arange(view.num_rows)
        pale = QColor(theme.muted)
        pale.setAlpha(110)
        exact = curve(upper, view.exact_rows, view.exact)
        if view.sampled and len(view.exact_rows) > 1:
            points = upper.to_x(view.exact_rows), upper.to_y(view.exact)
            known = np.isfinite(view.exact)
            painter.setPen(QPen(QColor(theme.muted), theme.px(3)))
            painter.drawPoints([QPointF(a, b) for a, b in zip(points[0][known], points[1][known], strict=True)])
        else:
            draw_curve(painter, exact, pale, 5 * theme.zoom)
        fill = QColor(theme.color("lse"))
        fill.setAlpha(60)
        mirror = curve(upper, rows, view.mirror)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(fill)
        painter.drawPath(_down_to(mirror[0], upper))
        draw_curve(painter, mirror, theme.word("lse"), 1.4 * theme.zoom)
        if view.kernel is not None:
            draw_curve(painter, curve(upper, rows, view.kernel), QColor(theme.text), 0.8 * theme.zoom)
        draw_curve(painter, curve(lower, view.exact_rows, view.difference), theme.word("lse"), 1.0 * theme.zoom)
        self._draw_blind(painter, upper)

    def _draw_blind(self, painter: QPainter, upper: Axes) -> None:
        """Rows without a key: a hatched strip at the bottom, with its meaning where there is room."""
        view, theme = self.view, self.theme
        assert view is not None
        if not view.blind_rows:
            return
        left, right = float(upper.to_x(0)), float(upper.to_x(view.blind_rows - 0.5))
        strip = QRectF(left, upper.rect.bottom() - theme.px(8), max(3.0, right - left), theme.px(8))
        painter.fillRect(strip, QColor(theme.skipped))
        painter.setBrush(Qt.BrushStyle.BDiagPattern)
        painter.fillRect(strip, Qt.BrushStyle.BDiagPattern)
        painter.setPen(QColor(theme.muted))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(strip)
        text = "-∞: sees no key"
        painter.setFont(self._words)
        if QFontMetrics(self._words).horizontalAdvance(text) <= upper.rect.width():
            box = QRectF(left, strip.top() - theme.px(15), upper.rect.width(), theme.px(14))
            painter.drawText(box, LEFT, text)

    def _paint_legend(self, painter: QPainter) -> None:
        view, theme = self.view, self.theme
        assert view is not None
        px = theme.px
        row = view.row if self.hovered is None else self.hovered
        x, high = 0, px(15)
        words, numbers = QFontMetrics(self._words), QFontMetrics(self._numbers)
        painter.setFont(self._numbers)
        painter.setPen(QColor(theme.muted))
        text = f"row {row:,}"
        painter.drawText(QRectF(x, 0, numbers.horizontalAdvance(text) + 2, high), LEFT, text)
        x += numbers.horizontalAdvance(text) + px(12)
        middle = high / 2
        for name, value in self.legend():
            sample = QRectF(x, 0, px(16), high)
            if name == "exact":
                pale = QColor(theme.muted)
                pale.setAlpha(110)
                painter.fillRect(QRectF(x, middle - px(2.5), sample.width(), px(5)), pale)
            elif name == "mirror":
                fill = QColor(theme.color("lse"))
                fill.setAlpha(60)
                painter.fillRect(QRectF(x, middle - px(2), sample.width(), px(7)), fill)
                painter.fillRect(QRectF(x, middle - px(3), sample.width(), px(1.4)), theme.word("lse"))
            else:
                painter.fillRect(QRectF(x, middle, sample.width(), 1), QColor(theme.text))
            x += px(20)
            painter.setFont(self._words)
            painter.setPen(QColor(theme.muted))
            painter.drawText(QRectF(x, 0, words.horizontalAdvance(name) + 2, high), LEFT, name)
            x += words.horizontalAdvance(name) + px(5)
            painter.setFont(self._numbers)
            painter.setPen(QColor(theme.text))
            painter.drawText(QRectF(x, 0, numbers.horizontalAdvance(value) + 2, high), LEFT, value)
            x += numbers.horizontalAdvance(value) + px(12)

    def _paint_figures(self, painter: QPainter, place: QRectF) -> None:
        theme = self.theme
        columns = self._columns_fit()
        high, third = theme.px(16), place.width() / 3
        for i, (name, value) in enumerate(self.figures()):
            if columns:
                above = QRectF(place.left() + i * third, place.top(), third, high)
                below = QRectF(above.left(), above.top() + theme.px(15), third, high)
            else:
                above = below = QRectF(place.left(), place.top() + i * high, place.width(), high)
            align = LEFT if columns else RIGHT
            painter.setFont(self._words)
            painter.setPen(QColor(theme.muted))
            painter.drawText(above, LEFT, name)
            painter.setFont(self._numbers)
            painter.setPen(QColor(theme.text))
            painter.drawText(below, align, value)

    def row_at(self, x: float) -> int | None:
        """The row under a pixel column of the plots."""
        if self.view is None:
            return None
        upper = self.layout_parts()[0]
        if not upper.rect.left() - 6 <= x <= upper.rect.right() + 6:
            return None
        return round(upper.value_at(x))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        row = self.row_at(event.position().x())
        if row != self.hovered:
            self.hovered = row
            self.update()

    def leaveEvent(self, event) -> None:
        self.hovered = None
        self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        row = self.row_at(event.position().x())
        if row is not None and event.button() == Qt.MouseButton.LeftButton:
            self.row_chosen.emit(row)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self.view is None or event.modifiers() != Qt.KeyboardModifier.NoModifier:
            super().keyPressEvent(event)
            return
        size = self.view.rows[1] - self.view.rows[0]
        moves = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1, Qt.Key.Key_PageUp: -size, Qt.Key.Key_PageDown: size}
        move = moves.get(Qt.Key(event.key()))
        if move is None:
            super().keyPressEvent(event)
            return
        row = min(max(self.view.row + move, 0), self.view.num_rows - 1)
        if row != self.view.row:
            self.row_chosen.emit(row)


def _down_to(path, axes: Axes):
    """The path closed along the bottom of the axes, piece by piece."""
    from PySide6.QtGui import QPainterPath, QPolygonF

    closed = QPainterPath()
    for piece in path.toSubpathPolygons():
        if len(piece) > 1:
            bottom = axes.rect.bottom()
            ends = [QPointF(piece[len(piece) - 1].x(), bottom), QPointF(piece[0].x(), bottom)]
            closed.addPolygon(QPolygonF([*piece, *ends]))
    return closed


def _size(x: float | None) -> str:
    return "–" if x is None else f"{x:.1e}" if x else "0"


def _value(x: float) -> str:
    if not np.isfinite(x):
        return "–" if x != x else "∞" if x > 0 else "-∞"
    return f"{x:.5g}"
