"""A lesson's words over the panels, with the way forward and back."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QAccessible, QAccessibleEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QToolButton, QWidget

from visualizer.lessons import Lesson
from visualizer.state import State
from visualizer.theme import Theme


class LessonBar(QFrame):
    """One stop of a lesson at a time; `go_to` carries the State to show. The stop is not part of a session."""

    go_to = Signal(State)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.lesson: Lesson | None = None
        self.stop = 0
        self.setObjectName("card")
        self.setAccessibleName("Lesson")
        self.place = QLabel()
        self.place.setObjectName("caption")
        self.text = QLabel()
        self.text.setWordWrap(True)
        self.text.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.back, self.forward, self.close_button = QPushButton("Back"), QPushButton("Next"), QToolButton()
        self.back.setAccessibleName("Previous stop of the lesson")
        self.forward.setAccessibleName("Next stop of the lesson")
        self.close_button.setText("✕")
        self.close_button.setAccessibleName("Leave the lesson")
        self.close_button.setToolTip("Leave the lesson")
        self._layout = QHBoxLayout(self)
        self._layout.addWidget(self.place)
        self._layout.addWidget(self.text, 1)
        for button, call in (
            (self.back, lambda: self.turn(-1)),
            (self.forward, lambda: self.turn(1)),
            (self.close_button, self.leave),
        ):
            self._layout.addWidget(button)
            button.clicked.connect(call)
        self.set_theme(theme)
        self.hide()

    def set_theme(self, theme: Theme) -> None:
        px = theme.px
        self.text.setFont(theme.ui_font(15))
        # two lines, so that the panels do not jump from stop to stop
        self.text.setMinimumHeight(2 * self.text.fontMetrics().lineSpacing())
        self._layout.setContentsMargins(px(14), px(6), px(6), px(6))
        self._layout.setSpacing(px(12))

    def open(self, lesson: Lesson) -> None:
        """Begins a lesson at its first stop."""
        self.lesson, self.stop = lesson, 0
        self._show_stop()
        self.show()

    def turn(self, by: int) -> None:
        """To the next (1) or previous (-1) stop; after the last one the lesson is over."""
        if self.lesson is None:
            return
        if self.stop + by >= len(self.lesson.stops):
            self.leave()
            return
        self.stop = max(0, self.stop + by)
        self._show_stop()

    def leave(self) -> None:
        self.lesson = None
        self.hide()

    def _show_stop(self) -> None:
        assert self.lesson is not None
        stops = self.lesson.stops
        self.place.setText(f"{self.stop + 1} of {len(stops)}")
        self.text.setText(stops[self.stop].text)
        self.setAccessibleDescription(f"{self.lesson.title}: {stops[self.stop].text}")
        self.back.setEnabled(self.stop > 0)
        self.forward.setText("Next" if self.stop + 1 < len(stops) else "Done")
        QAccessible.updateAccessibility(QAccessibleEvent(self.text, QAccessible.Event.Alert))
        self.go_to.emit(stops[self.stop].state)
