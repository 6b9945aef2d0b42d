"""One place of the chip's picture: what it holds now, and whether its drawing is still right."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from PySide6.QtCore import QRect
from PySide6.QtGui import QPixmap


@dataclass(slots=True)
class Slot:
    """One place: which quantity fills it, with which numbers (None: nothing held), and its drawing.

    shape: of the largest tile that comes here; filled: the part of rect that a ragged tile needs. uniform: the value,
    where all are the same 0, 1 or -inf; nans counts NaN; bare: some are -inf without a mask.
    """

    rect: QRect
    quantity: str = ""
    values: np.ndarray | None = None
    keep: np.ndarray | None = None
    levels: tuple[float, float] = (0.0, 1.0)
    shape: tuple[int, int] = (1, 1)
    fresh: bool = False
    filled: QRect = field(init=False)
    pixmap: QPixmap | None = field(default=None, repr=False)
    uniform: str = ""
    nans: int = 0
    bare: bool = False

    def __post_init__(self) -> None:
        self.filled = self.rect

    @property
    def held(self) -> bool:
        return self.values is not None and self.values.size > 0

    def fill(
        self,
        quantity: str,
        values: np.ndarray | None,
        keep: np.ndarray | None,
        levels: tuple[float, float],
        shape: tuple[int, int],
    ) -> None:
        """Takes what is to be shown; the drawing is kept while nothing of it has changed."""
        same = _same(self.values, values) and _same(self.keep, keep)
        if same and (self.quantity, self.levels, self.shape) == (quantity, levels, shape):
            return
        self.quantity, self.values, self.keep, self.levels, self.shape = quantity, values, keep, levels, shape
        self.pixmap, self.uniform, self.nans, self.bare, self.filled = None, "", 0, False, self.rect
        if values is None or not values.size:
            return
        if values.shape != shape:
            width = max(1, round(self.rect.width() * values.shape[1] / shape[1]))
            height = max(1, round(self.rect.height() * values.shape[0] / shape[0]))
            self.filled = QRect(self.rect.x(), self.rect.y(), width, height)
        if not np.isfinite(values).all():
            self.nans = int(np.isnan(values).sum())
            self.bare = keep is None and bool((values == -np.inf).any())
        first = values[0, 0]
        if first in (0, 1, -np.inf) and (values == first).all():
            self.uniform = {0: "0", 1: "1"}.get(first, "−∞")

    @property
    def note(self) -> str:
        """What stands beside the name: the shape, or how many of the numbers are NaN."""
        if self.values is None:
            return ""
        return f"{self.nans} NaN" if self.nans else f"{self.values.shape[0]}×{self.values.shape[1]}"


def _same(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    """Whether two arrays are the same cut (from the first row and column) of one array; the tape writes each once."""
    if a is None or b is None:
        return a is b
    return a is b or (a.shape == b.shape and a.base is not None and a.base is b.base)
