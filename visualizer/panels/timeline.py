"""The whole tape as a line: banded by program, labelled by head, with a cursor to drag."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QMouseEvent, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from kernel.problem import Problem
from kernel.tiling import Position, Tiling
from visualizer.frame import Frame, TransportView
from visualizer.numbers import span
from visualizer.theme import Theme

NARROWEST: Final = 3
EVENT_WORDS: Final = {
    "partial tile": "orange mark: partly masked tiles from here on",
    "store": "purple mark: o and L leave",
}


class Timeline(QWidget):
    """Draws a TransportView as a line and lets a person drag along it.

    `seek` carries the step under the pointer. While dragging it is sent again only after the last one has been painted,
    so that a slow frame is never followed by a queue of them.
    """

    seek = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.theme = theme
        self.view: TransportView | None = None
        self._tiling = Tiling(Problem())
        self._wanted: int | None = None
        self._is_waiting = False
        self._dim = self._bright = QPixmap()
        self._key: tuple | None = None
        self._bands: np.ndarray | None = None
        self.setAccessibleName("Timeline of the steps")
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(120)
        self.restyle(theme)

    def restyle(self, theme: Theme) -> None:
        self.theme = theme
        self._font = theme.ui_font(11)
        self._label_height = math.ceil(QFontMetricsF(self._font).height())
        self.setFixedHeight(theme.px(6) + theme.px(14) + theme.px(4) + self._label_height)
        self.update()

    def show_frame(self, frame: Frame) -> None:
        self.view = frame.transport
        if frame.problem != self._tiling.problem:
            self._tiling = Tiling(frame.problem)
        self.update()

    # geometry

    @property
    def bar(self) -> QRectF:
        """Where the bands lie."""
        margin = self.theme.px(5)
        return QRectF(margin, self.theme.px(6), max(1, self.width() - 2 * margin), self.theme.px(14))

    def at(self, step: float) -> float:
        """The pixel of the boundary before `step`: 0 is the left end, `total` the right one."""
        total = 1 if self.view is None else self.view.total
        return self.bar.left() + self.bar.width() * step / max(1, total)

    def step_at(self, pixel: float) -> int:
        """The step whose end lies nearest to a pixel."""
        assert self.view is not None
        share = (pixel - self.bar.left()) / self.bar.width()
        return min(max(round(share * self.view.total) - 1, 0), self.view.total - 1)

    def heads(self) -> list[tuple[QRectF, str]]:
        """The labels under the line: every head, or as many as there is room for."""
        view = self.view
        if view is None:
            return []
        metrics, top = QFontMetricsF(self._font), self.bar.bottom() + self.theme.px(4)
        name = self._tiling.problem.head_name
        labels: list[tuple[QRectF, str]] = []
        widest = metrics.horizontalAdvance(name(view.num_heads - 1)) + self.theme.px(10)
        pitch = self.bar.width() / view.num_heads
        every = _round_up(max(1, math.ceil(widest / pitch)))
        for head in range(0, view.num_heads, every):
            text = name(head)
            rect = QRectF(
                self.at(head * view.steps_per_head), top, metrics.horizontalAdvance(text) + 1, metrics.height()
            )
            if rect.right() <= self.width():
                labels.append((rect, text))
        return labels

    def events(self) -> list[tuple[float, str]]:
        """Pixels of events of the program at hand: where its partial tiles start, and its store."""
        view = self.view
        if view is None:
            return []
        first, end = view.program_steps
        if self.at(end) - self.at(first) < self.theme.px(24):
            return []
        head, block = view.head, view.program - view.head * self._tiling.num_q_blocks
        masked = self._tiling.masked_iterations(block)
        found = [(self.at(end - 1), "store")]
        if masked:
            found.append((self.at(self._tiling.index(Position(head, block, masked.start, "load_k"))), "partial tile"))
        return found

    # painting

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.fillRect(self.rect(), QColor(self.theme.panel))
            if self.view is not None:
                self._paint(painter, self.view)
        if self._is_waiting:
            self._is_waiting = False
            if self._wanted is not None:
                QTimer.singleShot(0, self._send)

    def _paint(self, painter: QPainter, view: TransportView) -> None:
        theme, bar, px = self.theme, self.bar, self.theme.px
        self._remake(view)
        painter.drawPixmap(bar, self._dim, QRectF(self._dim.rect()))
        now = self.at(view.index + 1)
        share = (now - bar.left()) / bar.width() * self._bright.width()
        painter.drawPixmap(
            QRectF(bar.topLeft(), QPointF(now, bar.bottom())),
            self._bright,
            QRectF(0, 0, share, self._bright.height()),
        )
        x0, x1 = (self.at(step) for step in view.program_steps)
        if x1 - x0 < NARROWEST:
            x0, x1 = (x0 + x1 - NARROWEST) / 2, (x0 + x1 + NARROWEST) / 2
        painter.setPen(QPen(QColor(theme.text), 1))
        painter.drawRect(
            QRectF(QPointF(round(x0) + 0.5, bar.top() - 1.5), QPointF(round(x1) - 0.5, bar.bottom() + 1.5))
        )
        for x, event in self.events():
            color = theme.color("k" if event == "partial tile" else "o")
            painter.fillRect(QRectF(round(x) - 1, bar.top() - px(5), 2, px(4)), color)
        if view.filled < 1:
            done = math.floor(view.filled * view.num_programs)
            end = self.at(float(view.bands[done])) if view.bands is not None else self.at(view.filled * view.total)
            thin = QRectF(QPointF(bar.left(), bar.bottom() + px(2)), QPointF(end, bar.bottom() + px(4)))
            if thin.width() >= 1:
                painter.fillRect(thin, QColor(theme.muted))
        painter.setFont(self._font)
        for rect, text in self.heads():
            painter.setPen(QColor(theme.text if text == self._tiling.problem.head_name(view.head) else theme.muted))
            painter.drawText(rect, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop, text)
        width = max(2, px(2))
        cursor = QRectF(round(now) - width / 2, bar.top() - px(5), width, bar.height() + px(10))
        painter.fillRect(cursor.adjusted(-1, 0, 1, 0), QColor(theme.panel))
        painter.fillRect(cursor, QColor(theme.text))

    def _remake(self, view: TransportView) -> None:
        """The two pictures of the bands, to come and done: one pixel high, a pixel per device pixel."""
        dpr = self.devicePixelRatioF()
        width = max(1, round(self.bar.width() * dpr))
        key = (width, self.theme, view.total, view.num_heads)
        if key == self._key and self._bands is view.bands:
            return
        self._key, self._bands = key, view.bands
        gap = np.zeros(width, bool)
        heads = np.arange(1, view.num_heads, dtype=np.int64) * view.steps_per_head
        line = max(1, round(dpr))
        for edges in (view.bands, heads):
            if edges is None or not len(edges):
                continue
            at = np.unique(np.round(edges * (width / view.total)).astype(np.int64))
            wide = np.diff(at, prepend=at[0] - width, append=at[-1] + width)
            at = at[(np.minimum(wide[:-1], wide[1:]) >= (NARROWEST + 1) * dpr) & (at > 0) & (at < width)]
            for offset in range(line):
                gap[np.maximum(at - 1 - offset, 0)] = True
        blue, ground = self.theme.color("q"), QColor(self.theme.panel)
        self._dim, self._bright = (
            _strip(np.where(gap, _rgb(ground), _rgb(_mix(ground, blue, share))).astype(np.uint32))
            for share in (0.28, 0.82)
        )

    # pointing

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self.view is not None:
            self._want(event.position().x())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self.view is None:
            return
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._want(event.position().x())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._is_waiting = False
        self._send()

    def _want(self, pixel: float) -> None:
        self._wanted = self.step_at(pixel)
        if not self._is_waiting:
            self._send()

    def _send(self) -> None:
        wanted, self._wanted = self._wanted, None
        if wanted is None or self.view is None or wanted == self.view.index:
            return
        self._is_waiting = True
        self.update()
        self.seek.emit(wanted)

    def words(self, pixel: float) -> str:
        """What a tooltip says: the step, its program and rows, and what the marks here mean."""
        view = self.view
        if view is None:
            return ""
        step = self.step_at(pixel)
        position = self._tiling.locate(step)
        first, end = self._tiling.rows(position.block)
        program = position.head * self._tiling.num_q_blocks + position.block
        name = self._tiling.problem.head_name(position.head)
        lines = [
            f"step {step:,}: {position.step.replace('_', ' ')}",
            f"program {program + 1:,} of {view.num_programs:,}: {name}, {span('row', first, end)}",
        ]
        lines += [EVENT_WORDS[event] for x, event in self.events() if abs(x - pixel) <= self.theme.px(3)]
        if view.filled < 1:
            share = math.floor(100 * view.filled)
            lines.append(f"computed so far: {share} % of the programs{' (the line below)' if share else ''}")
        return "\n".join(lines)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip:
            text = self.words(event.pos().x())  # pyright: ignore[reportAttributeAccessIssue]
            QToolTip.showText(event.globalPos(), text, self)  # pyright: ignore[reportAttributeAccessIssue]
            return True
        return super().event(event)


def _round_up(n: int) -> int:
    """The smallest power of two that is at least n: every 1st, 2nd, 4th, ... head."""
    return 1 << (n - 1).bit_length()


def _mix(a: QColor, b: QColor, share: float) -> QColor:
    """`share` of b in a."""
    red, green, blue = (
        round(x + (y - x) * share) for x, y in ((a.red(), b.red()), (a.green(), b.green()), (a.blue(), b.blue()))
    )
    return QColor(red, green, blue)


def _rgb(color: QColor) -> int:
    return color.rgb() & 0xFFFFFFFF


def _strip(line: np.ndarray) -> QPixmap:
    """(pixels,) uint32 as a picture one pixel high."""
    return QPixmap.fromImage(QImage(line.data, len(line), 1, 4 * len(line), QImage.Format.Format_RGB32))
