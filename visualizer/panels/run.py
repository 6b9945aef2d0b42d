"""The kernel's run: the verdict, the times against the peers, the errors and where they are."""

from __future__ import annotations

from typing import ClassVar, Final

from PySide6.QtCore import QEvent, QObject, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QHelpEvent, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QToolTip, QVBoxLayout, QWidget

from kernel.results import RunResult
from kernel.tiling import Tiling
from visualizer.frame import Frame, RunView
from visualizer.panels.canvas import LEFT, RIGHT, Canvas, Sheet
from visualizer.panels.error_map import DECADES, ErrorMap, legend, picture
from visualizer.panels.panel import Panel
from visualizer.panels.run_figures import figures, measured, milliseconds, sci, spread
from visualizer.theme import Theme

INTERPRETED: Final = "interpreted on CPU: values are real, time is not"
INVITATION: Final = (
    "Run kernel to check what you step through here against the kernel that really runs.",
    "It runs kernel/forward.py on these inputs: on the GPU, or without one in Triton's interpreter.",
    "It compares O and L of every row with exact float64 attention, and with the mirror behind these panels.",
    "On a GPU it also times the kernel against cuDNN, FlashAttention and the original.",
)
ARROWS: Final = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
}
ENTER: Final = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class RunPanel(Panel):
    """Frame.run as one page, laid out for the space there is; a click in the error map goes to that program."""

    name: ClassVar[str] = "run"
    title: ClassVar[str] = "Kernel run"
    shows_empty: ClassVar[bool] = True

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.run = RunView()
        self.map: ErrorMap | None = None
        self._cell: tuple[int, int] | None = None
        self.canvas = Canvas(self._compose)
        self.canvas.setAccessibleName("Kernel run")
        self.canvas.setMouseTracking(True)
        self.canvas.installEventFilter(self)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.canvas)

    def draw(self, frame: Frame) -> None:
        if frame.run is self.run and self.canvas.sheet.texts:
            return
        self.run = frame.run
        self._show_verdict()
        self.canvas.refresh()
        self.canvas.setFocusPolicy(Qt.FocusPolicy.NoFocus if self._goal() is None else Qt.FocusPolicy.TabFocus)

    def restyle(self) -> None:
        self._show_verdict()
        self.canvas.refresh()

    def _show_verdict(self) -> None:
        run, theme = self.run, self.theme
        text, color = "", theme.muted
        if run.phase == "running":
            text = "running"
        elif run.phase in ("failed", "cancelled"):
            text, color = ("✗ failed", theme.bad) if run.phase == "failed" else ("cancelled", theme.muted)
        elif run.result is not None and run.stale:
            text = "of another problem"
        elif run.result is not None:
            text = "✓ matches reference" if run.result.ok else "✗ differs from reference"
            color = theme.good if run.result.ok else theme.bad
        self.caption_label.setText(text)
        self.caption_label.setStyleSheet(f"color: {color}; font-weight: 600;")

    def _compose(self, size: QSize) -> Sheet:
        sheet, run, area = Sheet(), self.run, QRect(0, 0, size.width(), size.height())
        self.map = None
        if run.phase == "running":
            self._running(sheet, area)
        elif run.phase in ("failed", "cancelled"):
            self._stopped(sheet, area)
        elif run.result is None:
            self._invite(sheet, area)
        elif area.width() >= self.theme.px(640):
            self._wide(sheet, area, run.result)
        else:
            self._narrow(sheet, area, run.result)
        return sheet

    def _invite(self, sheet: Sheet, area: QRect) -> None:
        theme, px = self.theme, self.theme.px
        used = sheet.wrapped(area, INVITATION[0], theme.ui_font(13), theme.text) + px(8)
        for sentence in INVITATION[1:]:
            rest = area.adjusted(0, used, 0, 0)
            used += sheet.wrapped(rest, sentence, theme.ui_font(12), theme.muted) + px(5)

    def _running(self, sheet: Sheet, area: QRect) -> None:
        theme, px, run = self.theme, self.theme.px, self.run
        used = sheet.wrapped(area, run.stage or "starting", theme.ui_font(13), theme.text) + px(8)
        track = QRectF(0, used, area.width(), px(6))
        sheet.box(track, theme.to_come)
        if run.fraction is not None:
            done = min(max(run.fraction, 0.0), 1.0)
            sheet.box(QRectF(0, used, area.width() * done, px(6)), theme.accent)
            percent = area.adjusted(0, used + px(10), 0, 0)
            percent.setHeight(px(18))
            sheet.text(percent, f"{done:.0%}", theme.code_font(12), theme.muted, RIGHT)
        rest = area.adjusted(0, used + px(10), -px(60), 0)
        sheet.wrapped(rest, "Cancel, above, stops it at once.", theme.ui_font(12), theme.muted)

    def _stopped(self, sheet: Sheet, area: QRect) -> None:
        theme, px, run = self.theme, self.theme.px, self.run
        failed = run.phase == "failed"
        message = run.message or ("The run failed." if failed else "The run was cancelled.")
        used = sheet.wrapped(area, message, theme.ui_font(13), theme.bad if failed else theme.text) + px(8)
        again = "Run kernel, above, tries again; the panels step on without it."
        sheet.wrapped(area.adjusted(0, used, 0, 0), again, theme.ui_font(12), theme.muted)

    def _narrow(self, sheet: Sheet, area: QRect, result: RunResult) -> None:
        """Below each other: bars, numbers as many as fit, and the map in what is left, at least as one line."""
        px = self.theme.px
        row = px(18)
        top = self._sentence(sheet, area, result) if not result.ok or area.height() > px(300) else 0
        top += self._bars(sheet, area.adjusted(0, top, 0, 0), result) + px(6)
        lines = figures(result)
        room = area.height() - top - row - px(4)
        count = max(0, min(len(lines), room // row))
        top += self._figures(sheet, area.adjusted(0, top, 0, 0), result, count)
        self._map(sheet, area.adjusted(0, top + px(2), 0, 0), result)

    def _wide(self, sheet: Sheet, area: QRect, result: RunResult) -> None:
        """Bars and numbers at the left, the map at the right."""
        px = self.theme.px
        left = QRect(0, 0, area.width() // 2 - px(12), area.height())
        top = self._sentence(sheet, left, result)
        top += self._bars(sheet, left.adjusted(0, top, 0, 0), result) + px(10)
        count = max(0, (area.height() - top) // px(18))
        self._figures(sheet, left.adjusted(0, top, 0, 0), result, count)
        self._map(sheet, area.adjusted(area.width() // 2 + px(12), 0, 0, 0), result)

    def _sentence(self, sheet: Sheet, area: QRect, result: RunResult) -> int:
        theme = self.theme
        color = theme.muted if self.run.stale else theme.text if result.ok else theme.bad
        return sheet.wrapped(area, result.sentence, theme.ui_font(12), color) + theme.px(6)

    def _bars(self, sheet: Sheet, area: QRect, result: RunResult) -> int:
        """The times; returns the height used."""
        theme, px = self.theme, self.theme.px
        if not result.timed_on_gpu:
            words = INTERPRETED
            if result.times and measured(result.times[0]):
                words = f"{milliseconds(result.times[0].ms)}, {INTERPRETED}"
            return sheet.wrapped(area, words, theme.ui_font(12), theme.muted)
        if not result.times:
            return 0
        small, row = theme.ui_font(12), px(18)
        names = max(QFontMetrics(small).horizontalAdvance(t.name) for t in result.times)
        names = min(names + px(12), area.width() * 2 // 5)
        value_width = px(44)
        track = QRectF(names, 0, max(px(20), area.width() - names - value_width), px(11))
        highest = max((spread(t)[1] for t in result.times if measured(t)), default=1.0)
        top = area.top()
        for at, timing in enumerate(result.times):
            ink = theme.muted if at or self.run.stale else theme.text
            sheet.text(QRect(area.left(), top, names - px(6), row), timing.name, small, ink)
            if measured(timing):
                y, scale = top + (row - track.height()) / 2, track.width() / highest
                left = area.left() + track.left()
                bar = theme.color("o") if at == 0 and not self.run.stale else QColor(theme.done)
                sheet.box(QRectF(left, y, timing.tflops * scale, track.height()), bar)
                self._whisker(sheet, [left + end * scale for end in spread(timing)], y + track.height() / 2)
                where = QRect(area.right() + 1 - value_width, top, value_width, row)
                digits = f"{timing.tflops:.0f}" if timing.tflops >= 99.5 else f"{timing.tflops:.3g}"
                sheet.text(where, digits, theme.code_font(12), ink, RIGHT)
            else:
                where = QRect(area.left() + names, top, area.width() - names, row)
                sheet.text(where, timing.note or "not measured", small, theme.muted)
            top += row
        unit = "TFLOP/s, median and spread"
        sheet.text(QRect(area.left(), top, area.width(), px(14)), unit, theme.ui_font(11), theme.muted, RIGHT)
        return top + px(14) - area.top()

    def _whisker(self, sheet: Sheet, ends: list[float], y: float) -> None:
        tick, ink = self.theme.px(3), self.theme.text
        sheet.line([QPointF(ends[0], y), QPointF(ends[1], y)], ink)
        for x in ends:
            sheet.line([QPointF(x, y - tick), QPointF(x, y + tick)], ink)

    def _figures(self, sheet: Sheet, area: QRect, result: RunResult, count: int) -> int:
        """The first `count` numbers, each in the fullest form that fits; returns the height used."""
        theme, row = self.theme, self.theme.px(18)
        small, code = theme.ui_font(12), theme.code_font(12)
        metrics, top = QFontMetrics(code), area.top()
        for line in figures(result)[:count]:
            name = sheet.text(QRect(area.left(), top, area.width(), row), line.name, small, theme.muted)
            room = area.width() - name.rect.width() - theme.px(12)
            fits = [form for form in line.forms if metrics.horizontalAdvance(form) <= room] or [line.forms[-1]]
            ink = theme.muted if self.run.stale else theme.bad if line.bad else theme.text
            sheet.text(QRect(area.right() + 1 - room, top, room, row), fits[0], code, ink, RIGHT)
            top += row
        return top - area.top()

    def _map(self, sheet: Sheet, area: QRect, result: RunResult) -> None:
        """The error map in area: as a line beside its name, or large with a legend where there is room."""
        theme, px = self.theme, self.theme.px
        heads, blocks = result.o_tiles.shape
        if heads == 0 or blocks == 0 or area.height() < px(12):
            return
        small = theme.ui_font(12)
        if area.height() < px(64):
            name = sheet.text(
                QRect(area.left(), area.top(), area.width(), px(18)), "O error by tile", small, theme.muted
            )
            left = name.rect.right() + px(14)
            rect = QRect(left, area.top() + px(3), area.right() + 1 - left, min(px(12) * heads, area.height() - px(4)))
        else:
            head = QRect(area.left(), area.top(), area.width(), px(18))
            sheet.text(head, "O error by tile", small, theme.text)
            sheet.text(head, f"{heads} heads × {blocks} blocks of rows", small, theme.muted, RIGHT)
            room = area.height() - px(22) - px(24)
            rect = QRect(area.left(), area.top() + px(22), area.width(), min(room, px(44) * heads))
            self._legend(sheet, QRect(area.left(), rect.bottom() + px(6), area.width(), px(18)), result)
        if rect.height() < 2 or rect.width() < 2:
            return
        self.map = ErrorMap(rect, heads, blocks)
        sheet.image(QRectF(rect), picture(result, (rect.width(), rect.height()), theme, self.run.stale))
        if rect.width() >= px(6) * blocks and rect.height() >= px(6) * heads:
            for block in range(1, blocks):
                x = self.map.cell(0, block).left()
                sheet.line([QPointF(x, rect.top()), QPointF(x, rect.bottom())], theme.panel)
            for h in range(1, heads):
                y = self.map.cell(h, 0).top()
                sheet.line([QPointF(rect.left(), y), QPointF(rect.right(), y)], theme.panel)
        if self._cell is not None and self.canvas.hasFocus():
            r = QRectF(self.map.cell(*self._cell))
            around = [r.topLeft(), r.topRight(), r.bottomRight(), r.bottomLeft(), r.topLeft()]
            sheet.line(around, theme.text, px(2))

    def _legend(self, sheet: Sheet, area: QRect, result: RunResult) -> None:
        theme, px = self.theme, self.theme.px
        code = theme.code_font(11)
        low, high = sci(result.o_bound / 10**DECADES), f"bound {sci(result.o_bound)}"
        metrics = QFontMetrics(code)
        ends = metrics.horizontalAdvance(low) + px(8), metrics.horizontalAdvance(high) + px(8)
        sheet.text(area, low, code, theme.muted, LEFT)
        strip = QRectF(area.left() + ends[0], area.top() + px(5), max(px(20), area.width() // 3), px(8))
        sheet.image(strip, legend(theme))
        after = area.adjusted(round(strip.right() - area.left()) + px(8), 0, 0, 0)
        shown = sheet.text(after, high, code, theme.muted, LEFT)
        key = QRectF(shown.rect.right() + px(14), strip.top(), px(8), px(8))
        sheet.box(key, theme.bad)
        rest = QRect(round(key.right()) + px(6), area.top(), area.right() - round(key.right()) - px(6), area.height())
        sheet.text(rest, "over it", theme.ui_font(11), theme.muted, LEFT)

    def _goal(self) -> Tiling | None:
        """The tiling that the map's cells belong to, when they can be gone to."""
        frame, result = self.frame, self.run.result
        if frame is None or result is None or self.run.stale or self.run.phase == "running":
            return None
        tiling = Tiling(frame.problem)
        shape = (frame.problem.num_heads, tiling.num_q_blocks)
        return tiling if result.o_tiles.shape == shape and 0 not in shape else None

    def tip(self, head: int, block: int) -> str:
        """What hovering says of one program."""
        result = self.run.result
        assert result is not None
        start = block * result.block_m
        end = min(start + result.block_m, result.lse.shape[1]) - 1
        o, lse = (float(tiles[head, block]) for tiles in (result.o_tiles, result.lse_tiles))
        text = (
            f"program {head * result.o_tiles.shape[1] + block + 1} · head {head} · rows {start} … {end}\n"
            f"O error {sci(o)} (bound {sci(result.o_bound)}) · lse error {sci(lse)}"
        )
        return text if self._goal() is None else f"{text}\nClick: go to its first step."

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Mouse and keys of the error map."""
        kind = event.type()
        if isinstance(event, QHelpEvent) and kind == QEvent.Type.ToolTip:
            cell = None if self.map is None else self.map.at(event.pos())
            QToolTip.showText(event.globalPos(), "" if cell is None else self.tip(*cell), self.canvas)
            return True
        if isinstance(event, QMouseEvent):
            cell = None if self.map is None else self.map.at(event.position().toPoint())
            hand = cell is not None and self._goal() is not None
            self.canvas.setCursor(Qt.CursorShape.PointingHandCursor if hand else Qt.CursorShape.ArrowCursor)
            if kind == QEvent.Type.MouseButtonPress and event.button() == Qt.MouseButton.LeftButton and cell:
                self._go(*cell)
        elif isinstance(event, QKeyEvent) and self.map is not None and event.key() in (*ARROWS, *ENTER):
            if kind == QEvent.Type.ShortcutOverride and not event.modifiers():
                event.accept()
                return True
            if kind == QEvent.Type.KeyPress:
                return self._key(Qt.Key(event.key()))
        elif kind in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self._cell = self._cell or (0, 0)
            self.canvas.refresh()
        return super().eventFilter(watched, event)

    def _key(self, key: Qt.Key) -> bool:
        assert self.map is not None
        head, block = self._cell or (0, 0)
        if key in ENTER:
            self._go(head, block)
        else:
            down, right = ARROWS[key]
            self._cell = (
                min(max(head + down, 0), self.map.heads - 1),
                min(max(block + right, 0), self.map.blocks - 1),
            )
            self.canvas.refresh()
        return True

    def _go(self, head: int, block: int) -> None:
        tiling = self._goal()
        if tiling is not None:
            self.change.emit({"step": tiling.program_start(head, block)})
