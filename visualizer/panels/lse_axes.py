"""Axes of pyqtgraph plots that look as those of the other panels: their grids, numbers and fonts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

# isort: split
import pyqtgraph as pg  # after PySide6: it takes the binding that is loaded already

from visualizer.panels.chart import Axes, draw_grid, draw_x_ticks, index_ticks, ticks
from visualizer.theme import Theme

Values = Callable[[float, float, float, Theme], list[float]]


class Scale(pg.AxisItem):
    """A grid with its numbers at the left, or numbers below."""

    def __init__(self, side: str, values: Values, theme: Theme) -> None:
        """values(low, high, pixels, theme): where the ticks stand."""
        self.is_blank = False  # nothing is known that could be measured
        self._theme = theme  # the base class asks for the bounds
        super().__init__(side)
        self._values = values
        self.setGrid(255 if side == "left" else False)  # so that its bounds reach over the plot
        self.setFlag(self.GraphicsItemFlag.ItemUsesExtendedStyleOption)  # or option.exposedRect says nothing
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        if self.orientation == "left":
            self.setWidth(theme.px(42))
        else:
            self.setHeight(theme.px(16))

    def boundingRect(self) -> QRectF:
        """Numbers at the ends stand half outside; what the rectangle leaves out is not painted over."""
        more = self._theme.px(24)
        return super().boundingRect().adjusted(-more, -more, more, more)

    def paint(self, painter: QPainter, option: Any, widget: object) -> None:
        if self.is_blank:
            return
        plot: Any = self.linkedView()
        rect, small = self.mapRectFromItem(plot, plot.rect()), self._theme.code_font(10)
        axes = Axes(rect, *map(tuple, plot.viewRange()))
        if self.orientation == "left":
            numbers = option.exposedRect.left() < rect.left()  # not where a mark moves over the grid
            draw_grid(painter, axes, self._values(*axes.y, rect.height(), self._theme), self._theme, small, numbers)
        elif option.exposedRect.bottom() > rect.bottom() + self._theme.px(2):
            draw_x_ticks(painter, axes, self._values(*axes.x, rect.width(), self._theme), self._theme, small)


def value_ticks(low: float, high: float, pixels: float, theme: Theme) -> list[float]:
    return ticks(low, high, max(2, int(pixels / theme.px(24))))


def limits_and_zero(low: float, high: float, pixels: float, theme: Theme) -> list[float]:
    return [low, 0.0, high]


def row_ticks(low: float, high: float, pixels: float, theme: Theme) -> list[float]:
    """Whole rows, as many as have room."""
    return index_ticks(low, high, max(1, int(pixels / theme.px(64))))
