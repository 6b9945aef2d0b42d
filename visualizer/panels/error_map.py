"""The errors of all programs as one picture: heads down, blocks of rows across, logarithmic, against the bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from PySide6.QtCore import QPoint, QRect
from PySide6.QtGui import QColor, QImage

from visualizer.theme import Theme

DECADES: Final = {"O": 3, "L": 6}


@dataclass(frozen=True, slots=True)
class ErrorMap:
    """Where the picture stands, and what it shows: (num_heads, num_q_blocks) programs."""

    name: str
    rect: QRect
    heads: int
    blocks: int

    def at(self, point: QPoint) -> tuple[int, int] | None:
        """(head, block) under a point."""
        if not self.rect.contains(point):
            return None
        return (
            (point.y() - self.rect.top()) * self.heads // self.rect.height(),
            (point.x() - self.rect.left()) * self.blocks // self.rect.width(),
        )

    def cell(self, head: int, block: int) -> QRect:
        """The rectangle of one program, at least one pixel."""
        r = self.rect
        left, right = (r.left() + n * r.width() // self.blocks for n in (block, block + 1))
        top, bottom = (r.top() + n * r.height() // self.heads for n in (head, head + 1))
        return QRect(left, top, max(1, right - left), max(1, bottom - top))


def picture(tiles: np.ndarray, bound: float, decades: int, size: tuple[int, int], theme: Theme, grey: bool) -> QImage:
    """Errors (num_heads, num_q_blocks) as colours, at most one pixel each of size (width, height).

    Viridis spans `decades` powers of ten below the bound, the theme's `bad` is beyond it, `skipped` was not checked
    (NaN). Cells that share a pixel show their largest error.
    """
    errors = shrink(tiles, size[1], size[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        at = 1 + (np.log10(errors) - np.log10(bound)) / decades
    at = np.clip(np.nan_to_num(at, nan=0.0, posinf=1.0, neginf=0.0), 0, 1)
    rgb = theme.heat_lut()[(at * 255).astype(np.uint8)]
    for where, name in ((errors > bound, theme.bad), (np.isnan(errors), theme.skipped)):
        color = QColor(name)
        rgb[where] = (color.red(), color.green(), color.blue())
    if grey:
        rgb = np.repeat(rgb.mean(axis=-1, keepdims=True) * 0.5 + 64, 3, axis=-1).astype(np.uint8)
    rgb = np.ascontiguousarray(rgb)
    height, width = rgb.shape[:2]
    return QImage(rgb.data, width, height, 3 * width, QImage.Format.Format_RGB888).copy()


def legend(theme: Theme) -> QImage:
    """Viridis as a strip of 256 x 1."""
    lut = np.ascontiguousarray(theme.heat_lut())
    return QImage(lut.data, 256, 1, 768, QImage.Format.Format_RGB888).copy()


def shrink(array: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """(R, C) to at most (rows, cols), by the maximum of what is not NaN."""
    for axis, room in ((0, max(1, rows)), (1, max(1, cols))):
        if array.shape[axis] > room:
            array = np.fmax.reduceat(array, np.arange(room) * array.shape[axis] // room, axis=axis)
    return array
