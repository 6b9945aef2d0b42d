"""A caption that gives way: the longest wording that the header has room for."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QFontMetrics

from visualizer.panels.panel import Panel


class FittingCaption(QObject):
    """Keeps a panel's caption to the first of its wordings that fits, also when the panel is resized."""

    def __init__(self, panel: Panel) -> None:
        super().__init__(panel)
        self._panel = panel
        self._wordings: tuple[str, ...] = ("",)
        panel.caption_label.setMinimumWidth(1)
        panel.installEventFilter(self)

    def show(self, *wordings: str) -> None:
        """From the longest to the shortest; nothing is shown when not even that one fits."""
        if wordings != self._wordings or not self._panel.caption_label.text():  # an empty frame clears the label
            self._wordings = wordings
            self.fit()

    def fit(self) -> None:
        panel = self._panel
        label, header, margins = panel.caption_label, panel.header, panel.contentsMargins()
        others = 0
        for i in range(header.count()):
            item = header.itemAt(i)
            widget = None if item is None else item.widget()
            if item is not None and widget is not None and widget is not label:
                others += item.sizeHint().width() + header.spacing()
        inner = panel.theme.px(28) + margins.left() + margins.right() + header.spacing()
        free = panel.width() - others - inner
        label.ensurePolished()
        metrics = QFontMetrics(label.font())
        chosen = next((w for w in self._wordings if metrics.horizontalAdvance(w) + 2 <= free), "")
        if label.text() != chosen:
            label.setText(chosen)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize:
            self.fit()
        return False
