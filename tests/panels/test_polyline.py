"""Paths made in one go are the paths that point by point calls make."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PySide6.QtGui import QPainterPath

from visualizer.panels.polyline import polyline

VALUES = st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf])


@given(hnp.arrays(np.float64, st.integers(0, 40), elements=VALUES))
def test_the_path_is_that_of_single_calls(y: np.ndarray) -> None:
    x = np.arange(len(y), dtype=np.float64)
    expected = QPainterPath()
    drawing = False
    for i in range(len(y)) if len(y) > 1 else ():
        if not math.isfinite(y[i]):
            drawing = False
        elif drawing:
            expected.lineTo(x[i], y[i])
        else:
            expected.moveTo(x[i], y[i])
            drawing = True
    made = polyline(x, y)
    elements = [(e.type, e.x, e.y) for e in (made.elementAt(i) for i in range(made.elementCount()))]
    wanted = [(e.type, e.x, e.y) for e in (expected.elementAt(i) for i in range(expected.elementCount()))]
    # two moves in a row are one for Qt when the first draws nothing
    assert [e for i, e in enumerate(elements) if not _is_idle(elements, i)] == [
        e for i, e in enumerate(wanted) if not _is_idle(wanted, i)
    ]


def _is_idle(elements: list, i: int) -> bool:
    move = QPainterPath.ElementType.MoveToElement
    return elements[i][0] == move and (i + 1 == len(elements) or elements[i + 1][0] == move)
