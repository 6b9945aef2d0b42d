"""Somebody's own outputs, graded as the kernel's are: o and lse against exact attention and against the mirror."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from kernel import verify
from kernel.inputs import Inputs
from kernel.problem import LOG2E, Problem
from kernel.reference import exact_rows
from kernel.results import RunResult

BACKEND: Final = "own"
ALL_SCORES: Final = 1 << 24
MIRROR_SCORES: Final = 1 << 25


def grade(problem: Problem, inputs: Inputs, o: np.ndarray, lse: np.ndarray) -> RunResult:
    """The verdict on o (num_heads, seqlen_q, head_dim) and lse (num_heads, seqlen_q) in base 2, in any float dtype.

    The same for the same arrays, however quick the machine is: all rows are checked up to ALL_SCORES scores, then as
    many evenly spaced ones; all programs are compared with the mirror up to MIRROR_SCORES, then one.
    """
    lse = np.asarray(lse, np.float32)
    yardstick: Any = NumpyYardstick(problem, inputs)
    with np.errstate(invalid="ignore", over="ignore"):
        errors = verify.check(problem, o, lse, yardstick, _sample(problem), _untold)
        few = problem.num_heads * problem.seqlen_q * problem.seqlen_k <= MIRROR_SCORES
        differences = verify.compare(problem, o, lse, inputs, np.inf if few else 0.0, _untold)
    ok, sentence = verify.verdict(problem, BACKEND, errors, differences)
    return RunResult(
        backend=BACKEND,
        device="",
        versions={},
        block_m=problem.block_m,
        block_n=problem.block_n,
        ok=ok,
        sentence=sentence,
        lse=lse,
        **verify.figures(errors, differences),
        times=(),
        compiled=None,
    )


class NumpyYardstick:
    """As kernel.yardstick.Yardstick, without torch: exact rows in float64, and eager attention in the inputs' dtype."""

    def __init__(self, problem: Problem, inputs: Inputs) -> None:
        self.problem = problem
        self._inputs = inputs

    def expect(self, head: int, rows: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
        """(rows, exact o, exact lse, eager o, eager lse) in chunks; lse in base 2."""
        for chunk, o, lse in exact_rows(self._inputs, self.problem, head, rows):
            yield chunk, o, lse, *self._eager(head, chunk)

    def size_of_v(self) -> float:
        """The root mean square of the finite numbers in v."""
        v = self._inputs.stacked("v").astype(np.float64)
        v = v[np.isfinite(v)]
        return float(np.sqrt(np.square(v).mean())) if v.size else 0.0

    def _eager(self, head: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """softmax(q·kᵀ·scale)·v with every tensor rounded to the inputs' dtype, sums in float32."""
        p = self.problem
        k, v = (x.astype(np.float32) for x in (self._inputs.k(head), self._inputs.v(head)))
        q = self._inputs.q(head)[rows]
        dtype = q.dtype
        limit = rows + p.offset if p.causal else np.full(len(rows), p.seqlen_k - 1)
        keep = np.arange(p.seqlen_k)[None, :] <= limit[:, None]
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            s = _round(_round(q.astype(np.float32) @ k.T, dtype) * np.float32(p.scale), dtype)
            s = np.where(keep, s, np.float32(-np.inf))
            m = s.max(axis=1, initial=-np.inf)
            m_ref = np.where(m == -np.inf, np.float32(0), m)
            e = np.exp(s - m_ref[:, None])
            total = e.sum(axis=1)
            o = _round(_round(e / np.where(total == 0, 1, total)[:, None], dtype) @ v, dtype)
            return o.astype(np.float64), (m_ref + np.log(total)).astype(np.float64) * LOG2E


def _round(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """float32 values of what x is in `dtype`."""
    return x.astype(dtype).astype(np.float32)


def _sample(problem: Problem) -> verify.Sample:
    heads, count = problem.num_heads, problem.seqlen_q
    per_row = max(1, heads * (problem.seqlen_k + 64))
    wanted = min(count, max(1, ALL_SCORES // per_row))
    rows = np.unique(np.linspace(0, count - 1, wanted).astype(np.int64)) if count else np.zeros(0, np.int64)
    return verify.Sample(np.arange(heads), rows)


def _untold(fraction: float) -> None:
    """Nobody waits for the progress."""
