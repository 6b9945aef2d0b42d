"""What the chip panel draws: the tiles that one program holds at a moment."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernel.mirror import Chip
from kernel.problem import ITEMSIZE, Problem
from visualizer.equations import equations
from visualizer.frame import ChipView
from visualizer.limits import power_of_two, round_up, symmetric, typical
from visualizer.state import State
from visualizer.steps import SENTENCES
from visualizer.tape import Moment, Tape

SHARED_KIB: Final = 227
REGISTERS_KIB: Final = 256
# colours reach their ends at this part of the largest value, or nearly all of a normal tile would look empty
VIVID: Final = 0.6
FRESH: Final = {"load_q": {"q", "m", "l", "acc"}, "row_max": {"m"}, "store": {"o", "lse"}, "mask": {"s"}}


def chip_view(state: State, tape: Tape, moment: Moment, row: int) -> ChipView:
    t, p, chip = tape.tiling, tape.problem, moment.chip
    head, block, _, step = moment.position
    start, end = t.rows(block)
    rows, d = end - start, p.head_dim
    cols = None if moment.tile is None else t.cols(moment.tile)
    keys = 0 if cols is None else cols[1] - cols[0]
    name = state.matrix
    if name == "auto" or (name == "p" and chip.p is None):
        name = "s" if chip.p is None else "p"
    matrix = chip.s if name == "s" else chip.p
    acc_name = "acc" if chip.o is None else "o"
    acc = chip.acc if chip.o is None else chip.o
    m, l = chip.m if chip.m_new is None else chip.m_new, chip.l
    before = tape.before(moment.index)
    level = tape.levels(head)
    held = _held(p, chip)
    total = sum(size for _, size in held)
    limit = (SHARED_KIB + REGISTERS_KIB) << 10
    top = level.s * float(tape.mirror.qk_scale)
    limit_s = round_up(VIVID * level.s) if p.scale else 1.0  # a round number, since the legend names it
    return ChipView(
        shape=(min(p.block_m, p.seqlen_q), max(1, min(p.block_n, p.seqlen_k)), d),
        s=_cut(chip.s, rows, keys),
        p=_cut(chip.p, rows, keys),
        sums=_cut(chip.acc, rows, d),
        m_old=None if before.m is None else before.m[:rows],
        l_old=None if before.l is None else before.l[:rows],
        q=_cut(chip.q, rows, d),
        k=_cut(chip.k, keys, d),
        v=_cut(chip.v, keys, d),
        matrix=_cut(matrix, rows, keys),
        matrix_name=name,
        keep=_cut(chip.keep, rows, keys),
        acc=_cut(acc, rows, d),
        acc_name=acc_name,
        m=None if m is None else m[:rows],
        m_new=None if chip.m_new is None else chip.m_new[:rows],
        alpha=None if chip.alpha is None else chip.alpha[:rows],
        l=None if l is None else l[:rows],
        lse=None if chip.lse is None else chip.lse[:rows],
        fresh=frozenset(FRESH.get(step, {SENTENCES[step][0]})),
        levels={
            "q": (-VIVID * level.q, VIVID * level.q),
            "k": (-VIVID * level.k, VIVID * level.k),
            "v": (-VIVID * level.v, VIVID * level.v),
            "s": (-limit_s, limit_s),
            "p": (0.0, power_of_two(chip.p) if p.lazy_growth else 1.0),
            "acc": typical(acc),
            "m": (-top, top),
            "alpha": (0.0, 1.0),
            "l": (0.0, power_of_two(l)),
            "lse": symmetric(chip.lse),
        },
        row=row,
        rows=(start, end),
        cols=cols,
        head_dim=d,
        qk_scale=float(tape.mirror.qk_scale),
        equations=equations(tape, moment, before, row),
        held=held,
        held_bytes=total,
        fits=total <= limit,
        caption=f"{_kib(total)} of {limit >> 10} KiB held"
        if total <= limit
        else f"{_kib(total)}: more than one SM has",
        short_captions=(f"{_kib(total)} held" if total <= limit else f"{_kib(total)}: too much",),
        limit_note=f"One Hopper SM has {SHARED_KIB} KiB of shared memory and {REGISTERS_KIB} KiB of registers.",
    )


def _held(p: Problem, chip: Chip) -> tuple[tuple[str, int], ...]:
    """Bytes of the padded tiles on the chip: q, k, v and p in the input dtype, all else in float32."""
    held = []
    for name in ("q", "k", "v", "s", "p", "m", "m_new", "alpha", "l", "acc"):
        array = getattr(chip, name)
        if array is not None and not (name == "s" and chip.p is not None):
            held.append((name, array.size * (ITEMSIZE[p.dtype] if name in ("q", "k", "v", "p") else 4)))
    return tuple(held)


def _kib(size: int) -> str:
    return f"{size / 1024:,.0f} KiB" if size >= 10240 else f"{size / 1024:.1f} KiB"


def _cut(array: np.ndarray | None, rows: int, cols: int) -> np.ndarray | None:
    return None if array is None else array[:rows, :cols]
