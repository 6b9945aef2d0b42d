"""The roofline: speed against operations per byte, both logarithmic, under the roofs of a known GPU."""

from __future__ import annotations

import math
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRect, QRectF
from PySide6.QtGui import QColor, QFontMetrics

from kernel.devices import EXAMPLE, Device, find
from visualizer.frame import LedgerView
from visualizer.panels.canvas import CENTER, LEFT, RIGHT, Sheet
from visualizer.theme import Theme


@dataclass(frozen=True, slots=True)
class Axes:
    """Logarithmic axes: x in FLOP per byte, y in TFLOP/s."""

    rect: QRectF
    low: tuple[float, float]
    high: tuple[float, float]

    def x(self, value: float) -> float:
        part = math.log(value / self.low[0]) / math.log(self.high[0] / self.low[0])
        return self.rect.left() + part * self.rect.width()

    def y(self, value: float) -> float:
        part = math.log(value / self.low[1]) / math.log(self.high[1] / self.low[1])
        return self.rect.bottom() - part * self.rect.height()

    def at(self, x: float, y: float) -> QPointF:
        return QPointF(self.x(x), self.y(y))


def attainable(device: Device, dtype: str, intensity: float) -> float:
    """TFLOP/s under both roofs at `intensity` FLOP per byte."""
    return min(device.tflops(dtype), device.bandwidth * intensity)


def roofline(area: QRect, view: LedgerView, dtype: str, theme: Theme) -> Sheet:
    """The plot in area: the roofs, the intensities of this algorithm and of the naive one, and what was measured."""
    sheet, px = Sheet(), theme.px
    known = find(view.device)
    device = known or EXAMPLE
    small, code = theme.ui_font(11), theme.code_font(11)
    metrics = QFontMetrics(code)
    line = metrics.height()
    words = [
        form
        for form in _roofs(device, known is None, dtype)
        if QFontMetrics(small).horizontalAdvance(form) <= area.width()
    ]
    if words:
        sheet.text(QRect(area.left(), area.top(), area.width(), line), words[0], small, theme.muted)
    left = metrics.horizontalAdvance("1000") + px(8)
    rect = QRectF(area.left() + left, area.top() + line + px(4), area.width() - left, area.height() - 2 * line - px(8))
    axes = _axes(rect, view, device, dtype)
    _grid(sheet, axes, theme, line)
    low = rect.height() < 3.5 * line
    if rect.height() > 6 * line:
        sheet.text(QRect(round(rect.left()) + px(5), round(rect.top()), px(60), line), "TFLOP/s", small, theme.muted)
    peak, ridge = device.tflops(dtype), device.tflops(dtype) / device.bandwidth
    start = max(axes.low[0], axes.low[1] / device.bandwidth)
    sheet.line(
        [axes.at(start, device.bandwidth * start), axes.at(ridge, peak), axes.at(axes.high[0], peak)], theme.text, 2
    )
    marks = [("naive", view.naive_intensity, QColor(theme.muted)), ("this kernel", view.intensity, theme.word("o"))]
    at_foot = 0
    for at, (what, intensity, ink) in enumerate(marks):
        if intensity <= 0:
            continue
        top = attainable(device, dtype, intensity)
        x = axes.x(intensity)
        sheet.line([QPointF(x, axes.y(top)), QPointF(x, rect.bottom())], ink, 1, dashed=True)
        sheet.box(QRectF(x - px(3), axes.y(top) - px(3), px(6), px(6)), ink)
        text, point = f"{what} {intensity:.3g}", QPointF(x, axes.y(top))
        if low and at and view.tflops:
            text += f", measured {view.tflops:.3g}"
        at_left = intensity == min(view.intensity or math.inf, view.naive_intensity or math.inf)
        at_foot += _label(sheet, axes, point, text, ink, theme, above=at_left, row=at_foot)
    if view.tflops is not None and view.tflops > 0 and view.intensity > 0:
        point = axes.at(view.intensity, min(max(view.tflops, axes.low[1]), axes.high[1]))
        sheet.box(QRectF(point.x() - px(4), point.y() - px(4), px(8), px(8)), theme.color("o"))
        text = f"measured {view.tflops:.3g} TFLOP/s"
        width = QFontMetrics(small).horizontalAdvance(text) + 1
        ceiling = attainable(device, dtype, view.intensity)
        top = point.y() - line / 2 if view.tflops > ceiling else max(point.y() - line / 2, axes.y(ceiling) + px(1))
        where = QRect(round(point.x()) + px(9), round(top), width, line)
        if view.tflops > ceiling or where.right() > rect.right():
            where.moveRight(round(point.x()) - px(9))
        if not low:
            sheet.text(where, text, small, theme.word("o"))
    return sheet


