"""L over the rows and the differences below: two pyqtgraph plots that zoom and pan like a map, along the rows only."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from PySide6.QtCore import QEvent, QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QResizeEvent
from PySide6.QtWidgets import QWidget

# isort: split
import pyqtgraph as pg  # after PySide6: it takes the binding that is loaded already

from visualizer.frame import LseView
from visualizer.limits import one_two_five, outwards
from visualizer.panels.chart import DOT_SPACING, Axes
from visualizer.panels.lse_axes import Scale, Values, limits_and_zero, row_ticks, value_ticks
from visualizer.panels.lse_marks import dots, draw_blind, draw_names, draw_nothing, look, points, shade
from visualizer.theme import Theme

pg.setConfigOptions(antialias=False, useOpenGL=False, imageAxisOrder="row-major", mouseRateLimit=0)

FEWEST_ROWS: Final = 8  # the deepest zoom
UPPER: Final = ("exact", "kernel", "mirror")
LOWER: Final = ("difference", "between")
DOTTED: Final = ("samples", *UPPER, *LOWER)
Data = dict[str, tuple[np.ndarray, np.ndarray | None]]  # x and y by curve


class LsePlots(pg.GraphicsView):
    """Shows an LseView. The rows in view are the widget's own and last as long as the number of rows: like those of any
    map they are no part of a session.
    """

    hovered = Signal(object)  # a row, or None
    clicked = Signal(int)
    double_clicked = Signal()
    range_changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        self.theme = theme
        self.view: LseView | None = None
        self.plots: tuple[Any, ...] = ()
        super().__init__(parent, background=theme.panel)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.viewport().setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setCacheMode(self.CacheModeFlag.CacheNone)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.top_plot, self.low_plot = self._plot(value_ticks), self._plot(limits_and_zero, row_ticks)
        self.plots = (self.top_plot, self.low_plot)
        self.low_plot.setXLink(self.top_plot)
        self.blocks = [pg.LinearRegionItem(pen=pg.mkPen(None), movable=False) for _ in self.plots]
        self.marks, self.crosses = ([pg.InfiniteLine() for _ in self.plots] for _ in range(2))
        names = (*UPPER, *LOWER)
        self.curves = {name: self._curve(self.low_plot if name in LOWER else self.top_plot) for name in names}
        self.dots = {name: self._curve(self.low_plot if name in LOWER else self.top_plot) for name in DOTTED}
        for z, name in enumerate(names):  # a curve's dots lie with it
            self.curves[name].setZValue(z / 10)
            self.dots[name].setZValue(z / 10)
        self.dots["samples"].setZValue(1)
        for plot, *items in zip(self.plots, self.blocks, self.marks, self.crosses, strict=True):
            for item, z in zip(items, (-10, 10, 11), strict=True):
                item.setZValue(z)
                plot.addItem(item, ignoreBounds=True)
        for hidden in (*self.crosses, *(edge for block in self.blocks for edge in block.lines)):
            hidden.hide()
        self._rows = np.zeros(1)
        self._data: Data = dict.fromkeys((*names, "samples"), (self._rows, None))
        self._drawn: dict[pg.PlotDataItem, tuple[object, ...]] = {}
        self._limits: tuple[object, object] = (None, None)
        self.top_plot.vb.sigXRangeChanged.connect(self._range_changed)
        scene: Any = self.scene()
        scene.sigMouseMoved.connect(lambda at: self._hover(self.row_at(at.x())))
        scene.sigMouseClicked.connect(self._click)
        self.set_theme(theme)

    def _plot(self, y_values: Values, x_values: Values | None = None) -> Any:
        axes: dict[str, pg.AxisItem] = {"left": Scale("left", y_values, self.theme)}
        if x_values is not None:
            axes["bottom"] = Scale("bottom", x_values, self.theme)
        plot: Any = pg.PlotItem(axisItems=axes, enableMenu=False)
        plot.ctrlMenu.setParent(self, plot.ctrlMenu.windowFlags())  # still a popup; else it would outlive the panel
        plot.hideButtons()
        plot.layout.setContentsMargins(0, 0, 0, 0)
        plot.showAxis("bottom", x_values is not None)
        plot.getAxis("left").setZValue(-1000)  # its grid lies below the curves
        plot.setDownsampling(auto=True, mode="peak")
        plot.setClipToView(True)
        plot.vb.setDefaultPadding(0)
        plot.vb.disableAutoRange()
        plot.vb.setMouseEnabled(x=True, y=False)
        self.addItem(plot)
        return plot

    def _curve(self, plot: Any) -> pg.PlotDataItem:
        curve = pg.PlotDataItem(connect="finite", autoDownsampleFactor=1.0, dynamicRangeLimit=None)
        plot.addItem(curve, ignoreBounds=True)
        return curve

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self.setBackground(theme.panel)
        for scale in (self.top_plot.getAxis("left"), self.low_plot.getAxis("left"), self.low_plot.getAxis("bottom")):
            scale.set_theme(theme)
        for block, mark, cross in zip(self.blocks, self.marks, self.crosses, strict=True):
            block.setBrush(pg.mkBrush(shade(theme)))
            mark.setPen(pg.mkPen(theme.text, width=self.devicePixelRatioF()))
            cross.setPen(pg.mkPen(theme.text, width=self.devicePixelRatioF(), style=Qt.PenStyle.DotLine))
        self._arrange()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.DevicePixelRatioChange and self.plots:
            self.set_theme(self.theme)
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self.plots:  # the base class resizes while it is built
            self._arrange()

    def _arrange(self) -> None:
        """Two thirds of the height for L; the names of the differences stand between the two plots."""
        px = self.theme.px
        foot, (over, gap) = px(17), (px(8), px(20)) if self.height() >= px(96) else (px(5), px(11))
        free = max(20, self.height() - over - foot - gap)
        width, top = max(60, self.width() - px(4)), round(free * 0.66)
        self.top_plot.setGeometry(QRectF(0, over, width, top))
        self.low_plot.setGeometry(QRectF(0, over + top + gap, width, free - top + foot))
        self._dress()

    def axes(self) -> tuple[Axes, Axes]:
        """Where the two plots lie in this widget, and the values at their edges."""
        upper, lower = (
            Axes(plot.vb.mapRectToScene(plot.vb.rect()), *map(tuple, plot.vb.viewRange())) for plot in self.plots
        )
        return upper, lower

    # what is shown

    def show_view(self, view: LseView) -> None:
        """Moves the shading and the line; curves are touched only where their arrays are others than before."""
        old, self.view = self.view, view
        if old is None or old.num_rows != view.num_rows:
            self._rows, n = np.arange(view.num_rows, dtype=np.float64), view.num_rows
            for plot in self.plots:
                plot.vb.setLimits(xMin=-0.5, xMax=n - 0.5, maxXRange=n, minXRange=min(FEWEST_ROWS, n))
            self.fit()
        elif old.row != view.row and self._is_in_view(old.row) and not self._is_in_view(view.row):
            self._look_at(view.row)  # who looks elsewhere is left in peace
        self._give(view)
        if old is None or _around(old) != _around(view):
            self.viewport().update()
        if old is None or old.rows != view.rows:
            for block in self.blocks:
                block.setRegion((view.rows[0] - 0.5, view.rows[1] - 0.5))
        if old is None or old.row != view.row:
            for mark in self.marks:
                mark.setPos(view.row)

    def _give(self, view: LseView) -> None:
        """Hands on the arrays that have changed: they keep their identity while nothing has."""
        data: Data = {
            "exact": (view.exact_rows, None if view.sampled else view.exact),
            "mirror": (self._rows, view.mirror),
            "kernel": (self._rows, view.kernel),
            "samples": (view.exact_rows, view.exact if view.sampled else None),
            "difference": (view.exact_rows, view.difference),
            "between": (self._rows, view.mirror_difference),
        }
        limits = (view.value_range, view.difference_range)
        if limits != self._limits or any(self._data[name][1] is not y for name, (_, y) in data.items()):
            self._data, self._limits = data, limits
            for plot, limit in zip(self.plots, limits, strict=True):
                plot.getAxis("left").is_blank = limit is None
            self._fit_heights()
            self._dress()

    def _fit_heights(self) -> None:
        """The limits of y: all that is known of the head or, zoomed in, round numbers around what is in view."""
        view = self.view
        if view is None:
            return
        values, limit = view.value_range or (0.0, 1.0), view.difference_range or 1.0
        if self.is_zoomed:
            first, last = self.top_plot.vb.viewRange()[0]
            rows = slice(max(0, int(first)), int(last) + 2)
            known = slice(*np.searchsorted(view.exact_rows, (rows.start, rows.stop)))
            apart = [view.difference[known]]
            seen = [view.mirror[rows], view.exact[known]]
            if view.kernel is not None and view.mirror_difference is not None:
                apart.append(view.mirror_difference[rows])
                seen.append(view.kernel[rows])
            values = outwards(seen) or values
            limit = one_two_five(max(float(np.abs(d[np.isfinite(d)]).max(initial=0)) for d in apart))
        self.top_plot.setYRange(*values, padding=0)
        self.low_plot.setYRange(-limit, limit, padding=0)

    def _dress(self) -> None:
        """Draws each curve anew whose array, or whose look at the zoom at hand, is another than before."""
        theme, ratio = self.theme, self.devicePixelRatioF()
        for name, (x, y) in self._data.items():
            apart = self.apart * len(self._rows) / max(1, len(x))
            if name in self.curves:
                self._draw(self.curves[name], x, y, look(name, theme, apart, ratio))
            if name in self.dots:
                every = math.ceil(DOT_SPACING * theme.zoom / apart)
                shown = y if name == "samples" or every == 1 else None
                self._draw(self.dots[name], x, shown, dots(name, theme, ratio), every)

    def _draw(
        self, curve: pg.PlotDataItem, x: np.ndarray, y: np.ndarray | None, options: dict[str, Any], every: int = 0
    ) -> None:
        """Gives the curve its points or, where `every` is set, the single points that are known, each such one."""
        drawn = (y, options, every)
        before = self._drawn.get(curve, (None,) * 3)
        if before[0] is y and (y is None or before[1:] == drawn[1:]):
            return
        self._drawn[curve] = drawn
        if y is None:
            curve.clear()
            return
        known = np.flatnonzero(np.isfinite(y))[::every] if every else slice(None)
        curve.opts |= options
        curve.setData(*((x[known], y[known]) if every else points(x, y)))

    def drawForeground(self, painter: QPainter, rect: QRectF) -> None:
        if self.view is not None:
            upper, lower = self.axes()
            if rect.bottom() > upper.rect.bottom() and rect.top() < lower.rect.top():
                draw_names(painter, self.view, upper, lower, self.theme)
            if self.view.value_range is None:
                draw_nothing(painter, self.view, upper, self.theme)
            if self.view.blind_rows:
                draw_blind(painter, self.view.blind_rows, upper, self.theme)

    # zoom and pan

    @property
    def zoom(self) -> float:
        """How many times wider than in the whole picture a row is."""
        return len(self._rows) / float(np.ptp(self.top_plot.vb.viewRange()[0]))

    @property
    def apart(self) -> float:
        """Pixels from row to row."""
        return self.top_plot.vb.width() / max(1e-9, float(np.ptp(self.top_plot.vb.viewRange()[0])))

    @property
    def is_zoomed(self) -> bool:
        return self.zoom > 1 + 1e-6

    def fit(self) -> None:
        """Shows all rows."""
        self.top_plot.setXRange(-0.5, len(self._rows) - 0.5, padding=0)

    def zoom_by(self, factor: float) -> None:
        """Makes rows wider by `factor` around the selected row or, where that is out of view, around the middle."""
        middle = sum(self.top_plot.vb.viewRange()[0]) / 2
        row = middle if self.view is None or not self._is_in_view(self.view.row) else self.view.row
        self.top_plot.vb.scaleBy((1 / factor, 1), center=(row, 0))

    def _is_in_view(self, row: int) -> bool:
        first, last = self.top_plot.vb.viewRange()[0]
        return first <= row <= last

    def _look_at(self, row: int) -> None:
        width = float(np.ptp(self.top_plot.vb.viewRange()[0]))
        first = min(max(-0.5, row - width / 2), len(self._rows) - 0.5 - width)
        self.top_plot.setXRange(first, first + width, padding=0)

    def _range_changed(self) -> None:
        self._fit_heights()
        self._dress()
        self.viewport().update()
        self.range_changed.emit()

    # pointing

    def row_at(self, x: float) -> int | None:
        """The row under a pixel column of the plots."""
        upper = self.axes()[0]
        if self.view is None or not upper.rect.left() - 6 <= x <= upper.rect.right() + 6:
            return None
        return min(round(upper.value_at(x)), self.view.num_rows - 1)

    def _hover(self, row: int | None) -> None:
        for cross in self.crosses:
            cross.setVisible(row is not None)
            if row is not None:
                cross.setPos(row)
        self.hovered.emit(row)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._hover(None)

    def _click(self, event: Any) -> None:
        row = self.row_at(event.scenePos().x())
        if event.button() == Qt.MouseButton.LeftButton and event.double():
            self.double_clicked.emit()
        elif event.button() == Qt.MouseButton.LeftButton and row is not None:
            self.clicked.emit(row)


def _around(view: LseView) -> tuple[object, ...]:
    """What is written outside the curves, of which no curve knows that it has changed."""
    limits = view.value_range, view.difference_range
    return *limits, view.is_coming, view.difference_name, view.mirror_difference is None, view.blind_rows
