"""The two plots of L with the legend above them and the numbers that sum them up below."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QToolButton, QWidget

from visualizer.frame import LseView
from visualizer.panels.lse_marks import LEFT, draw_sample
from visualizer.panels.lse_plots import LsePlots
from visualizer.panels.lse_texts import Label, Texts, figures
from visualizer.panels.ring import FocusRing
from visualizer.theme import CODE_FONT, Theme


class LseCanvas(FocusRing):
    """Shows an LseView; `legend` and `figures` are the labels above and below the plots."""

    row_chosen = Signal(int)
    left_alone = Signal()  # a double click: what its first click did is not wanted

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("L of every row; up, down and page keys choose one, plus and minus zoom, 0 shows all")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumSize(220, 110)
        self.view: LseView | None = None
        self.hovered: int | None = None
        self.legend: list[Label] = []
        self.figures: list[Label] = []
        self._spoken: list[tuple[str, str]] = []
        self.plots = LsePlots(theme, self)
        self.plots.hovered.connect(self._hover)
        self.plots.clicked.connect(self.row_chosen)
        self.plots.double_clicked.connect(self._fit_again)
        self.plots.range_changed.connect(self._place_fit_button)
        self.plots.range_changed.connect(self.update)  # the legend shows how broad the curves are
        self.fit_button = QToolButton(self)
        self.fit_button.setAccessibleName("Show all rows")
        self.fit_button.setToolTip("Show all rows (0, or a double click)")
        self.fit_button.clicked.connect(self.plots.fit)
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self.texts = Texts(theme)
        self.update()
        px = theme.px
        self.fit_button.setStyleSheet(
            f'font-family: "{CODE_FONT}"; font-size: {px(11)}px; background: {theme.field}; padding: 0px {px(5)}px;'
            f"border: 1px solid {theme.muted}; border-radius: {px(4)}px;"
        )
        self._arrange()
        self.plots.set_theme(theme)
        self._place_fit_button()

    def show_view(self, view: LseView) -> None:
        if self.view is not None and view.sampled != self.view.sampled:
            self.update()  # the legend's samples look otherwise
        if self.hovered is not None and (self.view is None or view.num_rows != self.view.num_rows):
            self.hovered = None  # the pointer may rest here while another problem comes
        self.view = view
        self._arrange()
        self.plots.show_view(view)
        if self._spoken != figures(view):
            self._spoken = figures(view)
            self.setAccessibleDescription("; ".join(f"{name} {value}" for name, value in self._spoken))

    def _arrange(self) -> None:
        before = self.legend, self.figures
        if self.view is not None:
            row = self.view.row if self.hovered is None else self.hovered
            self.legend = self.texts.legend(self.view, row, self.width())
            self.figures = self.texts.figures(self.view, self.width(), self.height())
        top, ring = self.theme.px(15), 2  # the plots leave the focus ring its room
        bottom = min((round(label.rect.top()) for label in self.figures), default=self.height())
        self.plots.setGeometry(ring, top, self.width() - 2 * ring, bottom - top)
        if self.legend != before[0]:
            self.update(0, 0, self.width(), top)
        if self.figures != before[1]:
            self.update(0, bottom, self.width(), self.height() - bottom)

    def _place_fit_button(self) -> None:
        zoom, px, area = self.plots.zoom, self.theme.px, self.plots.axes()[0].rect
        self.fit_button.setVisible(self.plots.is_zoomed)
        self.fit_button.setText(f"fit  ×{zoom:.3g}")
        self.fit_button.adjustSize()
        corner = self.plots.pos() + area.topRight().toPoint()
        self.fit_button.move(corner.x() - self.fit_button.width() - px(4), corner.y() + px(4))

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._arrange()
        self._place_fit_button()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.view is None:
            return
        theme = self.theme
        with QPainter(self) as painter:
            looks = {
                "word": (self.texts.words, QColor(theme.muted)),
                "number": (self.texts.numbers, QColor(theme.text)),
                "muted": (self.texts.numbers, QColor(theme.muted)),
            }
            for label in (*self.legend, *self.figures):
                if not label.rect.intersects(QRectF(event.rect())):
                    continue
                if label.kind == "sample":
                    draw_sample(painter, label.text, label.rect, theme, self.view.sampled, self.plots.apart)
                    continue
                font, color = looks[label.kind]
                painter.setFont(font)
                painter.setPen(color)
                painter.drawText(label.rect, LEFT, label.text)
            self.paint_ring(painter)

    def _fit_again(self) -> None:
        if self.plots.is_zoomed:
            self.plots.fit()
            self.left_alone.emit()

    def _hover(self, row: int | None) -> None:
        if row != self.hovered:
            self.hovered = row
            self._arrange()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self.view is None or event.modifiers() & ~(
            Qt.KeyboardModifier.KeypadModifier | Qt.KeyboardModifier.ShiftModifier
        ):
            super().keyPressEvent(event)
            return
        size, key = self.view.rows[1] - self.view.rows[0], Qt.Key(event.key())
        moves = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1, Qt.Key.Key_PageUp: -size, Qt.Key.Key_PageDown: size}
        zooms = {Qt.Key.Key_Plus: 1.5, Qt.Key.Key_Equal: 1.5, Qt.Key.Key_Minus: 1 / 1.5}
        if key in moves and not event.modifiers():
            row = min(max(self.view.row + moves[key], 0), self.view.num_rows - 1)
            if row != self.view.row:
                self.row_chosen.emit(row)
        elif key in zooms:
            self.plots.zoom_by(zooms[key])
        elif key == Qt.Key.Key_0:
            self.plots.fit()
        else:
            super().keyPressEvent(event)
