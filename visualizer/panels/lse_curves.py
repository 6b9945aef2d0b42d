"""The curves of the lse panel, in three marks that differ in more than colour.

exact is a broad pale band (dots where only some rows are known), the mirror a filled area that grows from step to step,
the kernel a thin line on top.
"""

from __future__ import annotations

import math

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPen

from visualizer.frame import LseView
from visualizer.panels.chart import Axes, draw_grid, draw_line, draw_x_ticks, outline, ticks, with_ends
from visualizer.panels.heatmap import fill_pattern
from visualizer.theme import Theme

LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
BLIND = "-∞: these rows see no key"


def draw_axes(painter: QPainter, view: LseView, upper: Axes, lower: Axes, theme: Theme) -> None:
    """Grids and ticks of both plots, and the name of the lower one."""
    px, small = theme.px, theme.code_font(10)
    draw_grid(painter, upper, ticks(*upper.y, max(2, int(upper.rect.height() / px(24)))), theme, small, labels=True)
    draw_grid(painter, lower, [lower.y[0], 0.0, lower.y[1]], theme, small, labels=True)
    last = view.num_rows - 1
    inner = [t for t in ticks(0, last, max(1, int(upper.rect.width() / px(80)))) if t == int(t)]
    draw_x_ticks(painter, lower, with_ends(0, last, inner), theme, small)
    words = theme.ui_font(11)
    metrics = QFontMetrics(words)
    painter.setFont(words)
    x, y = lower.rect.left() + px(4), lower.rect.top() - px(13)
    for name, color in differences(view, theme):
        painter.fillRect(QRectF(x, y + px(6), px(14), max(1, px(1))), color)
        painter.setPen(QColor(theme.muted))
        painter.drawText(QRectF(x + px(18), y, metrics.horizontalAdvance(name) + 1, px(13)), LEFT, name)
        x += px(32) + metrics.horizontalAdvance(name)


def differences(view: LseView, theme: Theme) -> list[tuple[str, QColor]]:
    """The curves of the lower plot, with their colours."""
    first = [(view.difference_name, theme.word("lse"))]
    return first if view.mirror_difference is None else [*first, ("kernel − mirror", QColor(theme.text))]


def draw_curves(painter: QPainter, view: LseView, upper: Axes, lower: Axes, theme: Theme) -> None:
    """exact, mirror and kernel in the upper plot, the difference in the lower one."""
    rows, zoom = np.arange(view.num_rows), theme.zoom
    pale, fill = _pale(theme), _fill(theme)
    exact = outline(upper, view.exact_rows, view.exact)
    if not view.sampled:
        painter.fillPath(exact.band(2.5 * zoom), pale)
        draw_alone(painter, exact.dots(), pale, 5 * zoom)
    mirror = outline(upper, rows, view.mirror)
    painter.fillPath(mirror.band(0, bottom=upper.rect.bottom()), fill)
    draw_line(painter, mirror, theme.word("lse"), 1.4 * zoom)
    if view.kernel is not None:
        kernel, ink = outline(upper, rows, view.kernel), QColor(theme.text)
        if kernel.dense:
            ink.setAlpha(130)  # a broad line, which would hide the mirror's
        draw_line(painter, kernel, ink, 0.8 * zoom)
    if view.sampled:
        known = np.flatnonzero(np.isfinite(view.exact))
        known = known[:: max(1, math.ceil(theme.px(7) * len(known) / upper.rect.width()))]
        x, y = upper.to_x(view.exact_rows[known]), upper.to_y(view.exact[known])
        dots = [QPointF(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        draw_alone(painter, dots, QColor(theme.muted), 4 * zoom)
    draw_line(painter, outline(lower, view.exact_rows, view.difference), theme.word("lse"), zoom)
    if view.mirror_difference is not None:
        draw_line(painter, outline(lower, rows, view.mirror_difference), QColor(theme.text), zoom)
    if view.blind_rows:
        _draw_blind(painter, view.blind_rows, upper, theme)


def draw_alone(painter: QPainter, dots: list[QPointF], color: QColor, width: float) -> None:
    if dots:
        painter.setPen(QPen(color, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        painter.drawPoints(dots)


def draw_sample(painter: QPainter, name: str, box: QRectF, theme: Theme, sampled: bool) -> None:
    """What a series looks like, for the legend; sampled: exact is known for some rows only."""
    px, middle = theme.px, round(box.center().y())
    if name == "exact" and sampled:
        dots = [QPointF(box.x() + box.width() * part, middle) for part in (0.15, 0.5, 0.85)]
        draw_alone(painter, dots, QColor(theme.muted), 4 * theme.zoom)
    elif name == "exact":
        painter.fillRect(QRectF(box.x(), middle - px(2.5), box.width(), px(5)), _pale(theme))
    elif name == "mirror":
        painter.fillRect(QRectF(box.x(), middle - px(2), box.width(), px(7)), _fill(theme))
        painter.fillRect(QRectF(box.x(), middle - px(3), box.width(), px(1.4)), theme.word("lse"))
    else:
        painter.fillRect(QRectF(box.x(), middle, box.width(), 1), QColor(theme.text))


def _draw_blind(painter: QPainter, count: int, upper: Axes, theme: Theme) -> None:
    """Rows without a key: a hatched strip at the bottom, with its meaning where there is room."""
    px, words = theme.px, theme.ui_font(11)
    left, right = float(upper.to_x(0)), min(float(upper.to_x(count - 0.5)), upper.rect.right())
    strip = QRectF(left, upper.rect.bottom() - px(8), max(3.0, right - left), px(8))
    painter.fillRect(strip, QColor(theme.skipped))
    fill_pattern(painter, strip, QColor(theme.muted), Qt.BrushStyle.BDiagPattern)
    painter.setPen(QColor(theme.muted))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRect(strip)
    if QFontMetrics(words).horizontalAdvance(BLIND) <= strip.width():
        painter.setFont(words)
        painter.drawText(QRectF(left, strip.top() - px(16), strip.width(), px(14)), LEFT, BLIND)


def _pale(theme: Theme) -> QColor:
    color = QColor(theme.muted)
    color.setAlpha(110)
    return color


def _fill(theme: Theme) -> QColor:
    color = QColor(theme.color("lse"))
    color.setAlpha(60)
    return color
