"""Round limits for axes and colours, so that they seldom move."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np


def one_two_five(x: float) -> float:
    """x rounded up to 1, 2 or 5 times a power of ten; 0 gives 1e-7, about float32's resolution."""
    if x <= 0:
        return 1e-7
    power = 10.0 ** math.floor(math.log10(x))
    return next((f * power for f in (1, 2, 5) if x <= f * power * (1 + 1e-9)), 10 * power)


def outwards(arrays: Iterable[np.ndarray]) -> tuple[float, float] | None:
    """Round numbers around all finite values; None where there are none."""
    ends = [(float(x.min()), float(x.max())) for x in (a[np.isfinite(a)] for a in arrays) if x.size]
    if not ends:
        return None
    low, high = min(e[0] for e in ends), max(e[1] for e in ends)
    step = max(one_two_five((high - low) / 10), 0.1)
    return math.floor(low / step) * step, (math.floor(high / step) + 1) * step


def m_limits(level: float, now: np.ndarray, before: np.ndarray) -> tuple[float, float]:
    """Limits for m: the head's level rounded up, and as much below 0 as m has been; wider where m goes beyond."""
    top = max(round_up(level), power_of_two(now))
    low = min(smallest(now), smallest(before))
    return (0.0 if low >= 0 else -top / 2 if low >= -top / 2 else -max(top, round_up(-low))), top


def symmetric(array: np.ndarray | None) -> tuple[float, float]:
    top = power_of_two(None if array is None else np.abs(array))
    return -top, top


def typical(array: np.ndarray | None) -> tuple[float, float]:
    """Colour limits of three times the root mean square of the finite values, rounded up so that they seldom change."""
    finite = np.zeros(1) if array is None else array if np.isfinite(array).all() else array[np.isfinite(array)]
    with np.errstate(over="ignore"):
        size = 3 * math.sqrt(float(np.square(finite).mean())) if finite.size else 0.0
    top = round_up(size) if math.isfinite(size) else symmetric(array)[1]
    return -top, top


def power_of_two(array: np.ndarray | None) -> float:
    """The power of two at or above the largest finite value, so that colours do not flicker from step to step."""
    if array is None:
        return 1.0
    finite = array[np.isfinite(array)]
    top = float(finite.max(initial=0.0))
    return 2.0 ** math.ceil(math.log2(top)) if top > 0 else 1.0


def smallest(array: np.ndarray) -> float:
    finite = array[np.isfinite(array)]
    return float(finite.min(initial=np.inf))


def round_up(x: float) -> float:
    """x > 0 rounded up to a half or a whole of a power of two: 4, 6, 8, 12, 16, ..."""
    top = 2.0 ** math.ceil(math.log2(x)) if x > 0 else 1.0
    return top * 0.75 if x <= top * 0.75 else top
