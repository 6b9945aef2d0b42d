"""The words and numbers around the lse panel's plots: a legend that reads out one row, and the figures that sum up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from PySide6.QtCore import QRectF
from PySide6.QtGui import QFontMetrics

from visualizer.frame import LseView
from visualizer.numbers import number, sci
from visualizer.theme import Theme

PLOTS: Final = 96  # what the plots and their ticks need at least
NAMES: Final = ("kernel", "mirror", "exact")


@dataclass(frozen=True, slots=True)
class Label:
    """A text and its place; kind is "word", "number", "muted" (a quiet number), or "sample" (text names the series)."""

    rect: QRectF
    text: str
    kind: str


def figures(view: LseView) -> list[tuple[str, str]]:
    """What stands below the plots: (what, value)."""
    stored = ("rows stepped", f"{view.stored_rows:,} of {view.num_rows:,}")
    if view.kernel is None:
        return [("max |mirror − exact|", _error(view.max_mirror_exact)), ("kernel", "not run"), stored]
    return [
        ("max |kernel − exact|", _error(view.max_kernel_exact)),
        ("max |kernel − mirror|", _error(view.max_kernel_mirror)),
        stored,
    ]


def readout(view: LseView, row: int, digits: int = 5) -> list[tuple[str, str]]:
    """(series, its value at the row) for each series that is there; "–" where the value is not known."""
    at = int(np.searchsorted(view.exact_rows, row))
    known = at < len(view.exact_rows) and view.exact_rows[at] == row
    values = [("mirror", float(view.mirror[row])), ("exact", float(view.exact[at]) if known else np.nan)]
    if view.kernel is not None:
        values.insert(0, ("kernel", float(view.kernel[row])))
    return [(name, _value(x, digits)) for name, x in values]


class Texts:
    """Sets labels in a theme's fonts; widths are measured once."""

    def __init__(self, theme: Theme) -> None:
        self.theme = theme
        self.words, self.numbers = theme.ui_font(11), theme.code_font(11.5)
        self._word_metrics, self._number_metrics = QFontMetrics(self.words), QFontMetrics(self.numbers)
        self._widths: dict[tuple[str, bool], int] = {}

    def legend(self, view: LseView, row: int, width: int) -> list[Label]:
        """One line: the row, then each series with its value; shorter wordings where the line is too narrow."""
        for digits, name_row in ((5, True), (5, False), (4, False), (0, False)):
            labels = self._line(readout(view, row, digits), f"row {row:,}" if name_row else "", digits > 0)
            if not labels or labels[-1].rect.right() <= width:
                break
        return labels

    def _line(self, items: list[tuple[str, str]], row: str, values: bool) -> list[Label]:
        px = self.theme.px
        x, high = 0, px(15)
        labels: list[Label] = []

        def put(text: str, kind: str, width: int, gap: int) -> None:
            nonlocal x
            labels.append(Label(QRectF(x, 0, width, high), text, kind))
            x += width + gap

        if row:
            put(row, "muted", self.width(row, False), px(12))
        for name, value in items:
            put(name, "sample", px(16), px(4))
            put(name, "word", self.width(name, True), px(5 if values else 12))
            if values:
                put(value, "number", self.width(value, False), px(12))
        return labels

    def figures(self, view: LseView, width: int, height: int) -> list[Label]:
        """At the bottom of a width x height area: three columns, or one line each where those are too narrow.

        Of the lines only the first so many stay that leave the plots their room.
        """
        items, px = figures(view), self.theme.px
        high, third = px(16), width / len(items)
        widest = max(max(self.width(name, True), self.width(value, False)) for name, value in items)
        labels = []
        if widest + px(8) > third:
            items = items[: max(0, (height - px(PLOTS)) // high)]
        for i, (name, value) in enumerate(items):
            if widest + px(8) <= third:
                place = QRectF(i * third, height - 2 * high, self.width(name, True), high)
                below = QRectF(i * third, height - high, self.width(value, False), high)
            else:
                y = height - (len(items) - i) * high
                place = QRectF(0, y, self.width(name, True), high)
                right = self.width(value, False)
                below = QRectF(width - right, y, right, high)
            labels += [Label(place, name, "word"), Label(below, value, "number")]
        return labels

    def width(self, text: str, word: bool) -> int:
        """Pixels that a text takes."""
        key = (text, word)
        if key not in self._widths:
            if len(self._widths) > 4096:
                self._widths.clear()
            metrics = self._word_metrics if word else self._number_metrics
            self._widths[key] = metrics.horizontalAdvance(text) + 1
        return self._widths[key]


def _error(x: float | None) -> str:
    return "–" if x is None else sci(x)


def _value(x: float, digits: int) -> str:
    return "–" if x != x else number(x, max(digits, 2))
