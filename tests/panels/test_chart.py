"""Curves in pixels: nothing that sticks out is lost."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PySide6.QtCore import QRectF
from PySide6.QtGui import QImage, QPainter

from visualizer import theme
from visualizer.limits import m_limits
from visualizer.panels.chart import (
    Axes,
    draw_grid,
    draw_line,
    draw_x_ticks,
    index_ticks,
    outline,
    range_ticks,
    tick_text,
    ticks,
)


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


FLOATS = st.floats(width=32) | st.sampled_from([3.4028235e38, -3.4028235e38, 1e-45, -1e-45, 1.2e-38])


def even(values: list[float]) -> bool:
    steps = np.diff(values)
    return len(steps) < 2 or bool(np.allclose(steps, steps[0], rtol=1e-6, atol=0))


@given(st.integers(0, 1 << 20), st.integers(0, 1 << 17), st.integers(1, 40))
def test_index_ticks_are_even_whole_and_few(first, span, most):
    values = index_ticks(first, first + span, most)
    assert 1 <= len(values) <= most
    assert even(values)
    assert all(v == int(v) and first <= v <= first + span for v in values)
    if span >= 2 * most > 2:
        assert len(values) >= most // 2


def test_index_ticks_of_blocks_begin_with_the_block():
    assert index_ticks(768, 895, 4) == [768, 800, 832, 864]
    assert index_ticks(0, 3, 3) == [0, 2]
    assert index_ticks(0, 3, 4) == [0, 1, 2, 3]
    assert index_ticks(5, 5, 4) == [5]


@given(FLOATS, FLOATS, st.integers(1, 12))
def test_range_ticks_are_even_and_within(a, b, most):
    if not np.isfinite([a, b]).all():
        return
    low, high = min(a, b), max(a, b)
    for make in (range_ticks, ticks):
        values = make(low, high, most)
        room = (high - low) * 1e-6
        assert even(values)
        assert all(low - room <= v <= high + room for v in values)
        assert all(tick_text(v) for v in values)


@given(st.floats(1, 200), arrays(np.float32, 5, elements=st.floats(-300, 300, width=32)))
def test_limits_of_m_have_0_and_both_ends_as_ticks(level, m):
    low, high = m_limits(level, m, m)
    values = range_ticks(low, high, 6)
    assert even(values)
    assert 0 in values
    assert 2 <= len(values) <= 6


@given(
    arrays(np.float32, st.integers(1, 700), elements=FLOATS),
    st.tuples(FLOATS, FLOATS).filter(lambda pair: bool(np.isfinite(pair).all())),
    st.integers(20, 300),
)
def test_any_float32_is_drawn_without_a_warning(qapp, y, limits, width):
    look = theme.DARK
    axes = Axes(QRectF(40, 5, width, 80), (0.0, float(len(y) - 1)), (min(limits), max(limits)))
    image = QImage(width + 50, 110, QImage.Format.Format_RGB32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        line = outline(axes, np.arange(len(y)), y)
        with QPainter(image) as painter:
            draw_grid(painter, axes, range_ticks(*axes.y, 5), look, look.code_font(10), labels=True)
            placed = draw_x_ticks(painter, axes, index_ticks(*axes.x, 30), look, look.code_font(10))
            draw_line(painter, line, look.word("m"), 1)
    assert np.isfinite(line.upper[~np.isnan(line.upper)]).all()
    assert np.nanmin([*line.upper, 0.0]) >= 0
    assert not any(a.intersects(b) for a, b in pairwise(placed))
    assert even([box.center().x() for box in placed])
    assert placed[0].left() >= 0 and (len(placed) == 1 or placed[-1].right() <= axes.rect.right() + look.px(4))
