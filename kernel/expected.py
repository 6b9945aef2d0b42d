"""How long a run will take, stage by stage: a guess, for the progress bar and for a warning before a long wait."""

from __future__ import annotations

from typing import Final

from kernel.problem import Problem
from kernel.tiling import Tiling

EXACT_SECONDS: Final = 5.0
MIRROR_SECONDS: Final = 5.0
# of Triton's interpreter, measured on two cores of a server: hardly more for the largest tile than for the smallest
TILE_SECONDS: Final = {"float16": 7e-3, "bfloat16": 9e-3, "float32": 7e-3}
PROGRAM_SECONDS: Final = 12e-3


def expected_seconds(problem: Problem, cuda: bool, timing: bool) -> dict[str, float]:
    """The seconds of each stage of a run, in order; right to a factor of about two."""
    p = problem
    elements = p.num_heads * (p.seqlen_q + 2 * p.seqlen_k) * p.head_dim
    tiling = Tiling(p)
    tiles = p.num_heads * int(tiling.visited.sum())
    scores = p.num_heads * p.seqlen_q * p.seqlen_k
    interpreted = 0.01 + tiling.num_programs * PROGRAM_SECONDS + tiles * TILE_SECONDS[p.dtype]
    return {
        "drawing inputs": 0.01 + elements * 2e-8,
        "compiling": 2.0 if cuda else 0.01,
        "running kernel": 0.1 if cuda else interpreted,
        "exact reference": 0.01 + min(EXACT_SECONDS, scores * (2e-9 if cuda else 6e-8)),
        "mirror": 0.01 + min(MIRROR_SECONDS, tiles * 4e-4),
        "timing": 2.5 if cuda and timing else 0.01,
    }
