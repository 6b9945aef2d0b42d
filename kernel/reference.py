"""Exact attention in float64: the yardstick for the kernel and its mirror."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

import numpy as np

from kernel.inputs import Inputs
from kernel.problem import LOG2E, Problem

CHUNK: Final = 1 << 18


def exact_rows(
    inputs: Inputs, problem: Problem, head: int, rows: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Exact o and lse of some rows of one query head, in chunks that each take well under a second.

    Yields (rows (n,), o (n, head_dim) float64, lse (n,) float64 in base 2, scale included). A row that sees no key has
    o = 0 and lse = -inf. o_i = sum_j exp(scale q_i k_j) v_j / sum_j exp(scale q_i k_j).
    """
    k = inputs.k(head).astype(np.float64)
    v = inputs.v(head).astype(np.float64)
    cols = np.arange(problem.seqlen_k)
    step = max(1, CHUNK // max(1, problem.seqlen_k))
    for start in range(0, len(rows), step):
        chunk = rows[start : start + step]
        q = inputs.q(head)[chunk].astype(np.float64)
        limit = chunk + problem.offset if problem.causal else np.full(len(chunk), problem.seqlen_k - 1)
        keep = cols[None, :] <= limit[:, None]
        yield chunk, *exact(q, k, v, problem.scale, keep)


def exact_lse(inputs: Inputs, problem: Problem, head: int, rows: np.ndarray) -> Generator[None, None, np.ndarray]:
    """Exact base-2 lse (n,) float64 of some rows of one query head, as the generator's return value.

    Yields every few milliseconds: it goes over the keys in chunks, and needs no float64 copy of all of k.
    """
    m, total = np.full(len(rows), -np.inf), np.zeros(len(rows))
    q = inputs.q(head)[rows].astype(np.float64)
    step = max(16, CHUNK // max(1, len(rows)))
    for start in range(0, problem.seqlen_k if len(rows) else 0, step):
        k = inputs.k(head)[start : start + step].astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            s = (q @ k.T) * problem.scale
            if problem.causal:
                s[np.arange(start, start + len(k)) > (rows + problem.offset)[:, None]] = -np.inf
            m_new = np.maximum(m, s.max(axis=1))
            m_ref = np.where(m_new == -np.inf, 0.0, m_new)
            total = total * np.exp(m - m_ref) + np.exp(s - m_ref[:, None]).sum(axis=1)
            m = m_new
        yield
    with np.errstate(divide="ignore"):
        return (m + np.log(total)) * LOG2E


def exact(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, keep: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """o (M, D) and base-2 lse (M,), float64, of q (M, D) against k, v (N, D); keep (M, N) says what each row sees."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        s = np.where(keep, (q @ k.T) * scale, -np.inf)
        m = s.max(axis=1, initial=-np.inf)
        m_ref = np.where(m == -np.inf, 0.0, m)
        p = np.exp(s - m_ref[:, None])
        total = p.sum(axis=1)
        finite = np.isfinite(v)
        o = p @ np.where(finite, v, 0.0)
        if not finite.all():
            seen = keep.astype(np.float64)
            for special, hit in ((np.inf, v == np.inf), (-np.inf, v == -np.inf), (np.nan, np.isnan(v))):
                o = o + np.where(seen @ hit > 0, special, 0.0)
        o = o / np.where(total == 0, 1.0, total)[:, None]
        return o, (m_ref + np.log(total)) * LOG2E


def exact_head(inputs: Inputs, problem: Problem, head: int) -> tuple[np.ndarray, np.ndarray]:
    """Exact o (seqlen_q, head_dim) and lse (seqlen_q,) of one query head, float64."""
    o = np.zeros((problem.seqlen_q, problem.head_dim))
    lse = np.full(problem.seqlen_q, -np.inf)
    for rows, o_part, lse_part in exact_rows(inputs, problem, head, np.arange(problem.seqlen_q)):
        o[rows], lse[rows] = o_part, lse_part
    return o, lse
