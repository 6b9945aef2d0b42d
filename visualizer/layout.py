"""Where the panels stand: splitters that a person can move, any panel hidden, any panel alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from PySide6.QtCore import QByteArray, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QSplitter, QWidget

from visualizer.deck import Deck
from visualizer.panels.panel import Panel
from visualizer.theme import Theme

# sizes as shares of the window at its first opening; a person's own are kept in the settings
COLUMNS: Final = (68, 32)
LEFT: Final = (67, 33)
TOP: Final = (47, 53)
BOTTOM: Final = (58, 42)
RIGHT: Final = (31, 35, 34)
DECK: Final = ("run", "ledger")


# from this width on, in pixels at zoom 1, the ledger stands beside the source; else it shares the run's place
WIDE: Final = 1640


class PanelLayout(QWidget):
    """tiles | chip over source (| ledger) at the left; rows, lse, and run (or ledger) at the right."""

    shown_changed = Signal()

    def __init__(self, panels: Mapping[str, Panel], theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._panels = dict(panels)
        self._hidden: set[str] = set()
        self._left_out: set[str] = set()
        self._front = "run"
        self._is_wide = False
        self.maximised: str | None = None
        self._sizes: dict[str, QByteArray] = {}
        p = panels
        self._deck = Deck({name: p[name] for name in DECK}, self.bring_forward)
        self.splitters = {
            "top": _splitter(Qt.Orientation.Horizontal, [p["tiles"], p["chip"]]),
            "bottom": _splitter(Qt.Orientation.Horizontal, [p["source"]]),
            "right": _splitter(Qt.Orientation.Vertical, [p["rows"], p["lse"], self._deck]),
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
        self._theme = theme
        self._deck.set_theme(theme)
        self._spread()
        for splitter in self.splitters.values():
            splitter.setHandleWidth(theme.px(10))
        self.setStyleSheet(
            "QSplitter::handle { background: transparent; image: none; }"
            f"QSplitter::handle:hover {{ background: {theme.border}; border-radius: {theme.px(3)}px; }}"
        )

    def reset(self) -> None:
        """Every panel shown, in its first size."""
        self._hidden.clear()
        self._left_out.clear()
        self.maximised = None
        self._show()
        self._front = "run"
        shares = {"top": TOP, "bottom": BOTTOM, "right": RIGHT, "left": LEFT, "columns": COLUMNS}
        for name, share in shares.items():
            self.splitters[name].setSizes([part * 100 for part in share])

    def is_shown(self, name: str) -> bool:
        """Whether the View menu has the panel shown."""
        return name not in self._hidden | self._left_out

    def toggle(self, name: str) -> None:
        """Shows or hides a panel; the last one stays."""
        self._restore_sizes()
        if not self.is_shown(name):
            self._hidden.discard(name)
            self._left_out.discard(name)
        elif len(self._hidden | self._left_out) + 1 < len(self._panels):
            self._hidden.add(name)
        self._show()

    def bring_forward(self, name: str) -> None:
        """Of the panels that share a place, shows this one."""
        if name in DECK and name not in self._hidden and (name != self._front or name in self._left_out):
            self._front = name
            self._left_out.discard(name)
            self._show()

    def leave_out(self, names: Iterable[str]) -> None:
        """Hides these panels for a while, if others are shown; what the View menu has hidden stays as it is."""
        names = set(names)
        self._left_out = names if set(self._panels) - self._hidden - names else set()
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

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._spread()

    def _spread(self) -> None:
        """Gives the ledger a place of its own where there is room for it."""
        wide = self.width() >= self._theme.px(WIDE)
        if wide == self._is_wide:
            return
        self._is_wide = wide
        if wide:
            self.splitters["bottom"].addWidget(self._panels["ledger"])
            self.splitters["bottom"].setSizes([part * 100 for part in BOTTOM])
        else:
            self._deck.take_back("ledger")
        self._show()

    def _show(self) -> None:
        shown = {self.maximised} if self.maximised else set(self._panels) - self._hidden - self._left_out
        deck = shown.intersection(DECK) if not self._is_wide else set()
        if len(deck) > 1:
            shown -= deck - {self._front}
        for name, panel in self._panels.items():
            panel.setVisible(name in shown)
        self._deck.offer(deck)
        self._deck.setVisible(not {*DECK}.isdisjoint(shown if not self._is_wide else shown - {"ledger"}))
        for name in ("top", "bottom", "right", "left"):
            splitter = self.splitters[name]
            parts = (splitter.widget(i) for i in range(splitter.count()))
            splitter.setVisible(any(part is not None and not part.isHidden() for part in parts))
        self.shown_changed.emit()


def _splitter(orientation: Qt.Orientation, widgets: list) -> QSplitter:
    splitter = QSplitter(orientation)
    splitter.setChildrenCollapsible(False)
    for widget in widgets:
        splitter.addWidget(widget)
    return splitter
