"""Code as rows that fit a width, and the colours of its parts: no widget here."""

from __future__ import annotations

import io
import keyword
import tokenize
from dataclasses import dataclass
from functools import cache
from typing import Final

from PySide6.QtGui import QColor

from visualizer.frame import QUANTITIES
from visualizer.theme import Theme

QUANTITY_NAMES: Final = frozenset({"q", "k", "v", "s", "p", "acc", "m", "m_new", "m_ref", "alpha", "l", "o", "lse"})
MIN_CONTRAST: Final = 4.5
MAX_TINT: Final = 16


@dataclass(frozen=True, slots=True)
class Row:
    """One row on screen: a source line, or a part of one that is too long; `start` is the part's first column."""

    line: int
    text: str
    start: int
    first: bool


@dataclass(frozen=True, slots=True)
class Span:
    """A coloured part of a line: columns start to end, and what stands there: a quantity, keyword, or comment."""

    start: int
    end: int
    kind: str


def spans(lines: tuple[str, ...]) -> list[list[Span]]:
    """The coloured parts of each line of Python; what it cannot read stays plain."""
    found: list[list[Span]] = [[] for _ in lines]
    text = "\n".join(lines) + "\n"
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            kind = _kind(token)
            if kind:
                (top, left), (bottom, right) = token.start, token.end
                for at in range(top, bottom + 1):
                    end = right if at == bottom else len(lines[at - 1])
                    found[at - 1].append(Span(left if at == top else 0, end, kind))
    except (tokenize.TokenError, SyntaxError):
        pass  # an unfinished text keeps the colours found so far
    return found


def _kind(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.COMMENT:
        return "comment"
    if token.type == tokenize.STRING and token.string.startswith(('"""', "'''")):
        return "comment"
    if token.type == tokenize.NAME and keyword.iskeyword(token.string):
        return "keyword"
    if token.type == tokenize.NAME and token.string in QUANTITY_NAMES:
        return {"m_new": "m", "m_ref": "m"}.get(token.string, token.string)
    return ""


def rows_of(lines: tuple[str, ...], first_line: int, columns: int) -> list[Row]:
    """The lines cut into rows of at most `columns`, after a comma or a space where there is one."""
    rows: list[Row] = []
    for number, line in enumerate(lines, first_line):
        indent = len(line) - len(line.lstrip())
        hang = min(indent + 4, columns // 2)
        start, first = 0, True
        while True:
            room = columns if first else columns - hang
            rest = line[start:]
            if len(rest) <= room:
                rows.append(Row(number, rest if first else " " * hang + rest, start, first))
                break
            cut = rest.rfind(" ", indent + 1 if first else 1, room + 1)
            cut = room if cut <= 0 else cut + 1
            rows.append(Row(number, (rest[:cut] if first else " " * hang + rest[:cut]).rstrip(), start, first))
            start, first = start + cut, False
    return rows


def contrast(a: QColor, b: QColor) -> float:
    """The contrast ratio of WCAG 2.2, 1 to 21."""
    light = []
    for color in (a, b):
        parts = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in color.getRgbF()[:3]]  # pyright: ignore
        light.append(0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05)
    return max(light) / min(light)


@cache
def tint(theme: Theme, quantity: str) -> QColor:
    """The panel's ground with as much of the quantity's colour as leaves all words at a contrast of MIN_CONTRAST."""
    ground, color = QColor(theme.panel), theme.color(quantity)
    words = [theme.word(name) for name in QUANTITIES]
    for percent in range(MAX_TINT, 0, -1):
        pairs = zip(ground.getRgb()[:3], color.getRgb()[:3], strict=True)  # pyright: ignore
        mixed = QColor(*(round(a + (b - a) * percent / 100) for a, b in pairs))
        if min(contrast(word, mixed) for word in words) >= MIN_CONTRAST:
            return mixed
    return ground
