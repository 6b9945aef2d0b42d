"""Play, step, speed, timeline, and where one is: the one-row panel at the bottom."""

from __future__ import annotations

import math
from typing import ClassVar, Final

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetrics,
    QFontMetricsF,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPolygonF,
)
from PySide6.QtWidgets import QHBoxLayout, QMenu, QSizePolicy, QToolButton, QWidget

from visualizer.events import EVENTS
from visualizer.frame import Frame, TransportView
from visualizer.panels.panel import Panel
from visualizer.panels.picker import Picker, paint_chevron
from visualizer.panels.timeline import Timeline
from visualizer.theme import Theme

SPEEDS: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


class IconButton(QToolButton):
    """A button with a drawn sign, sharp at any scale. Enter presses it; the space bar is left to the window."""

    def __init__(self, sign: str, name: str, keys: str, theme: Theme) -> None:
        super().__init__()
        self.sign = sign
        self.theme = theme
        self.setAccessibleName(name)
        self.setToolTip(f"{name} ({keys})")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.restyle(theme)

    def restyle(self, theme: Theme) -> None:
        self.theme = theme
        self.setFixedSize(QSize(theme.px(32), theme.px(32)))

    def show_sign(self, sign: str, name: str, keys: str) -> None:
        if sign != self.sign:
            self.sign = sign
            self.setAccessibleName(name)
            self.setToolTip(f"{name} ({keys})")
            self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            role = self.theme.muted if not self.isEnabled() else self.theme.text
            color = self.theme.word("q") if self.sign in ("play", "pause") and self.isEnabled() else QColor(role)
            painter.setBrush(color)
            painter.translate(self.width() / 2, self.height() / 2)
            painter.scale(self.theme.px(16) / 16, self.theme.px(16) / 16)
            if self.sign in ("first", "back"):
                painter.scale(-1, 1)
            triangle = QPolygonF([QPointF(-6, -7.5), QPointF(7, 0), QPointF(-6, 7.5)])
            bar = QRectF(5.5, -7.5, 2.5, 15)
            if self.sign == "pause":
                painter.drawRect(QRectF(-6, -7.5, 4.5, 15))
                painter.drawRect(QRectF(1.5, -7.5, 4.5, 15))
            elif self.sign in ("first", "last"):
                painter.drawPolygon(triangle.translated(-2, 0))
                painter.drawRect(bar)
            elif self.sign in ("back", "step"):
                painter.drawPolygon(QPolygonF([QPointF(-2, -6.5), QPointF(8, 0), QPointF(-2, 6.5)]))
                painter.drawRect(QRectF(-7, -6.5, 2.5, 13))
            else:
                painter.drawPolygon(triangle)


class JumpButton(QToolButton):
    """The list of events to jump to; `chosen` carries the event and whether the next or the previous one is meant."""

    chosen = Signal(str, bool)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setText("Jump")
        self.setAccessibleName("Jump to an event")
        self.setToolTip("Jump to the next or previous event")
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        menu = QMenu(self)
        for forward in (True, False):
            for event, words in EVENTS.items():
                action = menu.addAction(f"{'Next' if forward else 'Previous'} {words}")
                action.triggered.connect(lambda _=False, e=event, f=forward: self.chosen.emit(e, f))
            if forward:
                menu.addSeparator()
        self.setMenu(menu)
        self.restyle(theme)

    def restyle(self, theme: Theme) -> None:
        self.theme = theme
        px = theme.px
        self.setStyleSheet(
            f"QToolButton {{ font-size: {px(12)}px; padding: {px(4)}px {px(20)}px {px(4)}px {px(7)}px; }}"
            "QToolButton::menu-indicator { image: none; }"
        )

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.showMenu()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        paint_chevron(self, self.theme)


class Readout(QWidget):
    """Where the tape stands, in two lines: the step's number, and what it does, in its quantity's colour.

    The number is State.step, the one that sessions and --step take.
    """

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.theme = theme
        self.lines = ("", "")
        self.is_elided = False
        self._quantity = "s"
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self.setAccessibleName("Step")

    def sizeHint(self) -> QSize:
        return QSize(self.theme.px(304), self.minimumSizeHint().height())

    def minimumSizeHint(self) -> QSize:
        code, words = QFontMetricsF(self.theme.code_font(13)), QFontMetricsF(self.theme.ui_font(12))
        return QSize(self.theme.px(120), math.ceil(code.height() + words.height()) + self.theme.px(2))

    def show_view(self, view: TransportView) -> None:
        name = view.step.replace("_", " ")
        self.lines = (f"step {view.index:,} · last {view.total - 1:,}", f"{name}  ·  {view.sentence}")
        self._quantity = view.quantity
        self.setToolTip(f"{self.lines[1]}\nSteps are counted from 0, as in session files and after --step.")
        self.setAccessibleDescription(". ".join(self.lines))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.fillRect(self.rect(), QColor(self.theme.panel))
            fonts = (self.theme.code_font(13), self.theme.ui_font(12))
            colors = (QColor(self.theme.text), self.theme.word(self._quantity))
            heights = [QFontMetricsF(font).height() for font in fonts]
            y = (self.height() - sum(heights) - self.theme.px(2)) / 2
            self.is_elided = False
            for text, font, color, height in zip(self.lines, fonts, colors, heights, strict=True):
                painter.setFont(font)
                painter.setPen(color)
                short = QFontMetrics(font).elidedText(text, Qt.TextElideMode.ElideRight, self.width())
                self.is_elided |= short != text
                rect = QRectF(0, y, self.width(), height)
                painter.drawText(rect, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, short)
                y += height + self.theme.px(2)