def _roofs(device: Device, is_example: bool, dtype: str) -> tuple[str, ...]:
    """What the roofs are, from the fullest to the shortest form."""
    name = f"{device.name} as an example" if is_example else device.name
    kind = "float32" if dtype == "float32" else "dense 16-bit"
    peak, bandwidth = f"{device.tflops(dtype):g} TFLOP/s", f"{device.bandwidth:g} TB/s"
    return (
        f"{name}: {peak} {kind}, {bandwidth} (maker's data sheet)",
        f"{name}: {peak} {kind}, {bandwidth}",
        f"{device.name}: {peak}, {bandwidth}",
    )


def _axes(rect: QRectF, view: LedgerView, device: Device, dtype: str) -> Axes:
    """Axes that hold both intensities and the ridge, with a margin, in whole powers of two."""
    ridge = device.tflops(dtype) / device.bandwidth
    inside = [x for x in (view.intensity, view.naive_intensity, ridge) if x > 0]
    low, high = 2.0 ** math.floor(math.log2(min(inside) / 4)), 2.0 ** math.ceil(math.log2(max(inside) * 3))
    bottom = device.bandwidth * low
    if view.tflops is not None and view.tflops > 0:
        bottom = min(bottom, view.tflops / 2)
    top = max(device.tflops(dtype), view.tflops or 0.0) * 1.6
    return Axes(rect, (low, bottom), (high, top))


def _grid(sheet: Sheet, axes: Axes, theme: Theme, line: int) -> None:
    """Lines and numbers at powers of ten, as many as have room."""
    rect, code, px = axes.rect, theme.code_font(11), theme.px
    metrics = QFontMetrics(code)
    for value in _tens(axes.low[1], axes.high[1]):
        y = axes.y(value)
        sheet.line([QPointF(rect.left(), y), QPointF(rect.right(), y)], theme.grid)
        where = QRect(round(rect.left()) - px(54), round(y) - line // 2, px(48), line)
        sheet.text(where, f"{value:g}", code, theme.muted, RIGHT)
    unit = "FLOP per byte"
    unit_width = QFontMetrics(theme.ui_font(11)).horizontalAdvance(unit) + px(4)
    for value in _tens(axes.low[0], axes.high[0]):
        x = axes.x(value)
        sheet.line([QPointF(x, rect.top()), QPointF(x, rect.bottom())], theme.grid)
        width = metrics.horizontalAdvance(f"{value:g}")
        if x + width / 2 < rect.right() - unit_width:
            where = QRect(round(x - width / 2), round(rect.bottom()) + px(2), width + 1, line)
            sheet.text(where, f"{value:g}", code, theme.muted, CENTER)
    where = QRect(round(rect.right()) - unit_width, round(rect.bottom()) + px(2), unit_width, line)
    sheet.text(where, unit, theme.ui_font(11), theme.muted, RIGHT)


def _label(
    sheet: Sheet, axes: Axes, point: QPointF, text: str, ink: QColor, theme: Theme, above: bool, row: int
) -> bool:
    """The name of a point: left of it, above the roof; or beside its line, in a row at the foot of the plot (True)."""
    font, gap, rect = theme.ui_font(11), theme.px(7), axes.rect
    metrics = QFontMetrics(font)
    width, height = metrics.horizontalAdvance(text) + 1, metrics.height()
    left, foot = round(point.x()) - gap - width, round(rect.bottom()) - height - row * height
    if above and left >= rect.left():
        where = QRect(left, max(round(rect.top()), round(point.y()) - height), width, height)
        sheet.text(where, text, font, ink, LEFT)
        return False
    if point.x() + gap + width <= rect.right():
        where = QRect(round(point.x()) + gap, foot, width, height)
    else:
        where = QRect(left, foot, width, height)
    sheet.text(where, text, font, ink, LEFT)
    return True


def _tens(low: float, high: float) -> list[float]:
    return [10.0**n for n in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
