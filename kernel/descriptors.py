"""TMA descriptors: which tensors can have one, and what a launch reads of it (CUDA Driver API, tensor map objects)."""

from typing import Any

import torch


class Described:
    """What Triton's launcher reads of a tensor descriptor, and nothing that has to be computed at each call."""

    __slots__ = ("base", "shape", "strides")
    padding = "zero"
    round_f32_to_tf32 = False

    def __init__(self, base: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.base, self.shape, self.strides = base, shape, strides


def strides(x: torch.Tensor) -> tuple[int, ...] | None:
    """The strides of x as TMA takes them, or None where it cannot: rows must be contiguous and start at 16 bytes."""
    *outer, last = x.stride()
    # the stride of a dimension of one element means nothing, but TMA reads it all the same
    outer = [8 if n == 1 else s for n, s in zip(x.shape[:-1], outer, strict=True)]
    if (last != 1 and x.shape[-1] != 1) or any(s % 8 or s <= 0 or s >= 1 << 38 for s in outer):
        return None
    return (*outer, 1)
