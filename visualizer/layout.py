"""Where the panels stand: splitters that a person can move, any panel hidden, any panel alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from PySide6.QtCore import QByteArray, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QSplitter, QWidget

from visualizer.panels.panel import Panel
from visualizer.theme import Theme

# sizes as shares of the window at its first opening; a person's own are kept in the settings
COLUMNS: Final = (68, 32)
LEFT: Final = (67, 33)
TOP: Final = (47, 53)
BOTTOM: Final = (58, 42)
RIGHT: Final = (32, 36, 32)


class PanelLayout(QWidget):
    """tiles | chip over source | ledger at the left, rows, lse and run at the right."""

    shown_changed = Signal()

    def __init__(self, panels: Mapping[str, Panel], theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._panels = dict(panels)
        self._hidden: set[str] = set()
        self.maximised: str | None = None
        self._sizes: dict[str, QByteArray] = {}
        p = panels
        self.splitters = {
            "top": _splitter(Qt.Orientation.Horizontal, [p["tiles"], p["chip"]]),
            "bottom": _splitter(Qt.Orientation.Horizontal, [p["source"], p["ledger"]]),
            "right": _splitter(Qt.Orientation.Vertical, [p["rows"], p["lse"], p["run"]]),
        }
        s = self.splitters
        s["left"] = _splitter(Qt.Orientation.Vertical, [s["top"], s["bottom"]])
        s["columns"] = _splitter(Qt.Orientation.Horizontal, [s["left"], s["right"]])
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(s["columns"])
        self.set_theme(theme)
        self.reset()

    def set_theme(self, theme: Theme) -> None:
        for splitter in self.splitters.values():
            splitter.setHandleWidth(theme.px(10))
        self.setStyleSheet(
            "QSplitter::handle { background: transparent; image: none; }"
            f"QSplitter::handle:hover {{ background: {theme.border}; border-radius: {theme.px(3)}px; }}"
        )

    def reset(self) -> None:
        """Every panel shown, in its first size."""
        self._hidden.clear()
        self.maximised = None
        self._show()
        shares = {"top": TOP, "bottom": BOTTOM, "right": RIGHT, "left": LEFT, "columns": COLUMNS}
        for name, share in shares.items():
            self.splitters[name].setSizes([part * 100 for part in share])

    def is_shown(self, name: str) -> bool:
        """Whether the View menu has the panel shown."""
        return name not in self._hidden

    def toggle(self, name: str) -> None:
        """Shows or hides a panel; the last one stays."""
        self._restore_sizes()
        if name in self._hidden:
            self._hidden.discard(name)
        elif len(self._hidden) + 1 < len(self._panels):
            self._hidden.add(name)
        self._show()

    def maximise(self, name: str | None) -> None:
        """One panel alone, or all that are shown again (None, or the same panel a second time)."""
        if name == self.maximised:
            name = None
        if self.maximised is None:
            self._sizes = {key: splitter.saveState() for key, splitter in self.splitters.items()}
        self.maximised = name
        if name is None:
            self._restore_sizes()
        self._show()

    def save(self) -> dict[str, QByteArray]:
        """The sizes, by splitter."""
        return self._sizes if self.maximised else {key: s.saveState() for key, s in self.splitters.items()}

    def restore(self, sizes: Mapping[str, QByteArray]) -> None:
        """Takes sizes that `save` gave; others are left alone."""
        for key, splitter in self.splitters.items():
            if not sizes.get(key, QByteArray()).isEmpty():
                splitter.restoreState(sizes[key])

    @property
    def hidden(self) -> frozenset[str]:
        """The panels that the View menu has hidden."""
        return frozenset(self._hidden)

    @hidden.setter
    def hidden(self, names: Iterable[str]) -> None:
        hidden = {name for name in names if name in self._panels}
        self._hidden = hidden if len(hidden) < len(self._panels) else set()
        self._show()

    def _restore_sizes(self) -> None:
        if self._sizes:
            self.restore(self._sizes)
            self._sizes = {}
        self.maximised = None

    def _show(self) -> None:
        for name, panel in self._panels.items():
            shown = name == self.maximised if self.maximised else name not in self._hidden
            panel.setVisible(shown)
        for name in ("top", "bottom", "right", "left"):
            splitter = self.splitters[name]
            splitter.setVisible(any(not splitter.widget(i).isHidden() for i in range(splitter.count())))
        self.shown_changed.emit()


def _splitter(orientation: Qt.Orientation, widgets: list) -> QSplitter:
    splitter = QSplitter(orientation)
    splitter.setChildrenCollapsible(False)
    for widget in widgets:
        splitter.addWidget(widget)
    return splitter
