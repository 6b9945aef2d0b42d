"""Numbers as the window writes them: one place for digits, exponents, signs and what is not finite."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

MINUS: Final = "−"


def number(x: float | np.floating, digits: int = 4) -> str:
    """A value in so many digits, zeros included, and one less beside an exponent; small whole numbers as they are."""
    size = abs(float(x))
    if size < 1e6 and size == int(size):
        return _signed(x, f"{size:,.0f}")
    if 1e-3 <= size < 1e6:
        return _signed(x, _plain(size, digits))
    return _signed(x, _power(size, digits - 1))


def sci(x: float | np.floating) -> str:
    """An error or a bound in two digits: 3.2e-4, 0.30, 512."""
    size = abs(float(x))
    if size == 0:
        return "0"
    return _signed(x, _plain(size, 2) if 0.01 <= size < 1000 else _power(size, 2))


def less(x: float) -> str:
    """What "− x" looks like: " − 4.200", or " + 4.200" for x = -4.2."""
    return f" + {number(-x)}" if x < 0 else f" {MINUS} {number(x)}"


def three(x: float) -> str:
    """A measured figure in three digits, zeros included, whole from 100 on: 2.50, 87.5, 1,024."""
    return _plain(x, 3) if math.isfinite(x) and x > 0 else number(x)


def duration(seconds: float) -> str:
    """A time that is waited, in whole units: 40 s, 12 min, 5 h, 10 days."""
    for limit, unit, name in ((90, 1, "s"), (90 * 60, 60, "min"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86400:,.0f} days"


def span(what: str, first: int, end: int) -> str:
    """Elements first ... end - 1 in words: "rows 0 … 127", or "row 0" where there is one."""
    return f"{what} {first:,}" if end - first == 1 else f"{what}s {first:,} … {end - 1:,}"


def _plain(size: float, digits: int) -> str:
    power = int(f"{size:.{digits - 1}e}".split("e")[1])
    return f"{size:,.{max(0, digits - 1 - power)}f}"


def _power(size: float, digits: int) -> str:
    if not math.isfinite(size):
        return "NaN" if size != size else "∞"
    mantissa, power = f"{size:.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(power)}"


def _signed(x: float | np.floating, text: str) -> str:
    return f"{MINUS}{text}" if x < 0 else text
