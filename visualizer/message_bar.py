"""One quiet sentence over the panels, for what could not be done."""

from __future__ import annotations

import re

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QAccessible, QAccessibleEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QSizePolicy, QToolButton, QWidget

from visualizer.theme import Theme

SECONDS = 20
LONGEST = 600
LONG_WORD = re.compile(r"(\S{40})")  # may be broken there


class MessageBar(QFrame):
    """Shows a sentence until it is closed, replaced, or has stood for a while."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self.setAccessibleName("Message")
        self.label = QLabel()
        self.label.setObjectName("problem")
        self.label.setTextFormat(Qt.TextFormat.PlainText)  # a file's name may look like HTML
        self.label.setWordWrap(True)
        # Ignored: not even a path without blanks makes the window wider
        self.label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.button = QToolButton()
        self.button.setText("✕")
        self.button.setAccessibleName("Close the message")
        self.button.setToolTip("Close the message")
        self.button.clicked.connect(self.hide)
        self._layout = QHBoxLayout(self)
        self._layout.addWidget(self.label, 1)
        self._layout.addWidget(self.button)
        self._sentence = ""
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.hide)
        self.set_theme(theme)
        self.hide()

    def set_theme(self, theme: Theme) -> None:
        px = theme.px
        self._layout.setContentsMargins(px(14), px(4), px(6), px(4))

    def say(self, sentence: str) -> None:
        """Shows the sentence, and tells screen readers; an empty one takes away what stands there."""
        if not sentence:
            self.hide()
            return
        self._sentence = sentence
        shown = sentence if len(sentence) <= LONGEST else sentence[: LONGEST - 1] + "…"
        self.label.setText(LONG_WORD.sub("\\1\u200b", shown))
        self.setAccessibleDescription(sentence)
        self.show()
        self._timer.start(SECONDS * 1000)
        QAccessible.updateAccessibility(QAccessibleEvent(self.label, QAccessible.Event.Alert))

    @property
    def sentence(self) -> str:
        """What stands there now; empty when hidden."""
        return "" if self.isHidden() else self._sentence
