"""A loaded tile travels from its strip to the chip, and the output back: a small picture that moves over the window."""

from __future__ import annotations

import time
from typing import Final

import numpy as np
from PySide6.QtCore import QEasingCurve, QRect, Qt, QVariantAnimation
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from visualizer.frame import Frame
from visualizer.panels.chip import ChipPanel
from visualizer.panels.tiles import TilesPanel
from visualizer.theme import Theme

DURATION_MS: Final = 220
MAX_SPEED: Final = 4.0


class Flight(QWidget):
    """One tile on its way. It is as large as the tile, takes no clicks, and hides when it has arrived."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_NoSystemBackground)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._image = QImage()
        self._color = QColor()
        self.path = (QRect(), QRect())
        self._animation = QVariantAnimation(self)
        self._animation.setDuration(DURATION_MS)
        self._animation.setEasingCurve(QEasingCurve.Type.InOutCubic)
        self._animation.valueChanged.connect(self._move)
        self._animation.finished.connect(self.hide)
        self.hide()

    @property
    def is_flying(self) -> bool:
        return self.isVisible()

    def fly(self, image: QImage, color: QColor, start: QRect, end: QRect) -> None:
        """Starts a flight between two places of the parent."""
        self.stop()
        self._image, self._color, self.path = image, color, (start, end)
        self._animation.setStartValue(start)
        self._animation.setEndValue(end)
        self.setGeometry(start)
        self.show()
        self.raise_()
        self._animation.start()

    def stop(self) -> None:
        """Ends the flight at once."""
        self._animation.stop()
        self.hide()

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setOpacity(0.92)
            painter.drawImage(self.rect(), self._image)
            painter.setPen(QPen(self._color, 1))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))

    def _move(self, rect: QRect) -> None:
        self.setGeometry(rect)


class Motion:
    """Decides which steps are worth a flight, and starts it.

    A step forward by one that loads or stores a tile; by hand, or playing at most at MAX_SPEED; and not when steps
    come faster than a flight lasts (a key held down), where it would only flicker.
    """

    def __init__(self, window: QWidget, tiles: TilesPanel, chip: ChipPanel) -> None:
        self._window, self._tiles, self._chip = window, tiles, chip
        self.flight = Flight(window)
        self.clock = time.monotonic
        self._last = -1.0

    def follow(self, before: Frame | None, frame: Frame, speed: float) -> None:
        """Looks at the step from one frame to the next; `speed` is that of playing, 0 when stepping by hand."""
        if before is None or before.transport is None or frame.transport is None or before.problem != frame.problem:
            return
        moved = frame.transport.index - before.transport.index
        if not moved:
            return
        now = self.clock()
        hurried = now - self._last < DURATION_MS / 1000
        self._last = now
        self.flight.stop()
        if moved != 1 or hurried or speed > MAX_SPEED or self._tiles.isHidden() or self._chip.isHidden():
            return
        assert frame.tiles is not None and frame.chip is not None
        chip, theme = frame.chip, self._tiles.theme
        if frame.tiles.load is not None:
            quantity = frame.tiles.load
            values = {"q": chip.q, "k": chip.k, "v": chip.v}[quantity]
            start, end = self._at(self._tiles, quantity), self._at(self._chip, quantity)
        elif frame.tiles.store:
            quantity, values = "o", chip.acc
            start, end = self._at(self._chip, "acc"), self._at(self._tiles, "o")
        else:
            return
        if values is None or start.isEmpty() or end.isEmpty():
            return
        limits = chip.levels["acc" if quantity == "o" else quantity]
        image = picture(values.T if quantity == "k" else values, quantity, limits, theme)
        self.flight.fly(image, theme.color(quantity), start, end)

    def stop(self) -> None:
        self.flight.stop()

    def forget(self) -> None:
        """Stands still, as before the first step."""
        self.stop()
        self._last = -1.0

    def _at(self, panel: TilesPanel | ChipPanel, quantity: str) -> QRect:
        """A tile's place in the window."""
        if isinstance(panel, TilesPanel):
            rect = panel.output_rect() if quantity == "o" else panel.strip_rect(quantity)
        else:
            rect = panel.slot_rect(quantity)
        return QRect(panel.mapTo(self._window, rect.topLeft()), rect.size())


def picture(values: np.ndarray, quantity: str, limits: tuple[float, float], theme: Theme) -> QImage:
    """The tile as the chip draws it: values within limits, in the quantity's colours."""
    low, high = limits
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = (np.nan_to_num(values.astype(np.float32), nan=low) - low) * (255 / ((high - low) or 1))
    colors = np.ascontiguousarray(theme.signed_lut(quantity)[np.clip(scaled, 0, 255).astype(np.uint8)])
    height, width = colors.shape[:2]
    return QImage(colors.data, width, height, 3 * width, QImage.Format.Format_RGB888).copy()
