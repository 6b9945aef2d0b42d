"""The map of the score matrix as a widget: shows frames, zooms and pans like any map, tells what lies where."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QToolButton, QToolTip, QWidget

from visualizer import cells
from visualizer.frame import Frame, TilesView
from visualizer.numbers import span
from visualizer.panels.tiles_layout import Label, MapLayout
from visualizer.panels.tiles_paint import MapPainter
from visualizer.panels.tiles_picture import tile_words
from visualizer.theme import Theme

WHOLE = (0.5, 0.5)
DRAG_STARTS = 5


class ScoreMap(QWidget):
    """Draws a TilesView. The range in view (zoom and centre) is the widget's own and lasts as long as the matrix keeps
    its shape: like that of any map it is no part of a session.
    """

    tile_clicked = Signal(int, int)
    strip_clicked = Signal(str, int)
    seek = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.theme = theme
        self.frame: Frame | None = None
        self.place: MapLayout | None = None
        self.labels: list[Label] = []
        self.shows_focus = False
        self._range = (1.0, WHOLE)
        self._drag: tuple[QPointF, tuple[float, float], bool] | None = None
        self._before: int | None = None
        self._painter = MapPainter()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Map of the score tiles")
        self.setToolTip("")
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setMinimumSize(180, 160)
        self.fit_button = QToolButton(self)
        self.fit_button.setAccessibleName("Show the whole matrix")
        self.fit_button.setToolTip("Show the whole matrix (0, or a double click)")
        self.fit_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.fit_button.clicked.connect(self.fit)
        self.fit_button.hide()

    @property
    def view(self) -> TilesView:
        assert self.frame is not None and self.frame.tiles is not None
        return self.frame.tiles

    def show_frame(self, frame: Frame) -> None:
        old, self.frame = self.frame, frame
        before, now = None if old is None else old.tiles, self.view
        if before is None or _shape(before) != _shape(now):
            self._range = (1.0, WHOLE)
        if old is None or before is None or old.problem != frame.problem or before.head != now.head:
            self._lay_out()
        elif self.zoom > 1 and (before.block, before.tile) != (now.block, now.tile):
            self._follow(before, now)
        self._label()
        self.setAccessibleDescription(now.caption)
        self.update()

    def restyle(self, theme: Theme) -> None:
        self.theme = theme
        self.fit_button.setFont(theme.code_font(11))
        self._lay_out()
        self.update()

    def _lay_out(self) -> None:
        if self.frame is None:
            return
        size = (self.width(), self.height())
        self.place = MapLayout(self.frame.problem, self.view, self.theme, size, self.devicePixelRatioF(), *self._range)
        self._range = (self.place.zoom, self.place.center)
        self._label()
        self._place_fit_button(self.place)

    def _label(self) -> None:
        assert self.place is not None
        self.labels = self.place.labels(self.view)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._lay_out()

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.fillRect(self.rect(), QColor(self.theme.panel))
            if self.place is not None:
                if self.devicePixelRatioF() != self.place.keys.dpr:
                    self._lay_out()
                self._painter.paint(painter, self.place, self.view, self.labels)
            if self.shows_focus:
                painter.setPen(QColor(self.theme.accent))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5))

    # zoom and pan

    @property
    def zoom(self) -> float:
        return self._range[0]

    def fit(self) -> None:
        """Shows the whole matrix."""
        self.set_range(1.0, WHOLE)

    def set_range(self, zoom: float, center: tuple[float, float]) -> None:
        """Shows 1/zoom of the matrix around `center`, a (key, row) position in 0 ... 1 each."""
        self._range = (zoom, center)
        self._lay_out()
        self.update()

    def zoom_at(self, factor: float, at: QPointF) -> None:
        """Zooms by `factor`; what lies under `at` stays there."""
        place = self.place
        if place is None:
            return
        zoom = min(max(1.0, place.zoom * factor), place.max_zoom)
        center = []
        for axis, pixel, c in zip((place.keys, place.rows), (at.x(), at.y()), place.center, strict=True):
            fixed = min(max(axis.element(pixel) / max(1, axis.length), 0.0), 1.0)
            center.append(fixed + (c - fixed) * place.zoom / zoom)
        self.set_range(zoom, (center[0], center[1]))

    def _follow(self, before: TilesView, now: TilesView) -> None:
        """Keeps a zoomed map on the tile at hand, if that was in view: who looks elsewhere is left in peace."""
        assert self.place is not None
        area = self.place.map_rect
        if not area.intersects(self.place.hand_rect(before)) or area.contains(self.place.hand_rect(now).center()):
            return
        key, row = ((now.tile or 0) + 0.5) * now.block_n, (now.block + 0.5) * now.block_m
        self._range = (self.zoom, (key / max(1, now.seqlen_k), row / now.seqlen_q))
        self._lay_out()

    def _place_fit_button(self, place: MapLayout) -> None:
        button, px = self.fit_button, self.theme.px
        button.setVisible(self.zoom > 1)
        if self.zoom > 1:
            button.setText(f"fit  ×{self.zoom:.3g}")
            button.setStyleSheet(
                f"background: {self.theme.field}; border: 1px solid {self.theme.muted};"
                f"border-radius: {px(5)}px; padding: {px(2)}px {px(6)}px;"
            )
            button.adjustSize()
            button.move(round(place.keys.end) - button.width() - px(4), round(place.rows.origin) + px(4))

    def wheelEvent(self, event: QWheelEvent) -> None:
        turn = event.angleDelta().y() or event.angleDelta().x()
        self.zoom_at(1.2 ** (turn / 120), event.position())
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        middle = QPointF() if self.place is None else self.place.map_rect.center()
        if event.key() == Qt.Key.Key_0:
            self.fit()
        elif event.key() in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.zoom_at(1.5, middle)
        elif event.key() == Qt.Key.Key_Minus:
            self.zoom_at(1 / 1.5, middle)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.shows_focus = event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self.shows_focus = False
        super().focusOutEvent(event)
        self.update()

    # pointing

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._drag = (event.position(), self._range[1], False)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._drag is None or self.place is None:
            return
        start, center, moving = self._drag
        way = event.position() - start
        if not moving and way.manhattanLength() < DRAG_STARTS:
            return
        self._drag = (start, center, True)
        self.setCursor(Qt.CursorShape.ClosedHandCursor)
        x, y = way.x() / (self.place.keys.size * self.zoom), way.y() / (self.place.rows.size * self.zoom)
        self.set_range(self.zoom, (center[0] - x, center[1] - y))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        drag, self._drag = self._drag, None
        self.unsetCursor()
        if drag is None or drag[2] or self.frame is None or self.place is None:
            return
        self._before = None if self.frame.transport is None else self.frame.transport.index
        hit, strip = self.place.tile_under(event.position()), self.place.strip_under(event.position())
        if hit is not None:
            self.tile_clicked.emit(*hit)
        elif strip is not None:
            self.strip_clicked.emit(*strip)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Back to the whole matrix, and to the step before the first of the two clicks went elsewhere."""
        if self.zoom > 1:
            self.fit()
            transport = None if self.frame is None else self.frame.transport
            if transport is not None and self._before is not None and self._before != transport.index:
                self.seek.emit(self._before)

    def words(self, at: QPointF) -> tuple[str, QRect]:
        """What a tooltip says at a position, and for which rectangle that holds; no text where there is nothing."""
        if self.place is None or self.frame is None:
            return "", QRect()
        view, hit, strip = self.view, self.place.tile_under(at), self.place.strip_under(at)
        if hit is not None:
            kind, where, why = tile_words(self.frame.problem, *hit)
            if kind != "skipped":
                first, end = view.done_tiles(hit[0])
                state = "done" if first <= hit[1] < end else "to come"
                kind = f"{kind}, {'at hand' if hit == (view.block, view.tile) else state}"
            cell = self.place.cell_under(at)
            if cell is not None and kind != "skipped":
                return f"{cells.cell_words(self.frame.problem, view, *cell)}\n{kind}", _around(at)
            return f"{where}\n{kind}: {why}", self.place.tile_rect(*hit).toAlignedRect()
        if strip is None:
            return "", QRect()
        quantity, index = strip
        block, length = (view.block_m, view.seqlen_q) if quantity == "q" else (view.block_n, view.seqlen_k)
        first, end = index * block, min((index + 1) * block, length)
        what, owner = ("row", f"head {view.head}") if quantity == "q" else ("key", f"kv head {view.kv_head}")
        text = f"{quantity} tile: {span(what, first, end)} of {owner}"
        return text, self.place.strip_tile(quantity, index).toAlignedRect()

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            text, rect = self.words(QPointF(event.pos()))
            if text:
                QToolTip.showText(event.globalPos(), text, self, rect)
            else:
                QToolTip.hideText()
            return True
        return super().event(event)


def _around(at: QPointF) -> QRect:
    """A pixel: the tooltip of a cell is asked for anew wherever the pointer goes."""
    return QRect(round(at.x()), round(at.y()), 1, 1)


def _shape(view: TilesView) -> tuple[int, ...]:
    return view.seqlen_q, view.seqlen_k, view.block_m, view.block_n
