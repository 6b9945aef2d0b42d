"""A saved benchmark as the run panel shows it: the shape nearest to a problem, and each candidate against cuDNN."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

from kernel.bench_saved import SavedBench, read_saved
from kernel.problem import Problem
from kernel.results import Timing
from visualizer.frame import RunView, SavedView

YARDSTICK: Final = "SDPA cuDNN"


def saved_view(bench: SavedBench, problem: Problem) -> SavedView:
    """What of `bench` is shown for `problem`; a ratio is NaN where it or cuDNN has no time."""
    shape, is_same = bench.nearest(problem)
    times, backward = bench.shapes[shape], bench.backward.get(shape, ())
    mask = "causal" if shape.causal else "full"
    return SavedView(
        file=bench.file,
        gpu=bench.gpu,
        date=bench.date,
        versions=bench.versions,
        card=bench.card,
        shape=f"head_dim {shape.head_dim}, {mask}, seqlen {shape.seqlen:,}, batch {shape.batch}, heads {shape.heads}",
        is_same=is_same,
        times=times,
        ratios=_ratios(times),
        backward=backward,
        backward_ratios=_ratios(backward),
    )


def _ratios(times: tuple[Timing, ...]) -> tuple[float, ...]:
    base = next((t.ms for t in times if t.name == YARDSTICK), math.nan)
    return tuple(base / t.ms for t in times)


def saved_run(path: str | Path, problem: Problem) -> RunView:
    """The run panel's view of a benchmark in a file, without a window. Raises SavedError."""
    return RunView(saved=saved_view(read_saved(Path(path)), problem))
