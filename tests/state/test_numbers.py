"""Numbers as the window writes them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.numbers import duration, less, number, sci, span, three

VALUES = {
    0.0: "0", 1.0: "1", -17.0: "−17", 2259.0: "2,259", 2259.4: "2,259", 0.5: "0.5000", 10.65: "10.65",
    9.99996: "10.00", 123456.7: "123,457", 1.0534e21: "1.05e21", -1.0534e21: "−1.05e21", 0.001: "0.001000",
    3.214e-7: "3.21e-7", math.inf: "∞", -math.inf: "−∞",
}  # fmt: skip


@pytest.mark.parametrize(("x", "text"), VALUES.items())
def test_values_have_one_form(x: float, text: str) -> None:
    assert number(x) == number(np.float32(x)) == text


def test_what_is_no_number_says_so() -> None:
    assert number(math.nan) == sci(math.nan) == "NaN"


def test_more_digits_where_there_is_room() -> None:
    assert [number(x, 5) for x in (10.65, 10.534, 1.0534e21)] == ["10.650", "10.534", "1.053e21"]


@pytest.mark.parametrize(
    ("x", "text"),
    [(0.0, "0"), (math.inf, "∞"), (3.24e-4, "3.2e-4"), (0.3, "0.30"), (5.0, "5.0"), (512.0, "512"), (-0.3, "−0.30")],
)
def test_errors_have_two_digits(x: float, text: str) -> None:
    assert sci(x) == text


def test_measured_figures_have_three_digits() -> None:
    assert [three(x) for x in (0.0, 2.5, 8.75, 99.96, 1024.0)] == ["0", "2.50", "8.75", "100", "1,024"]


def test_the_sign_goes_into_the_difference() -> None:
    assert (less(2.0), less(-2.0), less(0.0)) == (" − 2", " + 2", " − 0")


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_the_text_is_short_and_near_the_number(x: float) -> None:
    text = number(x)
    assert float(text.replace(",", "").replace("−", "-")) == pytest.approx(x, rel=6e-3)
    assert len(text) <= 9 and "e+" not in text and "-" not in text.split("e")[0]


def test_one_row_is_no_range():
    assert span("row", 0, 1) == "row 0"
    assert span("row", 1024, 1152) == "rows 1,024 … 1,151"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (72, "72 s"),
        (100, "2 min"),
        (3600, "60 min"),
        (6000, "2 h"),
        (864_000, "10 days"),
        (1e8, "1,157 days"),
    ],
)
def test_times_that_are_waited_have_whole_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text
