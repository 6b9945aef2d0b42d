"""Is the kernel right? Its o and lse against exact attention, row by row, and against the mirror, bit by bit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kernel.inputs import Inputs
from kernel.mirror import Mirror
from kernel.problem import Problem
from kernel.tiling import Tiling

if TYPE_CHECKING:
    from kernel.yardstick import Yardstick

LSE_BOUND: Final = 1e-3
SLACK: Final = 1e-5
LSE_ULPS: Final = 4 * float(np.finfo(np.float32).eps)
FEW: Final = 1024  # numbers of o
ROUNDING: Final = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}
ALL_SCORES: Final = 1 << 23
MAX_ROWS: Final = 1 << 23

Progress = Callable[[float], None]


class Sample(NamedTuple):
    """The rows that are checked: these rows of each of these heads."""

    heads: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Largest errors, their bounds, and where they are. Tiles: (num_heads, num_q_blocks) float32, NaN: not checked."""

    o_error: float
    o_error_eager: float
    o_bound: float
    lse_error: float
    lse_bound: float
    rows_checked: int
    all_rows: bool
    first_bad: str | None
    o_tiles: np.ndarray
    lse_tiles: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """Elements of o and lse in which kernel and mirror differ, the largest differences, and the first place."""

    o_differing: int
    lse_differing: int
    o_max: float
    lse_max: float
    o_compared: int
    programs: int
    all_programs: bool
    first: str | None


