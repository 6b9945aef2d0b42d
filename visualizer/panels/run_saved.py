"""The run panel's page for a saved benchmark: whose it is, the shape, and the candidates as bars against cuDNN."""

from __future__ import annotations

from typing import Final, NamedTuple

from PySide6.QtCore import QPointF, QRect, QRectF
from PySide6.QtGui import QColor, QFontMetrics

from kernel.results import Timing
from visualizer.frame import SavedView
from visualizer.numbers import three
from visualizer.panels.canvas import RIGHT, Sheet, wrap
from visualizer.panels.run_figures import measured, spread
from visualizer.theme import Theme

# the file's names for this project's kernels, as the window writes them
OURS: Final = {"hopper": "Hopper", "hopper, fixed order": "Hopper, fixed order", "portable": "portable"}
MORE: Final = "Backward times in a larger panel."


class Group(NamedTuple):
    """What was measured in one direction."""

    direction: str
    times: list[tuple[Timing, float]]


def draw_saved(sheet: Sheet, area: QRect, saved: SavedView, theme: Theme) -> None:
    """The head, forward and, where they have room, backward bars, and below them what else the file says."""
    px, small = theme.px, theme.ui_font(12)
    head = f"{saved.gpu}, {saved.date}: from a file, not a run made here"
    used = sheet.wrapped(area, head, theme.ui_font(13), theme.text) + px(2)
    nearest = saved.shape if saved.is_same else f"{saved.shape}: nearest to yours"
    used += sheet.wrapped(area.adjusted(0, used, 0, 0), nearest, small, theme.muted) + px(4)
    forward = Group("forward", _measured(saved.times, saved.ratios))
    backward = Group("backward", _measured(saved.backward, saved.backward_ratios))
    groups = [group for group in (forward, backward) if group.times]
    metrics, foot = QFontMetrics(small), px(4)
    lines = [" · ".join((saved.file, *saved.versions)), f"card at the end: {saved.card}" if saved.card else ""]
    heights = [len(wrap(line, metrics, area.width())) * metrics.height() + px(2) for line in lines]
    room = area.height() - used
    if room < _rows(groups) * px(18) + sum(heights) + foot:
        groups = groups[:1]
        lines[:0] = [MORE] if backward.times and forward.times else []
        heights[:0] = [metrics.height() + px(2)] * (len(lines) - len(heights))
    row = min(max((room - sum(heights) - foot) // max(1, _rows(groups)), px(18)), px(34))
    top = area.top() + used
    names = max((metrics.horizontalAdvance(_name(t)) for group in groups for t, _ in group.times), default=0)
    for group in groups:
        where = QRect(area.left(), top, area.width(), area.bottom() + 1 - top)
        top += _bars(sheet, where, group, min(names + px(12), area.width() // 2), row, theme)
    top += foot
    for line, needed in zip(lines, heights, strict=True):
        if line and top + needed <= area.bottom() + 1:
            sheet.wrapped(QRect(area.left(), top, area.width(), needed), line, small, theme.muted)
            top += needed


def _measured(times: tuple[Timing, ...], ratios: tuple[float, ...]) -> list[tuple[Timing, float]]:
    return [(t, r) for t, r in zip(times, ratios, strict=True) if measured(t)]


def _rows(groups: list[Group]) -> int:
    return sum(len(group.times) + 1 for group in groups)


def _name(timing: Timing) -> str:
    return OURS.get(timing.name, timing.name)


def _bars(sheet: Sheet, area: QRect, group: Group, names: int, row: int, theme: Theme) -> int:
    """A line of headings, and a bar for each candidate that has room; returns the height used."""
    px, small, code, tiny = theme.px, theme.ui_font(12), theme.code_font(12), theme.ui_font(11)
    headings = ("TFLOP/s", "× cuDNN")
    speed_width, ratio_width = (QFontMetrics(tiny).horizontalAdvance(heading) + 1 for heading in headings)
    columns = (
        QRect(area.right() + 1 - ratio_width - px(12) - speed_width, area.top(), speed_width, row),
        QRect(area.right() + 1 - ratio_width, area.top(), ratio_width, row),
    )
    sheet.text(QRect(area.left(), area.top(), names, row), group.direction, small, theme.text)
    for column, heading in zip(columns, headings, strict=True):
        sheet.text(column, heading, tiny, theme.muted, RIGHT)
    left, top = area.left() + names, area.top() + row
    track = max(px(20), columns[0].left() - left - px(8))
    scale = track / max((spread(t)[1] for t, _ in group.times), default=1.0)
    for timing, ratio in group.times[: max(0, (area.height() - row) // row)]:
        ink = theme.text if timing.name in OURS else theme.muted
        sheet.text(QRect(area.left(), top, names - px(6), row), _name(timing), small, ink)
        thick = min(row * 0.6, px(16))
        sheet.box(QRectF(left, top + (row - thick) / 2, timing.tflops * scale, thick), _bar_color(timing, theme))
        whisker(sheet, theme, [left + end * scale for end in spread(timing)], top + row / 2)
        for column, text in zip(columns, (three(timing.tflops), f"{ratio:.2f}"), strict=True):
            if text != "nan":
                sheet.text(column.translated(0, top - area.top()), text, code, ink, RIGHT)
        top += row
    return top - area.top()


def _bar_color(timing: Timing, theme: Theme) -> QColor:
    """The output's colour for the Hopper kernel, half of it for this project's others, grey for the rest."""
    if timing.name not in OURS:
        return QColor(theme.done)
    color = theme.color("o")
    return color if timing.name == "hopper" else theme.thin(color.name(), 0.5)


def whisker(sheet: Sheet, theme: Theme, ends: list[float], y: float) -> None:
    """A bar's slow and fast ends."""
    tick = theme.px(3)
    sheet.line([QPointF(ends[0], y), QPointF(ends[1], y)], theme.text)
    for x in ends:
        sheet.line([QPointF(x, y - tick), QPointF(x, y + tick)], theme.text)
