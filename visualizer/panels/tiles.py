"""The score matrix of one head as tiles: what is done, what is to come, what is masked or never visited."""

from __future__ import annotations

from typing import ClassVar

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, QPoint, QRect, QRectF, Qt
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QListView, QToolTip, QVBoxLayout, QWidget

from kernel.problem import Problem
from kernel.tiling import Position, Tiling
from visualizer.frame import Frame
from visualizer.panels.header import FittingCaption
from visualizer.panels.panel import Panel
from visualizer.panels.picker import Picker
from visualizer.panels.tiles_layout import MapLayout
from visualizer.panels.tiles_map import ScoreMap
from visualizer.panels.tiles_picture import tile_words
from visualizer.theme import Theme


class HeadModel(QAbstractListModel):
    """The heads by name, made when asked for: there may be a million."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._problem = Problem()

    def show_problem(self, problem: Problem) -> None:
        if problem != self._problem:
            self.beginResetModel()
            self._problem = problem
            self.endResetModel()

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else self._problem.num_heads

    def data(self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> str | None:
        return self.text(index.row()) if role == Qt.ItemDataRole.DisplayRole else None

    def text(self, head: int) -> str:
        p = self._problem
        text = p.head_name(head)
        return text if p.heads == p.kv_heads else f"{text} · kv head {p.kv_head(head) % p.kv_heads:,}"


class TilesPanel(Panel):
    """Clicks on tiles and strips, and another head, become a step to go to.

    The range in view (zoom and pan) passes with the window: it is not in State, so a session opens on the whole matrix.
    """

    name: ClassVar[str] = "tiles"
    title: ClassVar[str] = "Score tiles  S = Q·Kᵀ"

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.caption = FittingCaption(self)
        self._tiling = Tiling(Problem())
        self.heads = HeadModel(self)
        self.head_box = Picker("Head", theme)
        self.head_box.setToolTip("Shows the same block and tile of another head")
        self.head_box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        view = QListView()
        view.setUniformItemSizes(True)
        self.head_box.setView(view)
        self.head_box.setModel(self.heads)
        self.head_box.activated.connect(self._choose_head)
        self._head_row = QWidget()
        row = QHBoxLayout(self._head_row)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.head_box)
        row.addStretch(1)
        self.map = ScoreMap(theme)
        self.map.tile_clicked.connect(self._go_to_tile)
        self.map.strip_clicked.connect(self._go_to_strip)
        self.map.seek.connect(self._go)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._head_row)
        layout.addWidget(self.map, 1)
        self.restyle()

    def draw(self, frame: Frame) -> None:
        assert frame.tiles is not None
        if frame.problem != self._tiling.problem:
            self._tiling = Tiling(frame.problem)
            self.heads.show_problem(frame.problem)
            self._fit_head_box()
        self._head_row.setVisible(frame.tiles.num_heads > 1)
        if self.head_box.currentIndex() != frame.tiles.head:
            self.head_box.setCurrentIndex(frame.tiles.head)
        program, _, tile = frame.tiles.caption.partition(" · ")
        self.caption.show(frame.tiles.caption, tile or program)
        self.map.show_frame(frame)

    def restyle(self) -> None:
        self.head_box.restyle(self.theme)
        self._fit_head_box()
        self.map.restyle(self.theme)
        self.caption.fit()

    def strip_rect(self, quantity: str) -> QRect:
        """The tile of q, k or v at hand in its strip, in this panel's coordinates; empty where none is in view."""
        place = self._place
        if place is None:
            return QRect()
        return self._mapped(place.strip_rect(self.map.view, quantity) & place.strip_area(quantity))

    def output_rect(self) -> QRect:
        """Where the o tile leaves at the store, in this panel's coordinates; empty where its row is out of view."""
        place = self._place
        if place is None:
            return QRect()
        rect = place.output_rect(self.map.view)
        return self._mapped(rect) if place.map_rect.top() <= rect.center().y() <= place.map_rect.bottom() else QRect()

    @property
    def _place(self) -> MapLayout | None:
        return None if self.frame is None or self.frame.tiles is None else self.map.place

    def _mapped(self, rect: QRectF) -> QRect:
        return QRect() if rect.isEmpty() else rect.toAlignedRect().translated(self.map.mapTo(self, QPoint(0, 0)))

    def _fit_head_box(self) -> None:
        longest = self.heads.text(self.heads.rowCount() - 1) if self.heads.rowCount() else ""
        self.head_box.setMinimumContentsLength(len(longest))

    def _go(self, step: int) -> None:
        self.change.emit({"step": step})

    def _choose_head(self, head: int) -> None:
        frame = self.frame
        if frame is None or frame.tiles is None or frame.transport is None or head == frame.tiles.head:
            return
        self._go(frame.transport.index + (head - frame.tiles.head) * frame.transport.steps_per_head)

    def _go_to_tile(self, block: int, tile: int) -> None:
        if self.frame is None or self.frame.tiles is None:
            return
        iteration = self._tiling.iteration(block, tile)
        if iteration is None:
            _, where, why = tile_words(self.frame.problem, block, tile)
            self.caption.show(f"skipped: {why}", "skipped: every key after every row", "skipped")
            if self.map.place is not None:
                at = self.map.place.tile_rect(block, tile).center().toPoint()
                QToolTip.showText(self.map.mapToGlobal(at), f"{where}\nskipped: {why}", self.map)
            return
        self._go(self._tiling.index(Position(self.frame.tiles.head, block, iteration, "load_k")))

    def _go_to_strip(self, quantity: str, index: int) -> None:
        """A q tile leads to its program's start; a k or v tile to its load in the program at hand, if it visits it."""
        if self.frame is None or self.frame.tiles is None:
            return
        view = self.frame.tiles
        if quantity == "q":
            self._go(self._tiling.program_start(view.head, index))
            return
        iteration = self._tiling.iteration(view.block, index)
        if iteration is None:
            self._go_to_tile(view.block, index)
        else:
            self._go(self._tiling.index(Position(view.head, view.block, iteration, f"load_{quantity}")))
