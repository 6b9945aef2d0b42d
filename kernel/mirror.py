"""The kernel's block loop in NumPy, one named step at a time, with the kernel's rounding and padding.

Each step is a pure function of what the program holds on the chip: arrays are never written twice, so any `Chip` may be
kept, shown or resumed. Under Triton's interpreter the results equal the kernel's bit for bit (BLAS on one thread).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import cache
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from kernel.inputs import NUMPY_DTYPES, Inputs
from kernel.problem import exponent_scale
from kernel.tiling import Tiling

NEG_INF: Final = np.float32(-np.inf)
RUN_TILES: Final = 16
STRETCH_TILES: Final = 64
_SIGN_AND_REST: Final = np.int32(-0x70002000)


@dataclass(frozen=True, slots=True)
class Chip:
    """What one program holds. float32, padded: M = BLOCK_M, N = BLOCK_N, D = head_dim_pad (a power of two).

    None: not on the chip (yet, or any more). `m` and `l` are the running maximum (base-2 units) and denominator; `keep`
    says which scores the mask of a partial tile leaves.
    """

    q: np.ndarray | None = None  # (M, D)
    k: np.ndarray | None = None  # (N, D)
    s: np.ndarray | None = None  # (M, N)
    keep: np.ndarray | None = None  # (M, N) bool
    m: np.ndarray | None = None  # (M,)
    m_new: np.ndarray | None = None  # (M,)
    alpha: np.ndarray | None = None  # (M,)
    p: np.ndarray | None = None  # (M, N)
    l: np.ndarray | None = None  # (M,)
    v: np.ndarray | None = None  # (N, D)
    acc: np.ndarray | None = None  # (M, D)
    o: np.ndarray | None = None  # (M, D), rounded to the input dtype
    lse: np.ndarray | None = None  # (M,)


class Run(NamedTuple):
    """Some iterations of a program: `end` is the next one, `chip` holds then; m, alpha and l (n, M) after each."""

    end: int
    chip: Chip
    m: np.ndarray
    alpha: np.ndarray
    l: np.ndarray


class Mirror:
    """Runs the steps of any program of a problem."""

    def __init__(self, inputs: Inputs, tiling: Tiling) -> None:
        p = tiling.problem
        self.inputs = inputs
        self.tiling = tiling
        self.qk_scale = np.float32(exponent_scale(p.scale))
        self.sign = np.float32(np.sign(p.scale))
        self.dtype = NUMPY_DTYPES[p.dtype]
        self.lazy_growth = np.float32(p.lazy_growth)

    def apply(self, chip: Chip, step: str, head: int, block: int, tile: int = -1) -> Chip:
        """The chip after one step; `tile` is the column of tiles that the iteration visits."""
        with blas_on_one_thread(), np.errstate(all="ignore"):
            return self._apply(chip, step, head, block, tile)

    def iterate(self, chip: Chip, head: int, block: int, iteration: int) -> Chip:
        """The chip after one whole iteration of the loop."""
        tile = self.tiling.tile(block, iteration)
        with blas_on_one_thread(), np.errstate(all="ignore"):
            for step in self.tiling.steps_of(block, iteration):
                chip = self._apply(chip, step, head, block, tile)
        return chip

    def run(self, head: int, block: int) -> Chip:
        """A whole program: the chip after its store, with o and lse."""
        chip = self.apply(Chip(), "load_q", head, block)
        for run in self.advance(chip, head, block, 0, int(self.tiling.visited[block])):
            chip = run.chip
        return self.apply(self.apply(chip, "normalise", head, block), "store", head, block)

    def advance(self, chip: Chip, head: int, block: int, first: int, last: int) -> Iterator[Run]:
        """Iterations first ... last - 1 in runs of at most RUN_TILES: the same bits as `iterate`, in fewer NumPy calls.

        Full tiles are computed up to STRETCH_TILES at once, on two threads.
        """
        while first < last:
            masked = self.tiling.masked_iterations(block)
            full_until = last if first >= masked.stop else masked.start
            count = min(STRETCH_TILES, last - first, full_until - first)
            runs = self._stretch(chip, head, block, first, count) if count > 1 else []
            if not runs:
                chip = self.iterate(chip, head, block, first)
                assert chip.m is not None and chip.alpha is not None and chip.l is not None
                runs = [Run(first + 1, chip, chip.m[None], chip.alpha[None], chip.l[None])]
            chip, first = runs[-1].chip, runs[-1].end
            yield from runs

    def _stretch(self, chip: Chip, head: int, block: int, first: int, count: int) -> list[Run]:
        """Runs over `count` full tiles from iteration `first`, up to a tile whose v holds a value that is not finite.

        Two threads take the runs in turn. What a run needs from the one before comes late: m once its scores are there,
        l and acc once its p·v are, so the threads hardly wait for each other.
        """
        parts = [(i, min(RUN_TILES, first + count - i)) for i in range(first, first + count, RUN_TILES)]
        keys, values = self.inputs.k(head), self.inputs.v(head)  # here: a head must not be drawn on two threads at once
        maxima, sums = ([SimpleQueue() for _ in range(len(parts) + 1)] for _ in range(2))
        maxima[0].put(chip.m)
        sums[0].put((chip.l, chip.acc))

        def every_second(start: int) -> list[Run]:
            runs = []
            try:
                for i in range(start, len(parts), 2):
                    k = self._full_tiles(keys, block, *parts[i], "k")  # (T, N, D)
                    v = self._full_tiles(values, block, *parts[i], "v")
                    run = self._run_of_full_tiles(chip.q, k, v, parts[i][0], maxima[i : i + 2], sums[i : i + 2])
                    if run is None:
                        break
                    runs.append(run)
            finally:
                # the other thread must not wait for what will not come
                for queue in (*maxima, *sums):
                    queue.put(None)
            return runs

        with blas_on_one_thread(), np.errstate(all="ignore"):
            here, there = _both(every_second, (0,), (1,)) if len(parts) > 1 else (every_second(0), [])
        return sorted(here + there, key=lambda run: run.end)

    def _run_of_full_tiles(
        self, q: Any, k: np.ndarray, v: np.ndarray, first: int, maxima: list[SimpleQueue], sums: list[SimpleQueue]
    ) -> Run | None:
        """The tiles k, v (T, N, D); m comes from maxima[0], (l, acc) from sums[0], and what they become goes to [1].

        None where v holds a value that is not finite, or the run before came to nothing.
        """
        if not np.isfinite(v).all():
            return None
        s = np.matmul(q, k.transpose(0, 2, 1), out=_scratch("s", (len(k), len(q), k.shape[1])))
        tops = np.empty((len(k) + 1, len(q)), np.float32)
        np.multiply(np.fmax.reduce(s, axis=2), self.qk_scale, out=tops[1:])
        s *= self.qk_scale
        before = maxima[0].get()
        if before is None:
            return None
        tops[0] = before
        m = self._running_max(tops)  # (T + 1, M)
        maxima[1].put(m[-1])
        ref = np.where(m[1:] == NEG_INF, np.float32(0), m[1:])
        alpha = np.exp2(m[:-1] - ref)
        s -= ref[:, :, None]
        p = np.exp2(s, out=s)
        totals = p.sum(axis=2)
        p = _round_to_float16(p, _scratch("p", p.shape)) if self.dtype == np.float16 else self._round(p)
        pv = np.matmul(p, v, out=_scratch("pv", (*p.shape[:2], v.shape[2])))
        before = sums[0].get()
        if before is None:
            return None
        l, acc = np.empty_like(alpha), before[1]
        running = before[0]
        for i, total in enumerate(totals):
            running = running * alpha[i] + total
            l[i] = running
            acc = acc * alpha[i][:, None]
            acc += pv[i]
        sums[1].put((running, acc))
        return Run(first + len(k), Chip(q=q, m=m[-1], l=running, acc=acc), m[1:], alpha, l)

    def _apply(self, chip: Chip, step: str, head: int, block: int, tile: int) -> Chip:
        return getattr(self, f"_{step}")(chip, head, block, tile)

    def _load_q(self, chip: Chip, head: int, block: int, tile: int) -> Chip:
        p = self.tiling.problem
        q = self._tile(self.inputs.q(head), *self.tiling.rows(block), p.block_m)
        if self.sign != 1:
            q = q * self.sign
        m = np.full(p.block_m, NEG_INF, np.float32)
        return Chip(q=q, m=m, l=np.zeros_like(m), acc=np.zeros((p.block_m, p.head_dim_pad), np.float32))

    def _load_k(self, chip: Chip, head: int, block: int, tile: int) -> Chip:
        k = self._tile(self.inputs.k(head), *self.tiling.cols(tile), self.tiling.problem.block_n)
        return Chip(q=chip.q, k=k, m=chip.m, l=chip.l, acc=chip.acc)

    def _scores(self, chip: Chip, head: int, block: int, tile: int) -> Chip:
        assert chip.q is not None and chip.k is not None
        return replace(chip, s=chip.q @ chip.k.T)

    def _mask(self, chip: Chip, head: int, block: int, tile: int) -> Chip:
        keep = self.keep(block, tile)
        assert chip.s is not None
        return replace(chip, keep=keep, s=np.where(keep, chip.s, NEG_INF))

    def _row_max(self, chip: Chip, head: int, block: int, tile: int) -> Chip:
        assert chip.s is not None and chip.m is not None
        return replace(chip, m_new=self._follow(chip.m, np.fmax.reduce(chip.s, axis=1) * self.qk_scale))

    def _follow(self, m: np.ndarray, top: np.ndarray) -> np.ndarray:
        """m after a tile whose scaled row max is `top`: the larger one, or m itself where it would grow too little."""
        m_new = np.fmax(m, top)
        return np.where(m_new - m > self.lazy_growth, m_new, m) if self.lazy_growth else m_new

    def _running_max(self, tops: np.ndarray) -> np.ndarray:
        """(T, M) m before the first of several tiles and after each, of (T, M) m and the tiles' scaled row maxima."""
        if not self.lazy_growth:
            return np.fmax.accumulate(tops, axis=0)
        for i in range(1, len(tops)):
            tops[i] = self._follow(tops[i - 1], tops[i])
        return tops

    def _alpha(self, chip: Chip, head: int, block: int, tile: int) -> Chip:
        assert chip.m is not None
        return replace(chip, alpha=np.exp2(chip.m - _reference(chip)))

    def _exponentiate(self, chip: Chip, head: int, block: int, tile: int) -> Chip:
        assert chip.s is not None
        return replace(chip, p=np.exp2(chip.s * self.qk_scale - _reference(chip)[:, None]))

    def _denominator(self, chip: Chip, head: int, block: int, tile: int) -> Chip:
        assert chip.l is not None and chip.alpha is not None and chip.p is not None
        return replace(chip, l=chip.l * chip.alpha + chip.p.sum(axis=1))

    def _rescale(self, chip: Chip, head: int, block: int, tile: int) -> Chip:
        assert chip.acc is not None and chip.alpha is not None
        return replace(chip, acc=chip.acc * chip.alpha[:, None])

    def _load_v(self, chip: Chip, head: int, block: int, tile: int) -> Chip:
        v = self._tile(self.inputs.v(head), *self.tiling.cols(tile), self.tiling.problem.block_n)
        return replace(chip, v=v)

    def _accumulate(self, chip: Chip, head: int, block: int, tile: int) -> Chip:
        assert chip.acc is not None and chip.p is not None and chip.v is not None
        p, v = self._round_p(chip.p), chip.v
        finite = np.isfinite(v)
        if finite.all():
            return replace(chip, acc=chip.acc + p @ v, m=chip.m_new)
        # a value that is not finite reaches only the rows that see its key: 0 times it would be NaN for the others
        seen = np.ones(p.shape, np.float32) if chip.keep is None else chip.keep.astype(np.float32)
        acc = chip.acc + p @ np.where(finite, v, np.float32(0))
        for special, hit in ((np.inf, v == np.inf), (-np.inf, v == -np.inf), (np.nan, np.isnan(v))):
            acc = acc + np.where(seen @ hit.astype(np.float32) > 0, np.float32(special), np.float32(0))
        return replace(chip, acc=acc, m=chip.m_new)

    def _normalise(self, chip: Chip, head: int, block: int, tile: int) -> Chip:
        assert chip.acc is not None and chip.l is not None
        safe = np.where(chip.l == 0, np.float32(1), chip.l)
        return Chip(q=chip.q, m=chip.m, l=chip.l, acc=chip.acc, o=chip.acc * (np.float32(1) / safe)[:, None])

    def _store(self, chip: Chip, head: int, block: int, tile: int) -> Chip:
        assert chip.o is not None and chip.m is not None and chip.l is not None
        return replace(chip, o=self._round(chip.o), lse=chip.m + np.log2(chip.l))

    def keep(self, block: int, tile: int) -> np.ndarray:
        """(M, N) bool: which scores of a tile are seen: the key exists, and is not after the row (causal)."""
        p = self.tiling.problem
        cols = tile * p.block_n + np.arange(p.block_n)
        keep = np.broadcast_to(cols < p.seqlen_k, (p.block_m, p.block_n))
        if p.causal:
            rows = block * p.block_m + np.arange(p.block_m)
            keep = keep & (cols[None, :] <= rows[:, None] + p.offset)
        return keep

    def _full_tiles(self, x: np.ndarray, block: int, first: int, count: int, name: str) -> np.ndarray:
        """`count` full tiles from iteration `first` on, (T, N, D) float32: neighbours in memory, so lifted at once.

        They may lie in this thread's scratch memory of that name.
        """
        problem, ends = self.tiling.problem, (self.tiling.tile(block, i) for i in (first, first + count - 1))
        low = min(ends) * problem.block_n
        rows = x[low : low + count * problem.block_n]
        rows = lift(rows, _scratch(name, rows.shape))
        if x.shape[1] < problem.head_dim_pad:
            rows = np.pad(rows, ((0, 0), (0, problem.head_dim_pad - x.shape[1])))
        tiles = rows.reshape(count, problem.block_n, -1)
        return np.ascontiguousarray(tiles[::-1]) if self.tiling.is_leftwards else tiles

    def _tile(self, x: np.ndarray, start: int, end: int, size: int) -> np.ndarray:
        """Rows start ... end of one head as a float32 tile (size, D), padded with zeros."""
        tile = np.zeros((size, self.tiling.problem.head_dim_pad), np.float32)
        tile[: end - start, : x.shape[1]] = lift(x[start:end])
        return tile

    def _round_p(self, p: np.ndarray) -> np.ndarray:
        """p as the input dtype holds it; NumPy's own cast to float16 would take longer than the rest of the loop."""
        return _round_to_float16(p) if self.dtype == np.float16 else self._round(p)

    def _round(self, x: np.ndarray) -> np.ndarray:
        """float32 values as the input dtype holds them."""
        return x if self.dtype == np.float32 else x.astype(self.dtype).astype(np.float32)


