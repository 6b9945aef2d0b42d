"""The run panel's page: a RunView laid out for the space there is."""

from __future__ import annotations

from typing import Final

import numpy as np
from PySide6.QtCore import QPointF, QRect, QRectF, QSize
from PySide6.QtGui import QColor, QFontMetrics

from kernel.results import RunResult
from visualizer.frame import RunView
from visualizer.numbers import sci, three
from visualizer.panels.canvas import LEFT, RIGHT, Sheet, wrap
from visualizer.panels.error_map import DECADES, ErrorMap, legend, picture
from visualizer.panels.run_figures import figures, measured, milliseconds, spread
from visualizer.panels.run_saved import draw_saved, whisker
from visualizer.theme import Theme

MAX_COMPACT: Final = 4
MAX_FRAMES: Final = 64
USUAL: Final = ("worker ready", "worker not started", "worker starting")
INTERPRETED: Final = "interpreted on CPU: values are real, time is not"
INVITATIONS: Final = (
    "Run kernel to check what you step through here against the kernel that really runs.",
    "Run kernel to check this against the real one.",
    "Run kernel to check these numbers.",
)
MORE: Final = (
    "It runs the kernel on these inputs: on the GPU, or without one in Triton's interpreter.",
    "It compares O and L of every row with exact float64 attention, and with the mirror behind these panels.",
    "On a GPU it also times the kernel against cuDNN, FlashAttention and the original.",
)


