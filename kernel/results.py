"""What a worker reports of itself and of a run: typed, checked where it arrives, plain enough to travel."""

from __future__ import annotations

import types
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, TypeVar, get_args, get_type_hints

import numpy as np

from kernel.problem import Problem
from kernel.tiling import Tiling

T = TypeVar("T")
MAX_WORDS: Final = 500
MAX_VERSIONS: Final = 20
MAX_TIMES: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Where kernels run: backend is "cuda", "interpreter" or "none"; then `reason` says why, in one sentence."""

    backend: str
    device: str
    versions: dict[str, str]
    reason: str
    seconds: float

    @property
    def can_run(self) -> bool:
        """Whether a kernel can run there."""
        return self.backend != "none"

    @property
    def sentence(self) -> str:
        """The worker's state in one line."""
        if not self.can_run:
            return self.reason
        if self.backend == "interpreter":
            return f"{self.device}: interpreted on CPU, values are real, time is not"
        return self.device

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> Hello:
        """Raises ValueError when the message is no hello."""
        return _typed(cls, message, "hello")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One contestant: the median of repeated launches and the spread, in milliseconds; tflops counts 4 B H Sq Sk D.

    The spread is the 0.2 and 0.8 quantile. When causal, only the visible pairs of query and key count. note says what
    is special: a figure that is no GPU time, a contestant that was left out (ms is NaN then) and why.
    """

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

    backend is "cuda" or "interpreter", whose times are no GPU times, or "own" for outputs from elsewhere. Errors are
    max absolute ones: o_error and o_error_eager against float64, for the kernel and for eager attention in the same
    dtype; o_bound and lse_bound are the limits of the verdict. lse (num_heads, seqlen_q) is the kernel's, float32, base
    2. o_tiles and lse_tiles (num_heads, num_q_blocks) are the errors of each program's rows, NaN where none of them was
    checked, inf where one is not finite though the exact one is. mirror_*: elements that differ from the NumPy mirror,
    and by how much; compared_programs says how many programs were compared (-1: all). The first of `times` is this
    kernel's.
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
    def from_message(cls, message: dict[str, Any], problem: Problem | None = None) -> RunResult:
        """The result in a worker's message. Raises ValueError when it is none, or does not fit `problem`."""
        values = dict(message) if isinstance(message, dict) else {}
        times = values.get("times")
        values["times"] = tuple(
            _typed(Timing, t, "result") for t in (times[:MAX_TIMES] if isinstance(times, list) else ())
        )
        if values.get("compiled") is not None:
            values["compiled"] = _typed(Compiled, values["compiled"], "result")
        result = _typed(cls, values, "result")
        for name in ("lse", "o_tiles", "lse_tiles"):
            array = getattr(result, name)
            if array.dtype != np.float32 or array.ndim != 2:
                raise ValueError(f"The worker's result cannot be read ({name} is {array.dtype} {array.shape}).")
        if problem is not None:
            tiles = (problem.num_heads, Tiling(problem).num_q_blocks)
            lse = (problem.num_heads, problem.seqlen_q)
            if (result.lse.shape, result.o_tiles.shape, result.lse_tiles.shape) != (lse, tiles, tiles):
                raise ValueError(f"The worker's result is for another problem (lse {result.lse.shape}, not {lse}).")
        return result


def _typed(cls: type[T], message: Any, what: str) -> T:
    """An instance of a dataclass from a map whose values have the annotated types; ValueError otherwise."""
    if not isinstance(message, dict):
        raise ValueError(f"The worker's {what} cannot be read (it is no map).")
    values = {}
    for name, hint in _hints(cls).items():
        value = message.get(name)
        allowed = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        plain = tuple(getattr(t, "__origin__", t) for t in allowed)
        if float in plain and type(value) is int:
            value = float(value)
        if not isinstance(value, plain) or (isinstance(value, bool) and bool not in plain):
            raise ValueError(f"The worker's {what} cannot be read ({name} is {type(value).__name__}).")
        values[name] = _tame(value)
    return cls(**values)


def words(value: object) -> str:
    """A text that came from elsewhere, as one line that can be shown."""
    text = value if isinstance(value, str) else repr(value)
    if len(text) > MAX_WORDS:
        text = text[: MAX_WORDS - 1] + "…"
    return text if text.isprintable() else " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _tame(value: Any) -> Any:
    if isinstance(value, str):
        return words(value)
    if isinstance(value, dict):
        return {words(name): words(inner) for name, inner in list(value.items())[:MAX_VERSIONS]}
    return value


def _hints(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in fields(cls)}