def lift(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """float32 values of any input dtype; for float16 five times as quick as NumPy's own cast, and in `out` if given."""
    if x.dtype != np.float16 or not x.size:
        return x.astype(np.float32)
    # sign and mantissa move to their places in float32; the exponent is then short of 112
    bits = np.empty(x.shape, np.int32) if out is None else out.view(np.int32)
    np.left_shift(x.view(np.int16), np.int32(13), out=bits, dtype=np.int32)
    bits &= _SIGN_AND_REST
    lifted = bits.view(np.float32)
    lifted *= np.float32(2.0**112)
    # infinities and NaNs, whose exponent means something else, come out as 65,536 and more
    return lifted if max(lifted.max(), -lifted.min()) < 65536 else x.astype(np.float32)


def _round_to_float16(p: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Values from 0 to 65,504 (or NaN), rounded to float16's nearest, ties to even, and back in float32 (in `out`)."""
    bits = p.view(np.uint32)
    near = np.right_shift(bits, np.uint32(13), out=None if out is None else out.view(np.uint32))
    near &= np.uint32(1)
    near += bits
    near += np.uint32(0xFFF)
    near &= np.uint32(0xFFFFE000)
    near = near.view(np.float32)
    # below 2^-14 float16 is spaced by 2^-24, as float32 is from 0.5 on
    small = p < np.float32(2**-14)
    if small.any():
        tiny = p + np.float32(0.5)
        tiny -= np.float32(0.5)
        np.copyto(near, tiny, where=small)
    return near


_THREAD: Final = threading.local()


def _scratch(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """float32 memory of this thread, used again and again: fresh pages would take a third of the time."""
    size, kept = math.prod(shape), _THREAD.__dict__
    if name not in kept or kept[name].size < size:
        kept[name] = np.empty(size, np.float32)
    return kept[name][:size].reshape(shape)


def _both(work: Callable[..., Any], one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, Any]:
    """work(*one) here and work(*other) on the second thread, which takes over this one's np.errstate."""
    future = _helper().submit(copy_context().run, work, *other)
    return work(*one), future.result()


@cache
def _helper() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "mirror")


def blas_on_one_thread() -> AbstractContextManager[Any]:
    """Holds BLAS to one thread: two would take forty times as long for a tile, and might round differently."""
    return _threadpools().limit(limits=1, user_api="blas")


@cache
def _threadpools() -> ThreadpoolController:
    # looking for the loaded libraries takes a millisecond, so it is done once
    return ThreadpoolController()


def _reference(chip: Chip) -> np.ndarray:
    """(M,) what the exponents are taken against: m_new, or 0 for a row that has seen no key."""
    assert chip.m_new is not None
    return np.where(chip.m_new == NEG_INF, np.float32(0), chip.m_new)
