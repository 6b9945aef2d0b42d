"""What a test asks of panel_snapshot, refused in one sentence before anything is drawn, as the command line does."""

from __future__ import annotations

import math
import operator
import os
from typing import Any

from visualizer.options import SCALES, SIDES, THEMES, ZOOMS, UsageError, check_pixels, is_share


def checked(
    request: dict[str, Any], tensors: dict[str, Any], *, scale: float, tolerance: float, lse_unit: str
) -> dict[str, Any]:
    """The request with plain numbers in it. Raises UsageError."""
    for name in ("step", "head"):
        if request[name] is not None:
            request = request | {name: _whole(name, request[name])}
    if request["size"] is not None:
        request = request | {"size": _size(request["size"])}
    for name in ("preset", "session"):
        if request[name] is not None and not isinstance(request[name], str | os.PathLike):
            raise UsageError(f"{name} is {_shown(request[name])}; give its name as a text.")
    if request["session"] is not None:
        request = request | {"session": os.path.abspath(os.fsdecode(request["session"]))}
    if request["theme"] not in THEMES:
        raise UsageError(f"theme is {_shown(request['theme'])}; choose {' or '.join(THEMES)}.")
    if not _is_number(scale) or scale not in SCALES:
        raise UsageError(f"scale is {_shown(scale)}; choose {' or '.join(map(str, SCALES))}.")
    if request["size"] is not None:
        check_pixels(request["size"], scale)
    if not _is_number(request["zoom"]) or not ZOOMS[0] <= request["zoom"] <= ZOOMS[1]:
        raise UsageError(f"zoom is {_shown(request['zoom'])}; it may be from {ZOOMS[0]} to {ZOOMS[1]}.")
    if not _is_number(tolerance) or not is_share(tolerance):
        raise UsageError(
            f"tolerance is {_shown(tolerance)}; it may be from 0 (the same colours) to 1 (black for white)."
        )
    if lse_unit not in ("log2", "ln"):
        raise UsageError(f"lse_unit is {_shown(lse_unit)}; choose 'log2' (base 2) or 'ln' (natural).")
    given = {name for name, tensor in tensors.items() if tensor is not None}
    if request["panel"] == "run" and given == {"q", "k", "v"}:
        raise UsageError("The run panel shows what a kernel made of q, k and v: give its o and lse, too.")
    return request


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise UsageError(f"{name} is {_shown(value)}; give a whole number.") from None


def _size(value: Any) -> tuple[int, int]:
    low, high = SIDES
    try:
        width, height = map(operator.index, value)
        if low <= width <= high and low <= height <= high:
            return width, height
    except (TypeError, ValueError):
        pass
    raise UsageError(f"size is {_shown(value)}; give (width, height) such as (900, 600), each from {low} to {high}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _shown(value: Any) -> str:
    return repr(value)[:40]
