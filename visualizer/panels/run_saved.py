"""The run panel's page for a saved benchmark: whose it is, the shape, and the candidates as bars against cuDNN."""

from __future__ import annotations

import math

from PySide6.QtCore import QPointF, QRect, QRectF
from PySide6.QtGui import QColor, QFontMetrics

from visualizer.frame import SavedView
from visualizer.panels.canvas import RIGHT, Sheet, wrap
from visualizer.panels.run_figures import measured, spread
from visualizer.theme import Theme

OURS = ("hopper", "portable")


def draw_saved(sheet: Sheet, area: QRect, saved: SavedView, theme: Theme) -> None:
    """The head, as many bars as have room, and below them what else the file says, as far as it fits."""
    px, small, code = theme.px, theme.ui_font(12), theme.code_font(12)
    row = px(24) if area.height() >= px(420) else px(18)
    head = f"{saved.gpu}, {saved.date}: from a file, not a run made here"
    used = sheet.wrapped(area, head, theme.ui_font(13), theme.text) + px(2)
    nearest = saved.shape if saved.is_same else f"{saved.shape}: nearest to yours"
    used += sheet.wrapped(area.adjusted(0, used, 0, 0), nearest, small, theme.muted) + px(6)
    times = [(t, r) for t, r in zip(saved.times, saved.ratios, strict=True) if measured(t)]
    times = times[: max(0, (area.height() - used - px(14)) // row)]
    metrics = QFontMetrics(small)
    names = max((metrics.horizontalAdvance(t.name) for t, _ in times), default=0) + px(12)
    names, values = min(names, area.width() // 2), QFontMetrics(code).horizontalAdvance("0000  00.00 ×")
    track = max(px(20), area.width() - names - values - px(8))
    scale = track / max((spread(t)[1] for t, _ in times), default=1.0)
    top, left = area.top() + used, area.left() + names
    for timing, ratio in times:
        is_ours = timing.name in OURS
        ink = theme.text if is_ours else theme.muted
        sheet.text(QRect(area.left(), top, names - px(6), row), timing.name, small, ink)
        bar = theme.color("o") if is_ours else QColor(theme.done)
        sheet.box(QRectF(left, top + row * 0.2, timing.tflops * scale, row * 0.6), bar)
        y, tick = top + row / 2, px(3)
        ends = [left + end * scale for end in spread(timing)]
        sheet.line([QPointF(ends[0], y), QPointF(ends[1], y)], theme.text)
        for x in ends:
            sheet.line([QPointF(x, y - tick), QPointF(x, y + tick)], theme.text)
        against = f"{ratio:5.2f} ×" if math.isfinite(ratio) else " " * 7
        where = QRect(area.right() + 1 - values, top, values, row)
        sheet.text(where, f"{timing.tflops:.0f}  {against}", code, ink, RIGHT)
        top += row
    unit = QRect(area.left(), top, area.width(), px(14))
    sheet.text(unit, "forward TFLOP/s, median and spread · speed / cuDNN's", theme.ui_font(11), theme.muted, RIGHT)
    top += px(20)
    source = " · ".join((saved.file, *saved.versions))
    for line in (source, f"card at the end: {saved.card}" if saved.card else ""):
        needed = len(wrap(line, metrics, area.width())) * metrics.height()
        if line and top + needed <= area.bottom() + 1:
            top += sheet.wrapped(QRect(area.left(), top, area.width(), needed), line, small, theme.muted) + px(2)
