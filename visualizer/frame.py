"""The frozen picture of one moment: every number and word that the panels draw, and nothing that they must work out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kernel.problem import Problem
from kernel.results import RunResult, Timing
from kernel.source import KernelSource

QUANTITIES: Final = ("q", "k", "v", "s", "p", "acc", "o", "m", "alpha", "l", "lse")


@dataclass(frozen=True, slots=True)
class Equation:
    """One line of arithmetic with the numbers put in; `quantity` says its colour."""

    quantity: str
    text: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TilesView:
    """The score matrix of one head as tiles.

    full, visited, done: (num_q_blocks,) int64: per row of tiles, how many are full, visited (full and partial; the rest
    is skipped), and finished up to this step. q (seqlen_q, head_dim) and k (seqlen_k, head_dim): the head's inputs,
    from which single scores come where the map is zoomed in far; level: the largest score to expect. block and tile:
    the program and tile at hand (tile None outside the loop). load: the strip whose tile goes to the chip in this step,
    "q", "k", "v" or None; scored: the tile at hand has its scores; store: o leaves.
    """

    head: int
    num_heads: int
    kv_head: int
    num_q_blocks: int
    num_k_blocks: int
    block_m: int
    block_n: int
    seqlen_q: int
    seqlen_k: int
    full: np.ndarray
    visited: np.ndarray
    done: np.ndarray
    q: np.ndarray
    k: np.ndarray
    level: float
    block: int
    tile: int | None
    load: str | None
    scored: bool
    store: bool
    caption: str
    skipped: int
    total: int
    is_leftwards: bool

    def done_tiles(self, block: int) -> tuple[int, int]:
        """First and end of the finished tiles of a row of tiles."""
        done, visited = int(self.done[block]), int(self.visited[block])
        return (visited - done, visited) if self.is_leftwards else (0, done)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipView:
    """What the program holds, cut to the rows and columns that exist (R rows, C keys, D head_dim); None: not held.

    q (R, D), k (C, D), v (C, D), matrix (R, C) the scores or probabilities as matrix_name says, keep (R, C) bool or
    None, acc (R, D) or, once divided, o; m, m_new, alpha, l (R,). s, p, sums (acc before the division), m_old and l_old
    what the shown values come from. shape: (R, C, D) of the program's largest tile, so that a ragged one keeps the
    others' scale. fresh: the quantities that this step wrote. levels: fixed colour limits by quantity. held: bytes on
    the chip by quantity, in the kernel's dtypes, held_bytes their sum; fits: within one SM. short_captions say less
    than caption, for narrow panels.
    """

    shape: tuple[int, int, int]
    s: np.ndarray | None
    p: np.ndarray | None
    sums: np.ndarray | None
    m_old: np.ndarray | None
    l_old: np.ndarray | None

    q: np.ndarray | None
    k: np.ndarray | None
    v: np.ndarray | None
    matrix: np.ndarray | None
    matrix_name: str
    keep: np.ndarray | None
    acc: np.ndarray | None
    acc_name: str
    m: np.ndarray | None
    m_new: np.ndarray | None
    alpha: np.ndarray | None
    l: np.ndarray | None
    lse: np.ndarray | None
    fresh: frozenset[str]
    levels: dict[str, tuple[float, float]]
    row: int
    rows: tuple[int, int]
    cols: tuple[int, int] | None
    head_dim: int
    qk_scale: float
    equations: tuple[Equation, ...]
    held: tuple[tuple[str, int], ...]
    held_bytes: int
    fits: bool
    caption: str
    short_captions: tuple[str, ...]
    limit_note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsView:
    """m, alpha and l over the rows of the block (R,), NaN where not yet known, and their history for the selected row.

    alpha_tile: the iteration that alpha belongs to: this one, or, before its own is known, the one before; -1 for none.
    history_*: (iterations finished,) float32; iterations: how many the program will have. m_range, l_range: limits of
    the axes, which only ever widen while a program runs.
    """

    rows: tuple[int, int]
    row: int
    m: np.ndarray
    alpha: np.ndarray
    l: np.ndarray
    alpha_tile: int
    history_m: np.ndarray
    history_alpha: np.ndarray
    history_l: np.ndarray
    m_range: tuple[float, float]
    l_range: tuple[float, float]
    iterations: int
    iteration: int
    moved: int | None
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LseView:
    """L of every row of the head at hand, in `unit` ("log2" or "ln").

    mirror (seqlen_q,) NaN where not stored yet; kernel (seqlen_q,) or None before a run; exact at exact_rows, NaN
    where not computed yet. difference_* are kernel (or, before a run, mirror) minus exact and kernel minus mirror, at
    the rows where both are known. max_*: the largest of them, None where nothing is known, NaN where the kernel's L is
    NaN and the other is not. stored_rows: how many rows the mirror has stored. blind_rows: the first so many rows see
    no key, so their L is -inf. value_range and difference_range: limits of the axes, rounded outwards, from all that
    is known of this head, None where no finite value is. is_coming: the mirror has not worked out every row yet.
    mirror_difference is kernel minus mirror (seqlen_q,). The arrays of two frames are the same objects where nothing
    has changed.
    """

    head: int
    num_rows: int
    blind_rows: int
    value_range: tuple[float, float] | None
    difference_range: float | None
    is_coming: bool
    unit: str
    mirror: np.ndarray
    kernel: np.ndarray | None
    exact_rows: np.ndarray
    exact: np.ndarray
    difference_name: str
    difference: np.ndarray
    mirror_difference: np.ndarray | None
    row: int
    rows: tuple[int, int]
    stored_rows: int
    max_kernel_exact: float | None
    max_mirror_exact: float | None
    max_kernel_mirror: float | None
    sampled: bool
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """The kernel's source, the lines (1-based in the file) of this step, and the values to put beside the first one."""

    source: KernelSource
    step: str
    lines: tuple[int, ...]
    note: str
    quantity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedView:
    """A saved benchmark at the shape nearest to the problem; is_same: the problem's own mask, head_dim and seqlen.

    times (forward) and backward are in the file's order, ms NaN where there is none; ratios are how many times as fast
    as cuDNN each is.
    """

    file: str
    gpu: str
    date: str
    versions: tuple[str, ...]
    card: str
    shape: str
    is_same: bool
    times: tuple[Timing, ...]
    ratios: tuple[float, ...]
    backward: tuple[Timing, ...]
    backward_ratios: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """The kernel run: phase "none", "running", "done", "failed" or "cancelled"; stage and fraction while running.

    stale: the result belongs to another problem than the one shown. saved: a benchmark from a file, shown instead of
    this machine's run. worker: one line on the worker's state ("worker
    ready"); device: where it runs, in its own words ("NVIDIA H200 · Triton 3.6.0"), empty before it is up.
    """

    phase: str = "none"
    stage: str = ""
    fraction: float | None = None
    message: str = ""
    worker: str = ""
    device: str = ""
    result: RunResult | None = None
    stale: bool = False
    saved: SavedView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerView:
    """Bytes and FLOPs done up to this step, of the whole run, and of the naive algorithm; intensity in FLOP per byte.

    tflops: the measured speed of the last GPU run of this problem, or None.
    """

    read: int
    written: int
    flops: int
    total_read: int
    total_written: int
    total_flops: int
    naive_read: int
    naive_written: int
    naive_flops: int
    intensity: float
    naive_intensity: float
    tflops: float | None
    device: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportView:
    """Where the tape stands.

    bands: (num_programs + 1,) the first step of each program, in launch order; None above 4,096 programs.
    """

    index: int
    total: int
    head: int
    num_heads: int
    program: int
    num_programs: int
    program_steps: tuple[int, int]
    bands: np.ndarray | None
    steps_per_head: int
    step: str
    sentence: str
    quantity: str
    filled: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One moment of one problem. `empty` says why there is nothing to show; then only problem and run are set.

    coming: the step's values are still being computed, or its inputs drawn; the views that need them are None.
    """

    problem: Problem
    run: RunView
    empty: str | None = None
    coming: bool = False
    tiles: TilesView | None = None
    chip: ChipView | None = None
    rows: RowsView | None = None
    lse: LseView | None = None
    source: SourceView | None = None
    ledger: LedgerView | None = None
    transport: TransportView | None = None
    options: dict[str, str] = field(default_factory=dict)