class TransportPanel(Panel):
    """`change` carries the step to go to; playing, its speed in steps a second, and jumps to events are asked for."""

    name: ClassVar[str] = "transport"
    title: ClassVar[str] = "Transport"
    speed_changed = Signal(float)
    play_toggled = Signal()
    jump = Signal(str, bool)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.title_label.hide()
        self.caption_label.hide()
        self.first, self.back, self.play, self.step, self.last = self.buttons = (
            IconButton("first", "First step", "Home", theme),
            IconButton("back", "Step back", "←", theme),
            IconButton("play", "Play", "space", theme),
            IconButton("step", "Step", "→", theme),
            IconButton("last", "Last step", "End", theme),
        )
        self.first.clicked.connect(lambda: self._go(0))
        self.back.clicked.connect(lambda: self._by(-1))
        self.play.clicked.connect(self.play_toggled)
        self.step.clicked.connect(lambda: self._by(1))
        self.last.clicked.connect(lambda: self._go(self._view.total - 1 if self._view else 0))
        self.speed_box = Picker("Speed", theme)
        self.speed_box.setToolTip("Speed: steps a second (1× is one step a second)")
        for speed in SPEEDS:
            self.speed_box.addItem(speed_text(speed), speed)
        self.speed_box.activated.connect(lambda i: self.speed_changed.emit(SPEEDS[i]))
        self.jump_button = JumpButton(theme)
        self.jump_button.chosen.connect(self.jump)
        self.timeline = Timeline(theme)
        self.timeline.seek.connect(self._go)
        self.readout = Readout(theme)
        self._row = QHBoxLayout(self.body)
        for button in self.buttons:
            self._row.addWidget(button)
        self._row.addWidget(self.speed_box)
        self._row.addWidget(self.jump_button)
        self._row.addWidget(self.timeline, 1)
        self._row.addWidget(self.readout)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.set_speed(4.0)
        self.restyle()

    @property
    def _view(self) -> TransportView | None:
        return None if self.frame is None else self.frame.transport

    def draw(self, frame: Frame) -> None:
        view = frame.transport
        assert view is not None
        self.first.setEnabled(view.index > 0)
        self.back.setEnabled(view.index > 0)
        self.step.setEnabled(view.index < view.total - 1)
        self.last.setEnabled(view.index < view.total - 1)
        self.timeline.show_frame(frame)
        self.readout.show_view(view)

    def restyle(self) -> None:
        px = self.theme.px
        for button in self.buttons:
            button.restyle(self.theme)
        self.speed_box.restyle(self.theme)
        self.jump_button.restyle(self.theme)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(px(4))
        self.timeline.restyle(self.theme)
        self.readout.theme = self.theme
        self.readout.updateGeometry()

    def set_playing(self, playing: bool) -> None:
        """Shows whether the steps are being played."""
        self.play.show_sign("pause" if playing else "play", "Pause" if playing else "Play", "space")

    def set_speed(self, speed: float) -> None:
        """Shows a speed in steps a second: the nearest of SPEEDS."""
        nearest = min(range(len(SPEEDS)), key=lambda i: abs(math.log(SPEEDS[i] / max(speed, 1e-3))))
        self.speed_box.setCurrentIndex(nearest)

    def _by(self, steps: int) -> None:
        if self._view is not None:
            self._go(self._view.index + steps)

    def _go(self, step: int) -> None:
        if self._view is not None and 0 <= step < self._view.total and step != self._view.index:
            self.change.emit({"step": step})

    def _fit(self) -> None:
        px = self.theme.px
        self._outer.setContentsMargins(px(12), px(9), px(14), px(9))
        self._outer.setSpacing(0)


def speed_text(speed: float) -> str:
    return {0.25: "¼×", 0.5: "½×"}.get(speed, f"{speed:g}×")
