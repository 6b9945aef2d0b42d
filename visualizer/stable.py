"""What changes from run to run, replaced by what does not, so that pictures of runs can be compared."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from visualizer.frame import RunView

DEVICE: Final = "this machine"
NO_TIME: Final = "time left out"


def stable(run: RunView) -> RunView:
    """The run without its times, its device's name and its versions; errors and the verdict stay."""
    result = run.result
    if result is not None:
        times = tuple(
            replace(t, ms=math.nan, low_ms=math.nan, high_ms=math.nan, tflops=math.nan, note=NO_TIME)
            for t in result.times
        )
        result = replace(result, device=DEVICE, versions={}, times=times)
    return replace(run, device=DEVICE if run.device else "", result=result)
