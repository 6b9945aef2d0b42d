"""The roofline: speed against operations per byte, both logarithmic, under the roofs of a known GPU."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from PySide6.QtCore import QPointF, QRect, QRectF
from PySide6.QtGui import QColor, QFontMetrics

from kernel.devices import EXAMPLE, Device, find
from visualizer.frame import LedgerView
from visualizer.numbers import three
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
    left = metrics.horizontalAdvance("1,000") + px(8)
    rect = QRectF(area.left() + left, area.top() + line + px(4), area.width() - left, area.height() - 2 * line - px(8))
    axes = _axes(rect, view, device, dtype)
    _grid(sheet, axes, theme, line)
    low = rect.height() < 3.5 * line
    if rect.height() > 6 * line:
        sheet.text(QRect(round(rect.left()) + px(5), round(rect.top()), px(60), line), "TFLOP/s", small, theme.muted)
    peak, ridge = device.tflops(dtype), device.tflops(dtype) / device.bandwidth
    start = max(axes.low[0], axes.low[1] / device.bandwidth)
    roof = [axes.at(start, device.bandwidth * start), axes.at(ridge, peak), axes.at(axes.high[0], peak)]
    sheet.line(roof, theme.text, 2)
    ours = theme.word("o")
    labels: list[tuple[str, QPointF, QColor]] = []
    lines = list(pairwise(roof))
    for what, intensity, ink in (
        ("naive", view.naive_intensity, QColor(theme.muted)),
        ("this kernel", view.intensity, ours),
    ):
        if intensity > 0:
            point = axes.at(intensity, attainable(device, dtype, intensity))
            foot = QPointF(point.x(), rect.bottom())
            lines.append((point, foot))
            sheet.line(lines[-1], ink, 1, dashed=True)
            sheet.box(_square(point, px(4)), ink)
            sheet.box(_square(point, px(4) - 1.5), QColor(theme.panel))  # hollow: where it could be at most
            labels.append((f"{what} {three(intensity)}", point, ink))
    if view.tflops is not None and view.tflops > 0 and view.intensity > 0:
        point = axes.at(view.intensity, view.tflops)
        sheet.box(_square(point, px(4)), theme.color("o"))
        if low:
            labels[-1] = (f"{labels[-1][0]}, measured {three(view.tflops)}", labels[-1][1], ours)
        else:
            labels.append((f"measured {three(view.tflops)} TFLOP/s", point, ours))
    for text, point, ink in reversed(labels):
        _label(sheet, rect.toRect(), lines, point, text, ink, theme)
    return sheet


def _square(center: QPointF, half: float) -> QRectF:
    return QRectF(center.x() - half, center.y() - half, 2 * half, 2 * half)


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
        sheet.text(where, f"{value:,g}", code, theme.muted, RIGHT)
    for value in _tens(axes.low[0], axes.high[0]):
        x = axes.x(value)
        sheet.line([QPointF(x, rect.top()), QPointF(x, rect.bottom())], theme.grid)
        width = metrics.horizontalAdvance(f"{value:,g}") + 1
        left = min(round(x - width / 2), round(rect.right()) - width)
        sheet.text(QRect(left, round(rect.bottom()) + px(2), width, line), f"{value:,g}", code, theme.muted, CENTER)
    unit = "FLOP per byte"
    width = QFontMetrics(theme.ui_font(11)).horizontalAdvance(unit) + px(4)
    where = QRect(round(rect.right()) - width, round(rect.bottom()) - line - px(2), width, line)
    sheet.text(where, unit, theme.ui_font(11), theme.muted, RIGHT)


def _label(
    sheet: Sheet,
    inside: QRect,
    lines: list[tuple[QPointF, QPointF]],
    point: QPointF,
    text: str,
    ink: QColor,
    theme: Theme,
) -> None:
    """Names a point: near it or at the foot of the plot, where the words cover no other and the fewest lines."""
    font, gap = theme.ui_font(11), theme.px(7)
    metrics = QFontMetrics(font)
    height, x, y = metrics.height(), round(point.x()), round(point.y())
    foot = inside.bottom() + 1 - height
    tops = (y - height // 2, y + gap, y - height - theme.px(2), foot, foot - height, foot - 2 * height)

    def cost(place: QRect) -> int:
        words = sum(place.intersects(other.rect) for other in sheet.texts)
        crossed = sum(_crosses(place, *line) * (1 if line[0].x() == line[1].x() else 4) for line in lines)
        return 100 * (words + (not inside.contains(place))) + 3 * crossed + abs(place.center().y() - y) // height

    found: list[tuple[int, str, QRect]] = []
    for worse, form in enumerate((text, text.removesuffix(" TFLOP/s"))):
        width = metrics.horizontalAdvance(form) + 1
        places = [QRect(left, top, width, height) for top in tops for left in (x + gap, x - gap - width)]
        found += [(cost(place) + worse, form, place) for place in places]
    least, form, place = min(found, key=lambda one: one[0])
    if least < 100:
        sheet.text(place, form, font, ink, LEFT)


def _crosses(place: QRect, start: QPointF, end: QPointF) -> bool:
    """Whether the line from start to end goes through the place (Liang and Barsky's clipping)."""
    first, last = 0.0, 1.0
    for at, to, low, high in (
        (start.x(), end.x(), place.left(), place.right() + 1),
        (start.y(), end.y(), place.top(), place.bottom() + 1),
    ):
        if at == to:
            if not low <= at <= high:
                return False
            continue
        near, far = sorted(((low - at) / (to - at), (high - at) / (to - at)))
        first, last = max(first, near), min(last, far)
    return first <= last


def _tens(low: float, high: float) -> list[float]:
    return [10.0**n for n in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
