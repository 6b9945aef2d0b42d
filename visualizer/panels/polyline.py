"""Many points as one painter path, without a call for each."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from PySide6.QtCore import QByteArray, QDataStream
from PySide6.QtGui import QPainterPath

_ELEMENT: Final = np.dtype([("kind", ">i4"), ("x", ">f8"), ("y", ">f8")])


def polyline(x: np.ndarray, y: np.ndarray) -> QPainterPath:
    """The line through the points (N,), broken where x or y is not finite; empty for fewer than two points.

    The path is read from Qt's own stream format: a count, then kind (0 moves there, 1 draws a line), x and y of each
    point, then the start of the open part and the fill rule.
    """
    path = QPainterPath()
    finite = np.isfinite(x) & np.isfinite(y)
    if len(x) < 2 or not finite.any():
        return path
    elements = np.empty(len(x), _ELEMENT)
    elements["x"], elements["y"] = x, y
    elements["kind"][0] = 0
    elements["kind"][1:] = finite[:-1]
    elements = elements[finite]
    stream = QDataStream(QByteArray(struct.pack(">i", len(elements)) + elements.tobytes() + struct.pack(">ii", 0, 0)))
    stream >> path  # pyright: ignore[reportUnusedExpression]
    return path
