"""What the L panel draws: the mirror's, the kernel's and the exact L of every row of a head."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from kernel.results import RunResult
from visualizer.frame import LseView, RunView
from visualizer.limits import one_two_five, outwards
from visualizer.state import State
from visualizer.tape import Moment, Tape

LN2: Final = math.log(2)


def lse_view(state: State, tape: Tape, moment: Moment, row: int, run: RunView) -> LseView:
    """The view is kept, and handed out again with another row, while nothing else has changed: it may be long."""
    p = tape.problem
    head, block = moment.position[:2]
    result = None if run.stale else run.result
    start, end = tape.tiling.rows(block)
    stored = tape.lse_until(moment.index, head, run=moment.chip.q is not None)
    known, exact = tape.lse[head], tape.exact_lse[head]
    key = (head, state.lse_unit)
    is_coming = tape.blocks_filled[head] < tape.tiling.num_q_blocks
    passed = int((~np.isnan(stored)).sum())
    if tape.blocks_filled[head] >= block:  # then NaN in it is a value
        passed = end if moment.position.step == "store" else start
    kept = _LSE.get(tape)
    if kept is not None and kept.key == key and kept.result is result and kept.holds(stored, known, exact):
        return replace(kept.view, row=start + row, rows=(start, end), stored_rows=passed, is_coming=is_coming)
    factor = np.float32(1.0 if state.lse_unit == "log2" else LN2)
    old = None if kept is None or kept.key != key else kept
    mirror = old.view.mirror if old is not None and _same(old.stored, stored) else stored * factor
    known_exact = old.view.exact if old is not None and _same(old.exact, exact) else exact * float(factor)
    kernel = old.view.kernel if old is not None and old.result is result else None
    if kernel is None and result is not None:
        kernel = result.lse[head] * factor
    rows = tape.exact_rows
    mirror_exact = _minus(mirror[rows], known_exact)
    difference = mirror_exact if kernel is None else _minus(kernel[rows], known_exact)
    whole = _minus(known[rows] * factor, known_exact) if kernel is None else difference
    between = None if kernel is None else _minus(kernel, mirror)
    ends = [x for x in (_farthest(whole), None if between is None else _farthest(between)) if x is not None]
    view = LseView(
        head=head,
        num_rows=p.seqlen_q,
        blind_rows=p.seqlen_q if p.seqlen_k == 0 else max(0, -p.offset) if p.causal else 0,
        value_range=outwards([known * factor, known_exact] + ([] if kernel is None else [kernel])),
        difference_range=one_two_five(max(ends)) if ends else None,
        is_coming=is_coming,
        unit=state.lse_unit,
        mirror=mirror,
        kernel=kernel,
        exact_rows=rows,
        exact=known_exact,
        difference_name="mirror − exact" if kernel is None else "kernel − exact",
        difference=difference,
        mirror_difference=between,
        row=start + row,
        rows=(start, end),
        stored_rows=passed,
        max_kernel_exact=None if kernel is None else _worst(kernel[rows], known_exact),
        max_mirror_exact=_largest(mirror_exact),
        max_kernel_mirror=None if kernel is None else _worst(kernel, mirror),
        sampled=len(rows) < p.seqlen_q,
        caption=p.head_name(head),
    )
    _LSE[tape] = _KeptLse(key, result, stored, known.copy(), exact.copy(), view)
    return view


class _KeptLse(NamedTuple):
    key: tuple[int, str]
    result: RunResult | None
    stored: np.ndarray
    known: np.ndarray
    exact: np.ndarray
    view: LseView

    def holds(self, stored: np.ndarray, known: np.ndarray, exact: np.ndarray) -> bool:
        return _same(self.stored, stored) and _same(self.known, known) and _same(self.exact, exact)


_LSE: Final[WeakKeyDictionary[Tape, _KeptLse]] = WeakKeyDictionary()


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays hold the same bits, NaN included."""
    return np.array_equal(a.view(np.uint8), b.view(np.uint8))


def _minus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b in float64, with 0 where both are -inf."""
    with np.errstate(invalid="ignore"):
        difference = a.astype(np.float64) - b
    difference[(a == -np.inf) & (b == -np.inf)] = 0
    return difference


def _worst(values: np.ndarray, known: np.ndarray) -> float | None:
    """The largest |values - known| where known is a number; NaN where a value is none though the known one is."""
    at = ~np.isnan(known)
    if np.isnan(values[at]).any():
        return math.nan
    return _largest(_minus(values[at], known[at]))


def _farthest(difference: np.ndarray) -> float | None:
    """The largest finite |difference|."""
    return _largest(difference[np.isfinite(difference)])


def _largest(difference: np.ndarray) -> float | None:
    known = np.abs(difference[~np.isnan(difference)])
    return float(known.max()) if known.size else None
