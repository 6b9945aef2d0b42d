"""Curves in pixels: nothing that sticks out is lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PySide6.QtCore import QRectF

from visualizer.panels.chart import Axes, outline


@given(
    arrays(np.float64, st.integers(1, 3000), elements=st.floats(-10, 10) | st.just(np.nan) | st.just(-np.inf)),
    st.integers(20, 500),
)
def test_outlines_keep_every_extreme_and_stay_small(y, width):
    axes = Axes(QRectF(0, 0, width, 200), (0.0, float(max(1, len(y) - 1))), (-10.0, 10.0))
    line = outline(axes, np.arange(len(y)), y)
    known = y[np.isfinite(y)]
    assert line.path().elementCount() <= 4 * width + 2
    assert (np.diff(line.x) >= 0).all()
    if len(known):
        assert np.nanmin(line.upper) == pytest.approx(axes.to_y(known.max()))
        assert np.nanmax(line.lower) == pytest.approx(axes.to_y(known.min()))
        assert line.path().elementCount() or line.dots() or line.dense
    else:
        assert np.isnan(line.upper).all()
