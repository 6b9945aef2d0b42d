"""What a run of the kernel reports: typed, checked where it arrives, and plain enough to travel between machines."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One contestant: the median of repeated launches and the spread, in milliseconds; tflops counts 4 B H Sq Sk D."""

    name: str
    ms: float
    low_ms: float
    high_ms: float
    tflops: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What the compiler made of the kernel; None where there was no compiler (the interpreter)."""

    registers: int
    spill_bytes: int
    shared_bytes: int
    num_warps: int
    num_stages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """One run: where, the verdict with the errors it rests on, errors by tile, and times.

    backend is "cuda" or "interpreter"; times of the interpreter are no GPU times. Errors are max absolute ones:
    o_error and o_error_eager against float64, for the kernel and for eager attention in the same dtype; o_bound and
    lse_bound are the limits of the verdict. lse (num_heads, seqlen_q) is the kernel's, float32, base 2. o_tiles and
    lse_tiles (num_heads, num_q_blocks) are the errors of each program's rows. mirror_*: elements that differ from the
    NumPy mirror, and by how much; compared_programs says how many programs were compared (-1: all).
    """

    backend: str
    device: str
    versions: dict[str, str]
    block_m: int
    block_n: int
    ok: bool
    sentence: str
    o_error: float
    o_error_eager: float
    o_bound: float
    lse_error: float
    lse_bound: float
    rows_checked: int
    first_bad: str | None
    lse: np.ndarray
    o_tiles: np.ndarray
    lse_tiles: np.ndarray
    mirror_o_differing: int
    mirror_lse_differing: int
    mirror_o_max: float
    mirror_lse_max: float
    compared_programs: int
    first_differing: str | None
    times: tuple[Timing, ...]
    compiled: Compiled | None

    @property
    def timed_on_gpu(self) -> bool:
        """Whether the times mean anything for a GPU."""
        return self.backend == "cuda"

    def to_message(self) -> dict[str, Any]:
        """As plain values and arrays."""
        return asdict(self) | {"times": [asdict(t) for t in self.times]}

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> RunResult:
        """The result in a worker's message. Raises ValueError when the message is not one."""
        try:
            values = {f.name: message[f.name] for f in fields(cls)}
            values["times"] = tuple(Timing(**t) for t in values["times"])
            values["compiled"] = None if values["compiled"] is None else Compiled(**values["compiled"])
            for name in ("lse", "o_tiles", "lse_tiles"):
                values[name] = np.asarray(values[name], np.float32)
            return cls(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the worker's result cannot be read ({error})") from error
