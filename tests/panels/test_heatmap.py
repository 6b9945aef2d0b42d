"""Tiles as pictures: shades by level, special values apart, no peak lost when cells are smaller than pixels."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PySide6.QtGui import QColor, QPixmap
from PySide6.QtWidgets import QApplication

from visualizer import theme
from visualizer.panels.heatmap import (
    LOUD,
    NAN,
    NEG_INF,
    POS_INF,
    SHADES,
    color_table,
    draw_tile,
    ink_on,
    short,
    thin_out,
)
from visualizer.panels.heatmap import to_index as index_of

LOOK = theme.theme("dark")


def colors(pixmap: QPixmap) -> np.ndarray:
    """(height, width) of 0xRRGGBB."""
    image = pixmap.toImage().convertToFormat(pixmap.toImage().Format.Format_RGB32)
    raw = np.frombuffer(image.constBits(), np.uint32).reshape(image.height(), image.bytesPerLine() // 4)
    return raw[:, : image.width()] & 0xFFFFFF


def table(quantity: str = "q") -> np.ndarray:
    return color_table(LOOK.signed_lut(quantity), LOOK)


def contrast(a: QColor, b: QColor) -> float:
    def light(c: QColor) -> float:
        parts = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in (c.redF(), c.greenF(), c.blueF())]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((light(a), light(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_levels_are_the_ends_and_values_beyond_stay_there():
    values = np.array([[-9, -2, 0, 2, 9]], np.float32)
    assert index_of(values, (-2.0, 2.0)).tolist() == [[0, 0, SHADES // 2, SHADES - 1, SHADES - 1]]


def test_values_that_are_no_numbers_have_entries_of_their_own():
    values = np.array([[np.nan, np.inf, -np.inf, 1]], np.float32)
    assert index_of(values, (0.0, 1.0)).tolist() == [[NAN, POS_INF, NEG_INF, SHADES - 1]]
    special = table()[[NAN, POS_INF, NEG_INF]] & 0xFFFFFF
    assert len(set(special.tolist())) == 3
    assert special[0] == QColor(LOUD).rgb() & 0xFFFFFF


@given(arrays(np.float32, st.tuples(st.integers(1, 40), st.integers(1, 40)), elements=st.floats(-8, 8, width=32)))
def test_shades_rise_with_values(values):
    index = index_of(values, (-8.0, 8.0)).ravel()
    order = np.argsort(values.ravel(), kind="stable")
    assert (np.diff(index[order].astype(int)) >= 0).all()
    assert index.max() < SHADES


@given(
    arrays(np.float32, st.tuples(st.integers(1, 70), st.integers(1, 70)), elements=st.floats(-100, 100, width=32)),
    st.integers(1, 30),
    st.integers(1, 30),
)
def test_thinning_keeps_the_largest_of_every_group(values, height, width):
    thin = thin_out(values, height, width)
    assert thin.shape[0] <= height
    assert thin.shape[1] <= width
    rows, cols = (-(-n // limit) for n, limit in zip(values.shape, (height, width), strict=True))
    for i in range(thin.shape[0]):
        for j in range(thin.shape[1]):
            group = values[i * rows : (i + 1) * rows, j * cols : (j + 1) * cols]
            assert abs(thin[i, j]) == np.abs(group).max()


def test_a_thinned_group_with_nan_is_nan():
    values = np.zeros((8, 8), np.float32)
    values[5, 2] = np.nan
    assert np.isnan(thin_out(values, 4, 4)).tolist()[2] == [False, True, False, False]


def test_each_cell_has_its_colour(qapp: QApplication):
    values = np.array([[-1, 0, 1], [1, 1, -1]], np.float32)
    drawn = colors(draw_tile(values, (-1.0, 1.0), table(), (30, 20), 1, LOOK))
    expected = table()[index_of(values, (-1.0, 1.0))] & 0xFFFFFF
    assert np.array_equal(drawn, np.kron(expected, np.ones((10, 10), np.uint32)))


@pytest.mark.parametrize("ratio", [1, 2])
def test_masked_cells_are_hatched_and_the_others_are_not(qapp: QApplication, ratio):
    values = np.full((4, 4), 0.5, np.float32)
    keep = np.tril(np.ones((4, 4), bool))
    drawn = colors(draw_tile(values, (0.0, 1.0), table(), (80 * ratio, 80 * ratio), ratio, LOOK, keep))
    plain = int(table()[index_of(values[:1, :1], (0.0, 1.0))[0, 0]]) & 0xFFFFFF
    size = 20 * ratio
    for i in range(4):
        for j in range(4):
            cell = drawn[i * size : (i + 1) * size, j * size : (j + 1) * size]
            if keep[i, j]:
                assert (cell == plain).all()
            else:
                # ground and lines: told apart without their hue
                assert {QColor(LOOK.skipped).rgb() & 0xFFFFFF, QColor(LOOK.muted).rgb() & 0xFFFFFF} <= set(
                    cell.ravel().tolist()
                )
                assert plain not in cell


def test_nan_and_minus_infinity_are_patterned(qapp: QApplication):
    values = np.array([[np.nan, -np.inf, 0]], np.float32)
    drawn = colors(draw_tile(values, (-1.0, 1.0), table(), (90, 30), 1, LOOK))
    found = [set(drawn[:, x : x + 30].ravel().tolist()) for x in (0, 30, 60)]
    assert found[0] == {QColor(LOUD).rgb() & 0xFFFFFF, 0}
    assert found[1] == {QColor(LOOK.panel).rgb() & 0xFFFFFF, QColor(LOOK.muted).rgb() & 0xFFFFFF}
    assert len(found[2]) == 1


@pytest.mark.parametrize("ratio", [1, 2])
def test_cells_with_room_hold_their_numbers(qapp: QApplication, ratio):
    theme.load_fonts()
    font = LOOK.code_font(10)
    values = np.array([[-1, 1, 0.25], [0, 0.25, 1]], np.float32)
    keep = np.array([[True, True, True], [False, True, True]])
    size = (120 * ratio, 40 * ratio)
    plain = colors(draw_tile(values, (-1.0, 1.0), table("m"), size, ratio, LOOK, keep))
    written = colors(draw_tile(values, (-1.0, 1.0), table("m"), size, ratio, LOOK, keep, font))
    changed = plain != written
    cells = [
        changed[i * 20 * ratio : (i + 1) * 20 * ratio, j * 40 * ratio : (j + 1) * 40 * ratio]
        for i in (0, 1)
        for j in range(3)
    ]
    assert [bool(cell.any()) for cell in cells] == [True, True, True, False, True, True]
    assert np.array_equal(cells[2], cells[4])
    assert not np.array_equal(cells[0], cells[2])
    inside = cells[2][2 * ratio : -2 * ratio, 2 * ratio : -2 * ratio]
    assert inside.sum() == cells[2].sum()
    ground = int(table("m")[index_of(values[:1, 1:2], (-1.0, 1.0))[0, 0]]) & 0xFFFFFF
    assert QColor.fromRgb(ground).lightness() > 100
    assert (written[: 20 * ratio, 40 * ratio : 80 * ratio] >> 16).min() < 80


@given(st.floats(width=32))
def test_numbers_fit_their_cells(x):
    text = short(x)
    assert len(text) <= 6
    if np.isfinite(x):
        assert float(text.replace("−", "-")) == pytest.approx(
            x, abs=0.005, rel=0.5 if abs(x) < 0.005 or abs(x) >= 9999 else 0.01
        )


@pytest.mark.parametrize("name", ["dark", "light"])
@pytest.mark.parametrize("quantity", ["q", "k", "v", "s", "acc", "m", "alpha", "l", "p"])
def test_numbers_in_cells_can_be_read_on_every_shade(name, quantity):
    look = theme.theme(name)
    lut = look.heat_lut() if quantity == "p" else look.signed_lut(quantity)
    for color in color_table(lut, look)[:SHADES]:
        assert contrast(ink_on(int(color)), QColor.fromRgb(int(color))) >= 4.5


FLOAT32 = st.floats(width=32) | st.sampled_from(
    [float(np.float32(x)) for x in (3.4028235e38, -3.4028235e38, 1e-45, 1.2e-38)]
)


@given(arrays(np.float32, (3, 5), elements=FLOAT32), FLOAT32, FLOAT32)
@example(np.full((3, 5), 3.4028235e38, np.float32), 3.4028235e38, 3.4028235e38)
def test_any_float32_has_its_shade_without_a_warning(values, a, b):
    if not np.isfinite([a, b]).all():
        return
    low, high = min(a, b), max(a, b)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index = index_of(values, (low, high))
    finite = np.isfinite(values)
    assert (index[finite] < SHADES).all()
    assert (index[np.isnan(values)] == NAN).all()
    if high > low:
        assert (index[finite & (values <= low)] == 0).all()
        assert (index[finite & (values >= high)] == SHADES - 1).all()
    order = np.argsort(values[finite])
    assert (np.diff(index[finite][order].astype(int)) >= 0).all()
