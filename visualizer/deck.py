"""Panels that share one place: one is seen, and the others' titles beside its own lead to them."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QToolButton, QVBoxLayout, QWidget

from visualizer.panels.panel import Panel
from visualizer.theme import Theme


class Deck(QWidget):
    """Holds panels by name; `choose` is called with the name whose title was clicked."""

    def __init__(self, panels: dict[str, Panel], choose: Callable[[str], None]) -> None:
        super().__init__()
        self._panels = panels
        self._tabs: dict[tuple[str, str], QToolButton] = {}
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for at, (name, panel) in enumerate(panels.items()):
            layout.addWidget(panel)
            for other_at, (other, other_panel) in enumerate(panels.items()):
                if other == name:
                    continue
                tab = QToolButton()
                tab.setObjectName("tab")
                tab.setText(other_panel.title)
                tab.setAccessibleName(f"Show {other_panel.title}")
                tab.setToolTip(f"Shows {other_panel.title} here")
                tab.setFocusPolicy(Qt.FocusPolicy.TabFocus)
                tab.clicked.connect(lambda _=False, other=other: choose(other))
                # the titles stand in the same order, whichever is the bright one
                title_at = panel.header.indexOf(panel.title_label)
                panel.header.insertWidget(other_at if other_at < at else title_at + other_at - at, tab)
                self._tabs[name, other] = tab

    def take_back(self, name: str) -> None:
        """Puts a panel that was elsewhere back in its place."""
        layout = self.layout()
        assert isinstance(layout, QVBoxLayout)
        layout.insertWidget(list(self._panels).index(name), self._panels[name])

    def offer(self, names: set[str]) -> None:
        """Which panels the titles lead to."""
        for (_, other), tab in self._tabs.items():
            tab.setVisible(other in names)

    def set_theme(self, theme: Theme) -> None:
        px = theme.px
        for (name, other), tab in self._tabs.items():
            self._panels[name].header.setSpacing(px(12))
            title = self._panels[other].title_label
            title.ensurePolished()
            tab.setFixedSize(title.sizeHint())  # so that no title moves when another is chosen
            tab.setStyleSheet(
                f"QToolButton {{ color: {theme.muted}; font-weight: 600; border: none; padding: 0; }}"
                f"QToolButton:hover {{ color: {theme.text}; background: transparent; }}"
                f"QToolButton:focus {{ border: 1px solid {theme.accent}; }}"
            )
