"""Where the chip's tiles stand: as the equation, q left of s, k above s, v above acc, the row state between."""

from __future__ import annotations

import math
from typing import Final

from PySide6.QtCore import QRect

from visualizer.theme import Theme

COLUMNS: Final = ("m", "alpha", "l", "lse")
WIDEST_CELL: Final = 2.6


def lay_out(width: int, height: int, shape: tuple[int, int, int], theme: Theme) -> dict[str, QRect]:
    """Rectangles of q, k, v, matrix, acc, m, alpha, l and lse in a width x height area; shape: (rows, keys, head_dim).

    Long sides are given room by their square root, so that 16 keys beside 256 columns still can be seen. Above each
    rectangle `label_height` is left for its name.
    """
    rows, keys, dim = shape
    label, gap, marker = label_height(theme), theme.px(14), theme.px(12)
    edge = theme.px(4)
    free = max(40, height - 2 * label - theme.px(8) - 2 * edge)
    share = math.sqrt(max(keys, dim)) / (math.sqrt(max(keys, dim)) + math.sqrt(rows))
    top = int(free * min(0.42, max(0.26, share)))
    low = _whole(free - top, rows)
    wide = low / rows >= theme.px(12) and width >= theme.px(560)
    column, between = theme.px(46 if wide else 14), theme.px(6)
    columns = len(COLUMNS) * column + (len(COLUMNS) - 1) * between
    room = max(30, width - marker - columns - 3 * gap - 2 * edge)
    shares = [math.sqrt(n) for n in (dim, keys, dim)]
    least = min(theme.px(72), room // 3)
    w_keys = max(least, min(room - 2 * least, int(room * shares[1] / sum(shares))))
    w_dim = (room - w_keys) // 2
    widest = WIDEST_CELL * low / rows
    w_dim = _whole(max(least, min(w_dim, int(widest * dim))), dim)
    w_keys = _whole(max(least, min(w_keys, int(widest * keys))), keys)
    used = marker + w_dim * 2 + w_keys + columns + 3 * gap
    left = marker + max(edge, (width - used) // 2)
    above = label + edge + max(0, (free - top - low) // 2)
    below = above + top + theme.px(8) + label
    found = {"q": QRect(left, below, w_dim, low), "matrix": QRect(left + w_dim + gap, below, w_keys, low)}
    x = found["matrix"].x() + w_keys + gap
    for name in COLUMNS:
        found[name] = QRect(x, below, column, low)
        x += column + between
    found["acc"] = QRect(x - between + gap, below, w_dim, low)
    found["k"] = QRect(found["matrix"].x(), above, w_keys, top)
    found["v"] = QRect(found["acc"].x(), above, w_dim, top)
    return found


def label_height(theme: Theme) -> int:
    return theme.px(18)


def _whole(length: int, cells: int) -> int:
    """The length cut to whole pixels per cell, where cells are so large that this costs little."""
    size = length / cells
    return cells * int(size) if size >= 4 else length
