"""Round limits for axes, so that they seldom move."""

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
