"""The kernel's real text, with the lines of the step at hand marked and their values beside them."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import ClassVar, Final

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFont,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QResizeEvent,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import QAbstractScrollArea, QToolTip, QVBoxLayout, QWidget

from kernel.source import KernelSource
from visualizer.frame import Frame, SourceView
from visualizer.panels.code import Row, Span, rows_of, spans, tint
from visualizer.panels.panel import Panel
from visualizer.steps import SENTENCES
from visualizer.theme import Theme

MIN_COLUMNS: Final = 20
NOTE_GAP: Final = 3
HANG: Final = 5
CONTEXT_ROWS: Final = 2
FULL_COLUMNS: Final = 104
UP_DOWN: Final = (Qt.Key.Key_Up, Qt.Key.Key_Down)
# how the kernels write a quantity, where it is not "name = "
WRITES: Final = {
    **{name: rf"{name} = |_load\(desc_{name}," for name in "qkv"},
    "s": r"s = (?!gl\.zeros)|scores \+= ",
    "m": "m_new = ",
    "lse": r"lse = |.*\blse_ptr\b",
}
ENTER: Final = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class SourceText(QAbstractScrollArea):
    """Paints the rows of the source that are in sight, the marks of the step and its note."""

    line_clicked = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.view: SourceView | None = None
        self.rows: list[Row] = []
        self._plain: list[Row] = []
        self.marked: tuple[int, ...] = ()
        self.note_at: tuple[int, int] | None = None
        self.columns = MIN_COLUMNS
        self._spans: list[list[Span]] = []
        self._pictures: dict[Row, QPixmap] = {}
        self._ratio = 0.0
        self._shows_choice = False
        self._step_of: dict[int, str] = {}
        self._hovered = ""
        self._chosen = ""
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName("Kernel source: up and down choose a step, Enter goes to where it runs next")
        self.viewport().setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.restyle(theme)

    def restyle(self, theme: Theme) -> None:
        self.theme = theme
        self._fit()

    def show_view(self, view: SourceView) -> None:
        """Marks the view's lines; scrolls only when they are out of sight."""
        old, self.view = self.view, view
        if old is None or old.source is not view.source:
            self._read(view.source)
            self._fit()
        else:
            rows, before = self.rows, {*self.marked}
            self._mark()
            if self.rows is not rows:  # the note has taken, or left, a row of its own
                self.viewport().update()
            for row in before | {*self.marked}:
                self.viewport().update(self.row_rect(row))
        self._bring_into_sight(self.marked)

    def row_rect(self, row: int) -> QRect:
        """Where a row stands in the viewport."""
        top = (row - self.verticalScrollBar().value()) * self._height
        return QRect(0, top, self.viewport().width(), self._height)

    def row_at(self, y: int) -> int | None:
        row = y // self._height + self.verticalScrollBar().value()
        return row if 0 <= row < len(self.rows) else None

    def step_at(self, row: int | None) -> str:
        """The step that the row's line belongs to, or nothing."""
        return "" if row is None else self._step_of.get(self.rows[row].line, "")

    def text_left(self, column: int) -> float:
        """The x of a column of code."""
        return self._gutter + column * self._advance

    def tint(self) -> QColor:
        """The ground of marked lines: the quantity's colour, thinned until every word reads well on it."""
        return tint(self.theme, self.view.quantity if self.view else "s")

    def _read(self, source: KernelSource) -> None:
        self._spans = spans(source.lines)
        self._step_of = {line: step for step, lines in source.step_lines.items() for line in lines}
        for step, lines in source.step_lines.items():
            above = lines[0] - 1 if lines else 0
            if above >= source.first_line and source.lines[above - source.first_line].strip().startswith(f"# {step}:"):
                self._step_of[above] = step

    def _fit(self) -> None:
        """Rows, fonts and the scroll bar for the present width and theme."""
        width = self.viewport().width()
        digits = len(str(self.view.source.first_line + len(self.view.source.lines))) if self.view else 3
        for size in (13, 12):
            self._font = self.theme.code_font(size)
            metrics = QFontMetricsF(self._font)
            self._advance = metrics.horizontalAdvance("0" * 100) / 100
            self._gutter = self.theme.px(12) + (digits + 2) * self._advance
            self.columns = max(MIN_COLUMNS, int((width - self._gutter) / self._advance))
            if self.columns >= FULL_COLUMNS:
                break
        self._bold = self.theme.code_font(size, QFont.Weight.Bold)
        self._height = round(metrics.height()) + self.theme.px(2)
        self._ascent = metrics.ascent() + self.theme.px(1)
        self._pictures.clear()
        if self.view is not None:
            source = self.view.source
            self._plain = rows_of(source.lines, source.first_line, self.columns)
            self._mark()
        self.viewport().update()

    def _mark(self) -> None:
        """Marks the step's lines and places the note: after the line that writes the values, else in a row under it."""
        assert self.view is not None
        note = self.view.note
        self.rows, self.note_at = self._plain, None
        self._mark_rows()
        if note and self.marked:
            at = self._target()
            text = self.rows[at].text
            column = len(text) + NOTE_GAP
            if column + len(note) + 1 > self.columns:
                column = min(len(text) - len(text.lstrip()) + HANG, self.columns - len(note) - 1)
                self.rows = [*self.rows[: at + 1], Row(self.rows[at].line, "", 0, False), *self.rows[at + 1 :]]
                self._mark_rows()
                at += 1
            self.note_at = (at, column) if column > 0 else None
        bar = self.verticalScrollBar()
        bar.setPageStep(self.rows_in_sight)
        bar.setRange(0, max(0, len(self.rows) - self.rows_in_sight))

    def _mark_rows(self) -> None:
        assert self.view is not None
        lines = frozenset(self.view.lines)
        self.marked = tuple(at for at, row in enumerate(self.rows) if row.line in lines)

    def _target(self) -> int:
        """The last row of the line that writes the values; of the step's last line where none does so by name."""
        run = self._run(self.marked)
        writing = next((row for row in self._writing_rows() if row in run), run[-1])
        return max(row for row in run if self.rows[row].line == self.rows[writing].line)

    def _run(self, rows: tuple[int, ...]) -> tuple[int, ...]:
        """Of the places where a kernel does a step, the first that writes its values; of a pipelined one, the loop."""
        cuts = [0, *(n for n in range(1, len(rows)) if not self._are_one(rows[n - 1], rows[n])), len(rows)]
        runs = [rows[start:end] for start, end in pairwise(cuts)]
        writing = set(self._writing_rows())
        return next((run for run in runs if writing.intersection(run)), runs[0])

    def _are_one(self, row: int, later: int) -> bool:
        """Whether nothing stands between two rows but lines of the same step that do not run."""
        return all(self._step_of.get(self.rows[at].line) == self.step_at(row) for at in range(row, later))

    def _writing_rows(self) -> list[int]:
        """The marked rows on which the step writes its quantity; of several ways to do so the usual, last one first."""
        assert self.view is not None
        writes = re.compile(rf"\s*(?:{WRITES.get(self.view.quantity, f'{self.view.quantity} = ')})")
        return [at for at in reversed(self.marked) if self.rows[at].first and writes.match(self.rows[at].text)]

    @property
    def rows_in_sight(self) -> int:
        """How many whole rows the viewport shows."""
        return max(1, self.viewport().height() // self._height)

    def _bring_into_sight(self, rows: tuple[int, ...]) -> None:
        if not rows:
            return
        rows = self._run(rows)
        bar, room, count = self.verticalScrollBar(), self.rows_in_sight, rows[-1] - rows[0] + 1
        if count > room:  # its end, where the values are written, matters more than its beginning
            noted = rows[-1] if self.note_at is None or rows[-1] < self.note_at[0] else self.note_at[0]
            bar.setValue(min(rows[-1] - room + 1, max(rows[0], noted - CONTEXT_ROWS)))
            return
        margin = min(CONTEXT_ROWS, max(0, (room - count) // 2))
        if rows[0] - margin < bar.value() or rows[-1] + margin >= bar.value() + room:
            bar.setValue(rows[0] - max(margin, (room - count) // 3))

    def _picture(self, at: int) -> QPixmap:
        """The row's text with its colours on no ground; made once, since shaping is dear and copying is not."""
        found = self._pictures.get(self.rows[at])
        if found is not None:
            return found
        row = self.rows[at]
        layout = QTextLayout(row.text, self._font)
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.NoWrap)
        layout.setTextOption(option)
        assert self.view is not None
        shift = 0 if row.first else len(row.text) - len(row.text.lstrip()) - row.start
        formats = []
        for span in self._spans[row.line - self.view.source.first_line]:
            start, end = max(0, span.start + shift), min(len(row.text), span.end + shift)
            if end > start:
                part = QTextLayout.FormatRange()
                part.start, part.length, part.format = start, end - start, self._format(span.kind)
                formats.append(part)
        layout.setFormats(formats)
        layout.beginLayout()
        layout.createLine()
        layout.endLayout()
        ratio = self.viewport().devicePixelRatioF()
        width = (len(row.text) + 1) * self._advance
        picture = QPixmap(math.ceil(width * ratio), math.ceil(self._height * ratio))
        picture.setDevicePixelRatio(ratio)
        picture.fill(Qt.GlobalColor.transparent)
        with QPainter(picture) as painter:
            painter.setPen(QColor(self.theme.text))
            layout.draw(painter, QPointF(0, self.theme.px(1)))
        self._pictures[row] = picture
        return picture

    def _format(self, kind: str) -> QTextCharFormat:
        result, theme = QTextCharFormat(), self.theme
        if kind == "keyword":
            result.setForeground(QColor(theme.text))
            result.setFontWeight(QFont.Weight.Bold)
        else:
            result.setForeground(QColor(theme.muted) if kind == "comment" else theme.word(kind))
        return result

    def paintEvent(self, event: QPaintEvent) -> None:
        theme = self.theme
        with QPainter(self.viewport()) as painter:
            if self._ratio != self.viewport().devicePixelRatioF():  # the window has moved to another screen
                self._ratio = self.viewport().devicePixelRatioF()
                self._pictures.clear()
            painter.fillRect(event.rect(), QColor(theme.panel))
            if self.view is not None:
                first, last = (self.row_at(y) for y in (event.rect().top(), event.rect().bottom()))
                end = min(len(self.rows), self.verticalScrollBar().value() + self.rows_in_sight)
                for at in range(first or 0, end if last is None else min(end, last + 1)):
                    self._paint_row(painter, at)
                if self.hasFocus() and self._shows_choice:
                    self._paint_choice(painter)

    def _paint_row(self, painter: QPainter, at: int) -> None:
        assert self.view is not None
        row, rect, theme = self.rows[at], self.row_rect(at), self.theme
        if at in self.marked:
            painter.fillRect(rect, self.tint())
            painter.fillRect(QRect(0, rect.top(), theme.px(3), rect.height()), theme.color(self.view.quantity))
        elif self._hovered and self._step_of.get(row.line) == self._hovered:
            painter.fillRect(QRect(0, rect.top(), theme.px(3), rect.height()), QColor(theme.muted))
        painter.setFont(self._font)
        painter.setPen(QColor(theme.text if at in self.marked else theme.muted))
        if row.first:
            numbers = QRect(0, rect.top(), round(self._gutter - 2 * self._advance), rect.height())
            painter.drawText(numbers, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, str(row.line))
        if row.text:
            painter.drawPixmap(QPointF(self._gutter, rect.top()), self._picture(at))
        if self.note_at is not None and self.note_at[0] == at:
            self._paint_note(painter, rect)

    def _paint_note(self, painter: QPainter, rect: QRect) -> None:
        """The values, in a field of their own, so that nobody takes them for code."""
        assert self.view is not None and self.note_at is not None
        left, width = self.text_left(self.note_at[1]), len(self.view.note) * self._advance
        field = QRectF(left - self._advance, rect.top() + 1, width + 2 * self._advance, rect.height() - 2)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self.theme.panel))
        painter.drawRoundedRect(field, self.theme.px(4), self.theme.px(4))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(self.theme.word(self.view.quantity))
        painter.drawText(QPointF(left, rect.top() + self._ascent), self.view.note)

    def _paint_choice(self, painter: QPainter) -> None:
        rows = [at for at, row in enumerate(self.rows) if self._step_of.get(row.line) == self._chosen]
        if rows:
            painter.setPen(QPen(QColor(self.theme.accent), 1))
            around = self.row_rect(rows[0]).united(self.row_rect(rows[-1]))
            painter.drawRect(around.adjusted(self.theme.px(4), 0, -1, -1))

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._fit()
        self._bring_into_sight(self.marked)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip:
            step = self.step_at(self.row_at(event.pos().y()))  # pyright: ignore
            if step:
                QToolTip.showText(event.globalPos(), self.tip(step), self)  # pyright: ignore
            else:
                QToolTip.hideText()
            return True
        if event.type() == QEvent.Type.Leave:
            self._hover("")
        return super().viewportEvent(event)

    def tip(self, step: str) -> str:
        """What hovering says of a step's lines."""
        return f"{step}: {SENTENCES[step][1]}\nClick: go to where it runs next."

    def _hover(self, step: str) -> None:
        if step != self._hovered:
            self._hovered = step
            shape = Qt.CursorShape.PointingHandCursor if step else Qt.CursorShape.ArrowCursor
            self.viewport().setCursor(shape)
            self.viewport().update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._hover(self.step_at(self.row_at(round(event.position().y()))))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        step = self.step_at(self.row_at(round(event.position().y())))
        if event.button() == Qt.MouseButton.LeftButton and step:
            self.line_clicked.emit(step)

    def event(self, event: QEvent) -> bool:
        """Up, down and Enter belong to the source while it has the focus, even where the window has them as keys."""
        if event.type() == QEvent.Type.ShortcutOverride and event.key() in (*UP_DOWN, *ENTER):  # pyright: ignore
            event.accept()
            return True
        return super().event(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        self._chosen = self.view.step if self.view is not None else ""
        self._shows_choice = event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.viewport().update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self.view is None or event.key() not in (*UP_DOWN, *ENTER):
            super().keyPressEvent(event)
        elif event.key() in ENTER:
            self.line_clicked.emit(self._chosen or self.view.step)
        else:
            in_file = [step for step, lines in sorted(self.view.source.step_lines.items(), key=lambda x: x[1]) if lines]
            at = in_file.index(self._chosen or self.view.step)
            at += 1 if event.key() == Qt.Key.Key_Down else -1
            self._chosen = in_file[min(max(at, 0), len(in_file) - 1)]
            self._shows_choice = True
            self._bring_into_sight(
                tuple(at for at, row in enumerate(self.rows) if self._step_of.get(row.line) == self._chosen)
            )
            self.viewport().update()


class SourcePanel(Panel):
    """The source with the step's lines marked. `line_clicked` names the step of a line that a person chose."""

    name: ClassVar[str] = "source"
    title: ClassVar[str] = "Kernel source"
    line_clicked = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.text = SourceText(theme)
        self.text.line_clicked.connect(self.line_clicked)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.text)

    def draw(self, frame: Frame) -> None:
        assert frame.source is not None
        view = frame.source
        self.text.show_view(view)
        caption = view.source.path
        if view.note and self.text.note_at is None:
            caption = f"{view.note} · {caption}"
        if caption != self.caption_label.text():
            self.caption_label.setText(caption)

    def restyle(self) -> None:
        self.text.restyle(self.theme)
