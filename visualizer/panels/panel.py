"""What all panels share: a card with a title and a caption; a frame goes in, a person's wish comes out."""

from __future__ import annotations

from typing import ClassVar

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QStackedLayout, QVBoxLayout, QWidget

from visualizer.frame import Frame
from visualizer.panels.veil import Veil
from visualizer.theme import Theme


class Caption(QLabel):
    """A quiet line at the header's right; it gives way, and ends in an ellipsis, where the panel is narrow."""

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, self.width())
        with QPainter(self) as painter:
            painter.setPen(self.palette().color(self.foregroundRole()))
            painter.drawText(self.rect(), self.alignment(), text)


class Panel(QFrame):
    """A card. Subclasses build their widgets into `self.body`, draw in `draw(frame)`, and keep no state of their own.

    `change` carries what a person asks for, as fields of State: {"step": 437}, {"row": 17}.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    change = Signal(dict)
    title_double_clicked = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.theme = theme
        self.frame: Frame | None = None
        self.setObjectName("card")
        self.setAccessibleName(self.title)
        self.title_label = QLabel(self.title)
        self.title_label.setObjectName("title")
        self.caption_label = Caption()
        self.caption_label.setObjectName("caption")
        self.caption_label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.header = QHBoxLayout()
        self.header.addWidget(self.title_label)
        self.header.addStretch(1)
        self.header.addWidget(self.caption_label)
        self.body = QWidget()
        self._nothing = QLabel()
        self._nothing.setObjectName("muted")
        self._nothing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._nothing.setWordWrap(True)
        self._stack = QStackedLayout()
        self._stack.addWidget(self.body)
        self._stack.addWidget(self._nothing)
        self._outer = QVBoxLayout(self)
        self._outer.addLayout(self.header)
        self._outer.addLayout(self._stack, 1)
        self._veil = Veil(theme, self)
        self._fit()

    def show_frame(self, frame: Frame) -> None:
        """Draws the frame; one with nothing in it shows its reason instead, one whose values are coming says so."""
        self.frame = frame
        if frame.empty is not None and not self.shows_empty:
            self._veil.hide()
            self.caption_label.setText("")
            self._nothing.setText(frame.empty)
            self._stack.setCurrentWidget(self._nothing)
            return
        self._stack.setCurrentWidget(self.body)
        if frame.coming and getattr(frame, self.name) is None:
            self._cover()
            return
        self._veil.hide()
        self.draw(frame)

    shows_empty: ClassVar[bool] = False

    def draw(self, frame: Frame) -> None:
        """Draws a frame that is not empty (or any, where shows_empty). Quick: called at every step."""
        raise NotImplementedError

    @property
    def is_veiled(self) -> bool:
        """Whether the panel says that its values are still being computed."""
        return not self._veil.isHidden()

    def _cover(self) -> None:
        self.caption_label.setText("")
        self._outer.activate()
        self._veil.setGeometry(self.body.geometry())
        self._veil.show()
        self._veil.raise_()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self.is_veiled:
            self._cover()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if event.position().y() < self.body.y():
            self.title_double_clicked.emit()

    def set_theme(self, theme: Theme) -> None:
        """Takes another dress or zoom, and draws again."""
        self.theme = self._veil.theme = theme
        self._fit()
        self.restyle()
        if self.frame is not None:
            self.show_frame(self.frame)

    def restyle(self) -> None:
        """Takes over self.theme: pens, fonts, look-up tables, sizes."""

    def _fit(self) -> None:
        px = self.theme.px
        self.title_label.setMinimumHeight(px(20))  # as high as a switch, so that all titles stand at one height
        self._outer.setContentsMargins(px(14), px(8), px(14), px(10))
        self._outer.setSpacing(px(4))
