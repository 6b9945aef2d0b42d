"""The marks of the lse panel, in shapes that differ in more than colour.

One in the other as the strands of a cable: exact is the broadest (dots where only some rows are known), the kernel lies
on it, and the mirror, which grows from step to step, is the thinnest on top. Where rows stand closer than pixels all
are thin, so that the curve keeps its shape.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetrics, QPainter, QPen

from visualizer.frame import LseView
from visualizer.panels.chart import DOT_SPACING, Axes
from visualizer.panels.heatmap import fill_pattern
from visualizer.theme import Theme

LEFT: Final = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
BLIND: Final = "−∞: these rows see no key"
BLOCK: Final = "this block"


def look(name: str, theme: Theme, apart: float, ratio: float) -> dict[str, Any]:
    """Options of a PlotDataItem for the curve; apart: pixels from point to point, of which each has `ratio` dots on the
    screen. Dense lines are 1 px wide, and quick.
    """
    dense = apart < 0.5
    width = ratio * (1.0 if dense else breadth(name, theme, apart))
    return {"pen": _pen(_ink(name, theme)[0], width), "antialias": not dense}


def breadth(name: str, theme: Theme, apart: float) -> float:
    """A curve's width in pixels, in few steps so that not every zoom is another."""
    full = _ink(name, theme)[1]
    return (1 + round((full - 1) * min(1.0, apart / DOT_SPACING) * 4) / 4) * theme.zoom


def dots(name: str, theme: Theme, ratio: float) -> dict[str, Any]:
    """Options of a PlotDataItem for the curve's single points."""
    color, width = _ink(name, theme)
    rim = _pen(QColor(theme.panel), ratio) if name == "samples" else None
    size = (width + 2.5) * theme.zoom
    return {"pen": None, "symbol": "o", "symbolSize": size, "symbolBrush": QBrush(color), "symbolPen": rim}


@cache
def _ink(name: str, theme: Theme) -> tuple[QColor, float]:
    """A curve's colour and width."""
    return {
        "exact": (_pale(theme), 6.0),
        "kernel": (QColor(theme.text), 3.0),
        "mirror": (theme.word("lse"), 1.5),
        "samples": (QColor(theme.muted), 2.5),
        "difference": (theme.word("lse"), 1.0),
        "between": (QColor(theme.text), 1.0),
    }[name]


def _pen(color: QColor, width: float) -> QPen:
    """Of a width in dots of the screen, whatever the plot's scale."""
    pen = QPen(color, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.BevelJoin)
    pen.setCosmetic(True)
    return pen


def points(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a PlotDataItem gets, with NaN for gaps. Lone points come twice, or its path would leave them out, and the
    last one some more times, or the last pixel would fall out of the down-sampling.
    """
    known = np.isfinite(y)
    beside = np.zeros(len(y) + 2, bool)
    beside[1:-1] = known
    lone = np.flatnonzero(known & ~beside[:-2] & ~beside[2:])
    x, y = x.astype(np.float64), np.where(known, y, np.nan)
    if len(lone):
        x, y = np.insert(x, lone, x[lone]), np.insert(y, lone, y[lone])
    more = len(x) // 64
    return np.concatenate([x, np.repeat(x[-1:], more)]), np.concatenate([y, np.repeat(y[-1:], more)])


def draw_names(painter: QPainter, view: LseView, upper: Axes, lower: Axes, theme: Theme) -> None:
    """The curves of the lower plot, and the shaded rows, named above it."""
    px, words = theme.px, theme.ui_font(11)
    metrics = QFontMetrics(words)
    painter.setFont(words)
    x, y = lower.rect.left() + px(4), round((upper.rect.bottom() + lower.rect.top() - px(13)) / 2)
    named = differences(view, theme)
    if sum(px(32) + metrics.horizontalAdvance(name) for name, _ in named) > lower.rect.width():
        named = [(name.removeprefix("kernel ").removeprefix("mirror "), color) for name, color in named]
    for name, color in named:
        painter.fillRect(QRectF(x, y + px(6), px(14), max(1, px(1))), color)
        painter.setPen(QColor(theme.muted))
        painter.drawText(QRectF(x + px(18), y, metrics.horizontalAdvance(name) + 1, px(13)), LEFT, name)
        x += px(32) + metrics.horizontalAdvance(name)
    width = metrics.horizontalAdvance(BLOCK) + 1
    left = lower.rect.right() - width
    if x <= left - px(18):
        painter.fillRect(QRectF(left - px(18), y + px(2), px(14), px(9)), shade(theme))
        painter.setPen(QColor(theme.muted))
        painter.drawText(QRectF(left, y, width, px(13)), LEFT, BLOCK)


def shade(theme: Theme) -> QColor:
    """What lies over the rows of the block at hand."""
    color = QColor(theme.text)
    color.setAlpha(22)
    return color


def draw_nothing(painter: QPainter, view: LseView, upper: Axes, theme: Theme) -> None:
    """Why the upper plot has neither curve nor axis."""
    if view.blind_rows < view.num_rows:
        painter.setFont(theme.ui_font(11))
        painter.setPen(QColor(theme.muted))
        text = "computing …" if view.is_coming else "no finite value"
        painter.drawText(upper.rect, Qt.AlignmentFlag.AlignCenter, text)


def differences(view: LseView, theme: Theme) -> list[tuple[str, QColor]]:
    """The curves of the lower plot, with their colours."""
    first = [(view.difference_name, theme.word("lse"))]
    return first if view.mirror_difference is None else [*first, ("kernel − mirror", QColor(theme.text))]


def draw_blind(painter: QPainter, count: int, upper: Axes, theme: Theme) -> None:
    """The first `count` rows, which see no key: a hatched strip at the bottom, with its meaning where there is room."""
    px, words, rect = theme.px, theme.ui_font(11), upper.rect
    left, right = max(float(upper.to_x(0)), rect.left()), min(float(upper.to_x(count - 0.5)), rect.right())
    if right < left:
        return
    strip = QRectF(left, rect.bottom() - px(8), max(3.0, right - left), px(8))
    painter.fillRect(strip, QColor(theme.skipped))
    fill_pattern(painter, strip, QColor(theme.muted), Qt.BrushStyle.BDiagPattern)
    painter.setPen(QColor(theme.muted))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRect(strip)
    width = QFontMetrics(words).horizontalAdvance(BLIND)
    place = QRectF(left, strip.top() - px(18), width + 1, px(14))
    if width <= strip.width() and place.top() >= rect.top():
        painter.setFont(words)
        painter.fillRect(place.adjusted(0, 0, px(3), 0), QColor(theme.panel))
        painter.drawText(place, LEFT, BLIND)


def draw_sample(painter: QPainter, name: str, box: QRectF, theme: Theme, sampled: bool, apart: float) -> None:
    """What a series looks like, for the legend; sampled: exact is known for some rows only; apart: as for `look`."""
    px, middle = theme.px, round(box.center().y())
    if name == "exact" and sampled:
        painter.setPen(QPen(QColor(theme.muted), 4 * theme.zoom, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        painter.drawPoints([QPointF(box.x() + box.width() * part, middle) for part in (0.15, 0.5, 0.85)])
    else:
        high = max(px(2), round(breadth(name, theme, apart)))
        painter.fillRect(QRectF(box.x(), middle - high // 2, box.width(), high), _ink(name, theme)[0])


def _pale(theme: Theme) -> QColor:
    return theme.thin(theme.muted, 0.7)
