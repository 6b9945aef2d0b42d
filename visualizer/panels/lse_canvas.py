"""The curves of L and of the differences below, with the numbers that sum them up.

The curves stay in a picture of their own, so that most steps repaint only the shading and the marker.
"""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QPixmap, QResizeEvent
from PySide6.QtWidgets import QWidget

from visualizer.frame import LseView
from visualizer.panels.chart import Axes
from visualizer.panels.lse_curves import draw_axes, draw_curves, draw_sample
from visualizer.panels.lse_texts import Label, Texts, figures
from visualizer.panels.ring import FocusRing
from visualizer.theme import Theme

LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


class LseCanvas(FocusRing):
    """Shows an LseView; `legend` and `figures` are the labels above and below the plots."""

    row_chosen = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("L of every row; up, down and the page keys choose one")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setMinimumSize(220, 110)
        self.view: LseView | None = None
        self.hovered: int | None = None
        self.legend: list[Label] = []
        self.figures: list[Label] = []
        self._spoken: list[tuple[str, str]] = []
        self._curves: tuple[tuple[object, ...], QPixmap] | None = None
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self.texts = Texts(theme)
        self._curves = None
        self._arrange()

    def show_view(self, view: LseView) -> None:
        self.view = view
        self._arrange()
        if self._spoken != figures(view):
            self._spoken = figures(view)
            self.setAccessibleDescription("; ".join(f"{name} {value}" for name, value in self._spoken))

    def _arrange(self) -> None:
        """Places the texts; `legend` and `figures` are the labels above and below the plots."""
        if self.view is not None:
            row = self.view.row if self.hovered is None else self.hovered
            self.legend = self.texts.legend(self.view, row, self.width())
            self.figures = self.texts.figures(self.view, self.width(), self.height())
        self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._arrange()

    def axes(self) -> tuple[Axes, Axes]:
        """The axes of L and of the differences."""
        assert self.view is not None
        view, px = self.view, self.theme.px
        left, right = px(44), px(4)
        head, foot, gap = px(18), px(18), px(12)
        bottom = min((label.rect.top() for label in self.figures), default=self.height())
        free = max(20, bottom - head - foot - gap)
        width = max(10, self.width() - left - right)
        top = round(free * 0.66)
        x = (0.0, float(max(1, view.num_rows - 1)))
        limit = view.difference_range
        return (
            Axes(QRectF(left, head, width, top), x, view.value_range),
            Axes(QRectF(left, head + top + gap, width, free - top), x, (-limit, limit)),
        )

    def paintEvent(self, event: QPaintEvent) -> None:
        view = self.view
        if view is None:
            return
        upper, lower = self.axes()
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
        self._paint_labels(painter, view)
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
        draw_axes(painter, view, upper, lower, self.theme)
        draw_curves(painter, view, upper, lower, self.theme)
        painter.end()
        self._curves = (key, pixmap)
        return pixmap

    def _paint_labels(self, painter: QPainter, view: LseView) -> None:
        theme = self.theme
        looks = {
            "word": (self.texts.words, QColor(theme.muted)),
            "number": (self.texts.numbers, QColor(theme.text)),
            "muted": (self.texts.numbers, QColor(theme.muted)),
        }
        for label in (*self.legend, *self.figures):
            if label.kind == "sample":
                draw_sample(painter, label.text, label.rect, theme, view.sampled)
                continue
            font, color = looks[label.kind]
            painter.setFont(font)
            painter.setPen(color)
            painter.drawText(label.rect, LEFT, label.text)

    def row_at(self, x: float) -> int | None:
        """The row under a pixel column of the plots."""
        if self.view is None:
            return None
        upper = self.axes()[0]
        if not upper.rect.left() - 6 <= x <= upper.rect.right() + 6:
            return None
        return min(round(upper.value_at(x)), self.view.num_rows - 1)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        row = self.row_at(event.position().x())
        if row != self.hovered:
            self.hovered = row
            self._arrange()

    def leaveEvent(self, event: QEvent) -> None:
        self.hovered = None
        self._arrange()

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