class Page:
    """What `run` looks like in `size`: the sheet, and where its error maps are. `cell`: the program chosen by keys."""

    def __init__(self, run: RunView, theme: Theme, size: QSize, cell: tuple[int, int] | None = None) -> None:
        self.run = run
        self.theme = theme
        self.sheet = Sheet()
        self.maps: list[ErrorMap] = []
        self._cell = cell
        area = QRect(0, 0, size.width(), size.height())
        if run.saved is not None:
            draw_saved(self.sheet, area, run.saved, theme)
        elif run.phase == "running":
            self._running(area)
        elif run.phase in ("failed", "cancelled"):
            self._stopped(area)
        elif run.result is None:
            self._invite(area)
        elif area.width() >= theme.px(640):
            self._wide(area, run.result)
        else:
            self._narrow(area, run.result)

    def _invite(self, area: QRect) -> None:
        """What a run will do, and why it cannot."""
        theme, px = self.theme, self.theme.px
        font = theme.ui_font(13)
        metrics = QFontMetrics(font)
        fits = (i for i in INVITATIONS if len(wrap(i, metrics, area.width())) * metrics.height() <= area.height() + 2)
        used = self.sheet.wrapped(area, next(fits, INVITATIONS[-1]), font, theme.text) + px(8)
        sentences = [(sentence, theme.muted) for sentence in MORE]
        if self.run.worker and not self.run.worker.startswith(USUAL):
            sentences.insert(0, (self.run.worker[:1].upper() + self.run.worker[1:].rstrip(".") + ".", theme.text))
        self._sentences(area, used, sentences)

    def _sentences(self, area: QRect, used: int, sentences: list[tuple[str, str]]) -> None:
        """As many of the sentences as have room below what is used."""
        small, px = self.theme.ui_font(12), self.theme.px
        metrics = QFontMetrics(small)
        for sentence, ink in sentences:
            if used + len(wrap(sentence, metrics, area.width())) * metrics.height() > area.height():
                break
            used += self.sheet.wrapped(area.adjusted(0, used, 0, 0), sentence, small, ink) + px(5)

    def _running(self, area: QRect) -> None:
        theme, px, run = self.theme, self.theme.px, self.run
        used = self.sheet.wrapped(area, run.stage or "starting", theme.ui_font(13), theme.text) + px(8)
        track = QRectF(0, used, area.width(), px(6))
        self.sheet.box(track, theme.to_come)
        if run.fraction is not None:
            done = min(max(run.fraction, 0.0), 1.0)
            self.sheet.box(QRectF(0, used, area.width() * done, px(6)), theme.accent)
            percent = area.adjusted(0, used + px(10), 0, 0)
            percent.setHeight(px(18))
            self.sheet.text(percent, f"{done:.0%}", theme.code_font(12), theme.muted, RIGHT)
        rest = area.adjusted(0, used + px(10), -px(60), 0)
        used += px(26) + self.sheet.wrapped(rest, "Press Cancel to stop it at once.", theme.ui_font(12), theme.muted)
        self._sentences(area, used, [(sentence, theme.muted) for sentence in MORE])

    def _stopped(self, area: QRect) -> None:
        theme, px, run = self.theme, self.theme.px, self.run
        failed = run.phase == "failed"
        message = run.message or ("The run failed." if failed else "The run was cancelled.")
        used = self.sheet.wrapped(area, message, theme.ui_font(13), theme.bad if failed else theme.text) + px(8)
        again = "Press Run kernel to try again; the panels step on without it."
        self.sheet.wrapped(area.adjusted(0, used, 0, 0), again, theme.ui_font(12), theme.muted)

    def _narrow(self, area: QRect, result: RunResult) -> None:
        """Below each other: bars, numbers as many as fit, and the map in what is left, at least as one line."""
        px, row = self.theme.px, self.theme.px(18)
        top = self._sentence(area, result) if not result.ok or area.height() > px(280) else 0
        top += self._bars(area.adjusted(0, top, 0, 0), result, row) + px(6)
        one_line = 0
        if 0 not in result.o_tiles.shape:
            one_line = max(row + px(4), min(px(7) * len(result.o_tiles), area.height() // 4)) + self._legend_height()
        top += self._figures(area.adjusted(0, top, 0, -one_line), result, row)
        self._map(area.adjusted(0, top + px(2), 0, 0), result, "O")

    def _wide(self, area: QRect, result: RunResult) -> None:
        """Bars and numbers at the left, the maps of O's and L's errors at the right."""
        px = self.theme.px
        row = px(24) if area.height() >= px(420) else px(18)
        left = QRect(0, 0, area.width() // 2 - px(12), area.height())
        right = area.adjusted(area.width() // 2 + px(12), 0, 0, 0)
        top = self._sentence(left, result)
        top += self._bars(left.adjusted(0, top, 0, 0), result, row) + px(10)
        self._figures(left.adjusted(0, top, 0, 0), result, row)
        if area.height() < px(300):
            self._map(right, result, "O")
        else:
            half = right.height() // 2
            used = self._map(right.adjusted(0, 0, 0, -half - px(8)), result, "O")
            self._map(right.adjusted(0, used + px(16), 0, 0), result, "L")

    def _sentence(self, area: QRect, result: RunResult) -> int:
        theme = self.theme
        color = theme.muted if self.run.stale else theme.text if result.ok else theme.bad
        return self.sheet.wrapped(area, result.sentence, theme.ui_font(12), color) + theme.px(6)

    def _bars(self, area: QRect, result: RunResult, row: int) -> int:
        """The times; returns the height used."""
        theme, px = self.theme, self.theme.px
        if result.backend == "own":
            return 0
        if not result.timed_on_gpu:
            words = INTERPRETED
            if result.times and measured(result.times[0]):
                words = f"{milliseconds(result.times[0].ms)}, {INTERPRETED}"
            return self.sheet.wrapped(area, words, theme.ui_font(12), theme.muted)
        if not result.times:
            return 0
        times, left_out = result.times, ""
        most = min(MAX_COMPACT, (area.height() - px(14)) // row) if area.height() < px(280) else len(times)
        if len(times) > most:
            times = tuple(t for t in times if measured(t))[: max(1, most)]
            left_out = f" · {len(result.times) - len(times)} more in a larger panel"
        small = theme.ui_font(12)
        names = max((QFontMetrics(small).horizontalAdvance(t.name) for t in times), default=0)
        names, value_width = min(names + px(12), area.width() // 2), px(44)
        track, thick = max(px(20), area.width() - names - value_width), row * 0.6
        scale = track / max((spread(t)[1] for t in times if measured(t)), default=1.0)
        top, left = area.top(), area.left() + names
        for at, timing in enumerate(times):
            ink = theme.muted if at or self.run.stale else theme.text
            self.sheet.text(QRect(area.left(), top, names - px(6), row), timing.name, small, ink)
            if measured(timing):
                bar = theme.color("o") if at == 0 and not self.run.stale else QColor(theme.done)
                self.sheet.box(QRectF(left, top + (row - thick) / 2, timing.tflops * scale, thick), bar)
                whisker(self.sheet, theme, [left + end * scale for end in spread(timing)], top + row / 2)
                where = QRect(area.right() + 1 - value_width, top, value_width, row)
                self.sheet.text(where, three(timing.tflops), theme.code_font(12), ink, RIGHT)
            else:
                where = QRect(left, top, area.width() - names, row)
                self.sheet.text(where, timing.note or "not measured", small, theme.muted)
            top += row
        metrics = QFontMetrics(theme.ui_font(11))
        units = (f"TFLOP/s, median and spread{left_out}", f"TFLOP/s{left_out}")
        unit = next((u for u in units if metrics.horizontalAdvance(u) <= area.width()), "TFLOP/s")
        self.sheet.text(QRect(area.left(), top, area.width(), px(14)), unit, theme.ui_font(11), theme.muted, RIGHT)
        return top + px(14) - area.top()

    def _figures(self, area: QRect, result: RunResult, row: int) -> int:
        """The numbers that area has rows for, each in the fullest form that fits; returns the height used."""
        theme = self.theme
        small, code = theme.ui_font(12), theme.code_font(12)
        metrics, top = QFontMetrics(code), area.top()
        for line in figures(result)[: max(0, area.height() // row)]:
            name = self.sheet.text(QRect(area.left(), top, area.width(), row), line.name, small, theme.muted)
            room = area.width() - name.rect.width() - theme.px(12)
            fits = [form for form in line.forms if metrics.horizontalAdvance(form) <= room] or [line.forms[-1]]
            ink = theme.muted if self.run.stale else theme.bad if line.bad else theme.text
            self.sheet.text(QRect(area.right() + 1 - room, top, room, row), fits[0], code, ink, RIGHT)
            top += row
        return top - area.top()

    def _map(self, area: QRect, result: RunResult, name: str) -> int:
        """The errors of O or L by program: as a line beside its name, or large with a legend where there is room.

        Returns the height used.
        """
        theme, px = self.theme, self.theme.px
        tiles, bound = (result.o_tiles, result.o_bound) if name == "O" else (result.lse_tiles, result.lse_bound)
        heads, blocks = tiles.shape
        if heads == 0 or blocks == 0 or area.height() < px(12):
            return 0
        small, title = theme.ui_font(12), f"{name} error by tile"
        if area.height() < px(72):
            shown = self.sheet.text(QRect(area.left(), area.top(), area.width(), px(18)), title, small, theme.muted)
            left, room = shown.rect.right() + px(14), area.height() - px(6)
            under = self._legend_height() if room >= px(12) + self._legend_height() else 0
            rect = QRect(left, area.top() + px(3), area.right() + 1 - left, min(px(12) * heads, room - under))
            below = QRect(area.left(), rect.bottom() + px(3), area.width(), under)
        else:
            head = QRect(area.left(), area.top(), area.width(), px(18))
            self.sheet.text(head, title, small, theme.text)
            words = f"{heads:,} {'head' if heads == 1 else 'heads'} × {blocks:,} blocks of rows"
            self.sheet.text(head, words, small, theme.muted, RIGHT)
            height = min(area.height() - px(22 + 24), px(100) * heads)
            rect = QRect(area.left(), area.top() + px(22), area.width(), height)
            below = QRect(area.left(), rect.bottom() + px(6), area.width(), self._legend_height())
        if rect.height() < 2 or rect.width() < 2:
            return 0
        found = ErrorMap(name, rect, heads, blocks)
        self.maps.append(found)
        self.sheet.image(
            QRectF(rect), picture(tiles, bound, DECADES[name], (rect.width(), rect.height()), theme, self.run.stale)
        )
        if rect.width() >= px(6) * blocks and rect.height() >= px(6) * heads:
            for block in range(1, blocks):
                x = found.cell(0, block).left()
                self.sheet.line([QPointF(x, rect.top()), QPointF(x, rect.bottom())], theme.panel)
            for h in range(1, heads):
                y = found.cell(h, 0).top()
                self.sheet.line([QPointF(rect.left(), y), QPointF(rect.right(), y)], theme.panel)
        for head, block in np.argwhere(tiles > bound)[:MAX_FRAMES]:
            self._frame(found.cell(int(head), int(block)))
        if self._cell is not None and name == "O":
            self._frame(found.cell(*self._cell))
        if below.height():
            self._legend(below, bound, DECADES[name], bool(np.isnan(tiles).any()))
        return rect.bottom() + px(24) - area.top()

    def _frame(self, cell: QRect) -> None:
        """A frame around a program, so that not its hue alone says that it is beyond the bound, or chosen."""
        r = QRectF(cell).adjusted(1, 1, -1, -1)
        around = [r.topLeft(), r.topRight(), r.bottomRight(), r.bottomLeft(), r.topLeft()]
        self.sheet.line(around, self.theme.text, self.theme.px(2))

    def _legend_height(self) -> int:
        """The colours of another problem's errors mean nothing here."""
        return 0 if self.run.stale else self.theme.px(18)

    def _legend(self, area: QRect, bound: float, decades: int, some_unchecked: bool) -> None:
        theme, px = self.theme, self.theme.px
        code = theme.code_font(11)
        low, high = sci(bound / 10**decades), f"bound {sci(bound)}"
        metrics = QFontMetrics(code)
        ends = metrics.horizontalAdvance(low) + px(8), metrics.horizontalAdvance(high) + px(8)
        self.sheet.text(area, low, code, theme.muted, LEFT)
        strip = QRectF(area.left() + ends[0], area.top() + px(5), max(px(20), area.width() // 3), px(8))
        self.sheet.image(strip, legend(theme))
        after = area.adjusted(round(strip.right() - area.left()) + px(8), 0, 0, 0)
        shown = self.sheet.text(after, high, code, theme.muted, LEFT)
        left = shown.rect.right() + px(14)
        kinds = ((theme.bad, "over it"), (theme.skipped, "not checked"))
        for color, word in kinds if some_unchecked else kinds[:1]:
            self.sheet.box(QRectF(left, strip.top(), px(8), px(8)), color)
            rest = QRect(left + px(13), area.top(), area.right() - left - px(13), area.height())
            left = self.sheet.text(rest, word, theme.ui_font(11), theme.muted, LEFT).rect.right() + px(12)
