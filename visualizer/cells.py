"""Single scores of any tile, for the map at its deepest zoom: computed for the few cells in view."""

from __future__ import annotations

import numpy as np

from kernel.problem import Problem
from visualizer.frame import TilesView
from visualizer.numbers import MINUS, number


def scores(p: Problem, view: TilesView, rows: range, keys: range) -> tuple[np.ndarray, np.ndarray]:
    """s = q·kᵀ of these rows and keys, (rows, keys) float32 with the sign of the scale, and (rows, keys) bool: seen."""
    q, k = (x.astype(np.float32) for x in (view.q[rows.start : rows.stop], view.k[keys.start : keys.stop]))
    with np.errstate(invalid="ignore", over="ignore"):
        s = (q * np.float32(np.sign(p.scale))) @ k.T
    keep = np.ones(s.shape, bool)
    if p.causal:
        keep = np.arange(keys.start, keys.stop) <= np.arange(rows.start, rows.stop)[:, None] + p.offset
    return s, keep


def cell_words(p: Problem, view: TilesView, row: int, key: int) -> str:
    """What the tooltip says of one score."""
    s, keep = scores(p, view, range(row, row + 1), range(key, key + 1))
    if not keep[0, 0]:
        return f"s[{row}, {key}] = {MINUS}∞: row {row:,} does not see key {key:,}, which comes after it"
    return f"s[{row}, {key}] = q[{row}]·k[{key}] = {number(s[0, 0])}"