def error(values: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|values - exact| in float64; equal infinities and NaN where NaN is expected are 0, any other NaN is inf."""
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(values.astype(np.float64) - exact)
    difference[np.isnan(difference)] = np.inf
    difference[(values == exact) | (np.isnan(values) & np.isnan(exact))] = 0
    return difference


def sample(problem: Problem, yardstick: Yardstick, seconds: float) -> Sample:
    """All rows, or as many evenly spaced ones of every head as the yardstick takes in about `seconds`."""
    heads, rows = np.arange(problem.num_heads), np.arange(problem.seqlen_q)
    count = len(heads) * len(rows)
    if count * (problem.seqlen_k + 64) <= ALL_SCORES or not count:
        return Sample(heads, rows)
    probe = _spread(problem.seqlen_q, yardstick.chunk_rows)
    list(yardstick.expect(0, probe))  # the first call loads libraries
    start = time.perf_counter()
    list(yardstick.expect(0, probe))
    per_row = (time.perf_counter() - start) / len(probe)
    allowed = min(int(seconds / max(per_row, 1e-9)), MAX_ROWS)
    if allowed < len(heads):
        return Sample(_spread(len(heads), max(1, allowed)), rows[-1:])
    return Sample(heads, _spread(len(rows), allowed // len(heads)))


def check(
    problem: Problem, o: np.ndarray, lse: np.ndarray, yardstick: Yardstick, chosen: Sample, progress: Progress
) -> Errors:
    """Errors of o (num_heads, seqlen_q, head_dim) and lse (num_heads, seqlen_q) at the rows that are sampled.

    The bound of o is 2 x the error of eager attention in the same dtype + 1e-5, the rule of FlashAttention's own tests
    (eager attention of a few numbers may happen to hit them: there a rounding of o, or of v's usual size, counts);
    that of lse 1e-3, for float32 by the same rule as o, and never less than 4 float32 roundings of lse itself.
    """
    tiling = Tiling(problem)
    blocks = tiling.num_q_blocks
    shape = (len(chosen.heads), len(chosen.rows))
    o_errors, lse_errors, lse_sizes = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    o_eager = lse_eager = o_size = 0.0
    for i, head in enumerate(chosen.heads):
        done = 0
        for rows, o_exact, lse_exact, eager_o, eager_lse in yardstick.expect(int(head), chosen.rows):
            part = slice(done, done + len(rows))
            done += len(rows)
            o_errors[i, part] = error(o[head, rows], o_exact).max(1, initial=0)
            lse_errors[i, part] = error(lse[head, rows], lse_exact)
            lse_sizes[i, part] = np.where(np.isfinite(lse_exact), np.abs(lse_exact), 0)
            o_eager = max(o_eager, _largest_finite(error(eager_o, o_exact)))
            o_size = max(o_size, _largest_finite(np.abs(o_exact)))
            lse_eager = max(lse_eager, _largest_finite(error(eager_lse, lse_exact)))
            progress((i + done / len(chosen.rows)) / len(chosen.heads))
    lucky = 0.0
    if o_errors.size * problem.head_dim < FEW:
        lucky = max(o_size, yardstick.size_of_v()) * ROUNDING[problem.dtype]
    o_bound = 2 * max(o_eager, lucky) + SLACK
    lse_bound = 2 * lse_eager + SLACK if problem.dtype == "float32" else LSE_BOUND
    lse_bounds = np.maximum(lse_bound, LSE_ULPS * lse_sizes)
    bad = (o_errors > o_bound) | (lse_errors > lse_bounds)
    tiles = [np.full((problem.num_heads, blocks), np.nan, np.float32) for _ in range(2)]
    if o_errors.size:
        of_block = chosen.rows // problem.block_m
        starts = np.flatnonzero(np.diff(of_block, prepend=-1))
        for tile, errors in zip(tiles, (o_errors, lse_errors), strict=True):
            tile[np.ix_(chosen.heads, of_block[starts])] = np.maximum.reduceat(errors, starts, axis=1)
    first = None
    if bad.any():
        i, j = np.argwhere(bad)[0]
        head, row = int(chosen.heads[i]), int(chosen.rows[j])
        name, off, bound = ("o", o_errors[i, j], o_bound)
        if off <= bound:
            name, off, bound = ("L", lse_errors[i, j], float(lse_bounds[i, j]))
        if np.isfinite(off):
            what = f"{name} is off by {size(float(off))} (allowed: {size(bound)}), first in"
        else:
            _, o_exact, lse_exact, *_ = next(iter(yardstick.expect(head, chosen.rows[j : j + 1])))
            mine, exact = (o[head, row], o_exact[0]) if name == "o" else (lse[head, row, None], lse_exact)
            worst = int(np.argmax(error(mine, exact)))
            what = f"{name} is {_value(mine[worst])} where it should be {_value(exact[worst])}, first in"
        first = f"{what} {place(problem, head, row)}; {int(bad.sum()):,} of {bad.size:,} rows are wrong"
    return Errors(
        o_error=float(o_errors.max(initial=0)),
        o_error_eager=o_eager,
        o_bound=o_bound,
        lse_error=float(lse_errors.max(initial=0)),
        lse_bound=float(lse_bounds.max(initial=lse_bound)),
        rows_checked=o_errors.size,
        all_rows=o_errors.size == problem.num_heads * problem.seqlen_q,
        first_bad=first,
        o_tiles=tiles[0],
        lse_tiles=tiles[1],
    )


def compare(
    problem: Problem, o: np.ndarray, lse: np.ndarray, inputs: Inputs, seconds: float, progress: Progress
) -> Differences:
    """Kernel against mirror, bit by bit (a NaN equals any NaN): all programs, or evenly spread ones in `seconds`."""
    tiling = Tiling(problem)
    mirror = Mirror(inputs, tiling)
    count, blocks = tiling.num_programs, tiling.num_q_blocks
    o_differing = lse_differing = o_compared = done = 0
    o_max = lse_max = 0.0
    first: tuple[int, int] | None = None
    end = time.perf_counter() + seconds
    for program in _scattered(count):
        head, block = divmod(program, blocks)
        chip = mirror.run(head, block)
        start, stop = tiling.rows(block)
        assert chip.o is not None and chip.lse is not None
        mine = o[head, start:stop].astype(np.float32)
        its = chip.o[: stop - start, : problem.head_dim]
        o_bad, lse_bad = _differs(mine, its), _differs(lse[head, start:stop], chip.lse[: stop - start])
        o_differing += int(o_bad.sum())
        lse_differing += int(lse_bad.sum())
        o_compared += o_bad.size
        o_max = max(o_max, float(error(mine, its).max(initial=0)))
        lse_max = max(lse_max, float(error(lse[head, start:stop], chip.lse[: stop - start]).max(initial=0)))
        rows = o_bad.any(1) | lse_bad
        if rows.any() and (first is None or program < first[0]):
            first = (program, start + int(np.argmax(rows)))
        done += 1
        progress(done / count)
        if time.perf_counter() > end:
            break
    return Differences(
        o_differing=o_differing,
        lse_differing=lse_differing,
        o_max=o_max,
        lse_max=lse_max,
        o_compared=o_compared,
        programs=done,
        all_programs=done == count,
        first=None if first is None else place(problem, first[0] // blocks, first[1]),
    )


def verdict(problem: Problem, backend: str, errors: Errors, mirror: Differences) -> tuple[bool, str]:
    """Whether the kernel is right, and one or two sentences that say so.

    Interpreted, kernel and mirror must agree bit for bit; on a GPU each may be as far from exact as the bound allows.
    """
    count = problem.num_heads * problem.seqlen_q
    rows = f"all {count:,} rows" if errors.all_rows else f"{errors.rows_checked:,} of {count:,} rows"
    if not count:
        return True, "There are no query rows, so there is nothing to compute; the kernel returned empty tensors."
    if errors.first_bad is not None:
        return False, f"The kernel is wrong: {errors.first_bad}."
    right = (
        f"The kernel is right: o within {size(errors.o_error)} of exact (allowed: {size(errors.o_bound)}), "
        f"L within {size(errors.lse_error)} (allowed: {size(errors.lse_bound)}), on {rows}."
    )
    programs = (
        ""
        if mirror.all_programs
        else f", as far as compared ({mirror.programs:,} of {Tiling(problem).num_programs:,} programs)"
    )
    if not mirror.o_differing and not mirror.lse_differing:
        return True, f"{right} The mirror agrees bit for bit{programs}."
    difference = (
        f"in {mirror.o_differing:,} of {mirror.o_compared:,} elements of o by up to {size(mirror.o_max)} "
        f"and in {mirror.lse_differing:,} of L by up to {size(mirror.lse_max)}"
    )
    if backend == "interpreter" or mirror.o_max > 2 * errors.o_bound or mirror.lse_max > 2 * errors.lse_bound:
        return False, f"The kernel is near exact, but not what the mirror shows: {difference}, first at {mirror.first}."
    return True, f"{right} The mirror, which adds in another order, differs {difference}{programs}."


def figures(errors: Errors, differences: Differences) -> dict[str, Any]:
    """Errors and differences as the fields of RunResult."""
    return {
        "o_error": errors.o_error,
        "o_error_eager": errors.o_error_eager,
        "o_bound": errors.o_bound,
        "lse_error": errors.lse_error,
        "lse_bound": errors.lse_bound,
        "rows_checked": errors.rows_checked,
        "first_bad": errors.first_bad,
        "o_tiles": errors.o_tiles,
        "lse_tiles": errors.lse_tiles,
        "mirror_o_differing": differences.o_differing,
        "mirror_lse_differing": differences.lse_differing,
        "mirror_o_max": differences.o_max,
        "mirror_lse_max": differences.lse_max,
        "compared_programs": -1 if differences.all_programs else differences.programs,
        "first_differing": differences.first,
    }


def size(x: float) -> str:
    """An error in two digits: 3.2e-4, 0.31."""
    if not x or not np.isfinite(x):
        return f"{x:g}"
    if 0.0995 <= x < 99.5:
        return f"{x:.2f}" if x < 0.995 else f"{x:.1f}" if x < 9.95 else f"{x:.0f}"
    mantissa, exponent = f"{x:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def place(problem: Problem, head: int, row: int) -> str:
    """Where a row is computed: its head, and the program (counted from 1, as the window does) with the rows it has."""
    block, tiling = row // problem.block_m, Tiling(problem)
    start, stop = tiling.rows(block)
    program = head * tiling.num_q_blocks + block
    return f"row {row:,} of head {head:,} (program {program + 1:,}, rows {start:,} … {stop - 1:,})"


def _value(x: float) -> str:
    """A value in words: NaN, ∞ or −∞, else three digits."""
    return f"{x:.3g}".replace("inf", "∞").replace("nan", "NaN").replace("-", "−", 1 if x < 0 else 0)


def _differs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Which elements of two float32 arrays have other bits; NaNs count as equal."""
    a, b = np.ascontiguousarray(a, np.float32), np.ascontiguousarray(b, np.float32)
    return (a.view(np.uint32) != b.view(np.uint32)) & ~(np.isnan(a) & np.isnan(b))


def _largest_finite(x: np.ndarray) -> float:
    return float(x.max(initial=0, where=np.isfinite(x)))


def _spread(count: int, wanted: int) -> np.ndarray:
    """At most `wanted` of 0 ... count - 1, evenly spaced, the ends among them."""
    return np.unique(np.linspace(0, count - 1, min(count, max(1, wanted))).astype(np.int64))


def _scattered(count: int):
    """0 ... count - 1, each once, any first part of them spread evenly."""
    step = max(1, round(count * 0.618))
    while np.gcd(step, count) > 1:
        step += 1
    return (i * step % count for i in range(count))
