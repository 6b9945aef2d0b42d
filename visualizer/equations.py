"""The arithmetic of one row of the block, with its numbers put in."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from kernel.mirror import Chip
from visualizer.frame import Equation
from visualizer.numbers import MINUS, less, number
from visualizer.tape import Moment, Tape

SUMMED: Final = ("rescale", "load_v", "accumulate")  # the steps from which on acc and l are this iteration's


def equations(tape: Tape, moment: Moment, before: Chip, row: int) -> tuple[Equation, ...]:
    """What the row holds and what has happened to it so far in this iteration, the newest last.

    `before` is the chip when the iteration began.
    """
    chip, step = moment.chip, moment.position.step
    if step == "load_q":
        return (Equation("m", f"m = {MINUS}∞"), Equation("l", "l = 0"), Equation("acc", "acc = 0"))
    if step in ("normalise", "store"):
        return _end(chip, row, tape.problem.dtype)
    held = _held(chip, row, step)
    if chip.s is None or moment.tile is None:
        return held
    start, end = tape.tiling.cols(moment.tile)
    first = tape.tiling.rows(moment.position.block)[0]
    lines = [*held, _scores(chip, row, first + row, start, end)]
    if chip.m_new is not None:
        scale, growth = float(tape.mirror.qk_scale), float(tape.mirror.lazy_growth)
        lines += _softmax(chip, before, row, end - start, scale, growth, step)
    if step in SUMMED:
        lines.append(_acc(chip, before, row, step))
    return tuple(lines)


def _acc(chip: Chip, before: Chip, row: int, step: str) -> Equation:
    assert chip.acc is not None and before.acc is not None and chip.alpha is not None
    old, alpha, new = float(before.acc[row, 0]), float(chip.alpha[row]), float(chip.acc[row, 0])
    if step != "accumulate":
        return Equation("acc", f"acc[0] ← acc[0]·α = {number(old)}·{number(alpha)} = {number(new)}")
    more = new - old * alpha
    sign = MINUS if more < 0 else "+"
    parts = f"{number(old * alpha)} {sign} {number(abs(more))}"
    return Equation("acc", f"acc[0] ← acc[0]·α + p·v = {parts} = {number(new)}")


def _held(chip: Chip, row: int, step: str) -> tuple[Equation, ...]:
    """acc, m and l as far as this iteration has not touched them."""
    assert chip.m is not None and chip.l is not None and chip.acc is not None
    held = []
    if step not in SUMMED:
        held.append(Equation("acc", f"acc[0] = {number(chip.acc[row, 0])}"))
    if chip.m_new is None:
        held.append(Equation("m", f"m = {number(chip.m[row])}"))
    if step not in (*SUMMED, "denominator"):
        held.append(Equation("l", f"l = {number(chip.l[row])}"))
    return tuple(held)


def _end(chip: Chip, row: int, dtype: str) -> tuple[Equation, ...]:
    """What the row has gathered, what o and L become of it."""
    assert chip.m is not None and chip.l is not None and chip.acc is not None and chip.o is not None
    m, l, acc, o = number(chip.m[row]), number(chip.l[row]), number(chip.acc[row, 0]), number(chip.o[row, 0])
    lines = [
        Equation("m", f"m = {m}", "largest s·scale of the row"),
        Equation("l", f"l = {l}", "Σ p of the row, relative to 2^m"),
        Equation("acc", f"acc[0] = {acc}", "Σ p·v of the row, not divided yet"),
    ]
    stored = f"stored as {dtype}" if chip.lse is not None else ""
    if chip.l[row] == 0:
        lines.append(Equation("o", "o = 0", f"the row saw no key: l = 0{f'; {stored}' if stored else ''}"))
    else:
        lines.append(Equation("o", f"o[0] = acc[0] / l = {acc} / {l} = {o}", stored))
    if chip.lse is not None:
        text = f"L = m + log₂ l = {m} + log₂ {l} = {number(chip.lse[row])}"
        lines.append(Equation("lse", text, "kept for backward"))
    return tuple(lines)


def _scores(chip: Chip, row: int, query: int, start: int, end: int) -> Equation:
    """`row` of the block is row `query` of q; the keys of the tile are start ... end - 1."""
    assert chip.s is not None
    scores = chip.s[row, : end - start]
    hidden = 0 if chip.keep is None else int((~chip.keep[row, : end - start]).sum())
    if hidden == end - start:
        return Equation("s", f"s = {MINUS}∞ for every key of this tile", "masked for this row")
    if np.isnan(scores).any():
        return Equation("s", f"s is NaN for {int(np.isnan(scores).sum())} keys", "and so will be p, l and acc")
    best = int(scores.argmax())
    note = f"{hidden} of {end - start} keys masked" if hidden else ""
    return Equation("s", f"max s = q[{query}]·k[{start + best}] = {number(scores[best])}", note)


def _softmax(chip: Chip, before: Chip, row: int, keys: int, scale: float, growth: float, step: str) -> list[Equation]:
    """m, and as far as they are there, alpha, the sum of p, and l."""
    assert chip.s is not None and chip.m_new is not None and before.m is not None and before.l is not None
    old, new = float(before.m[row]), float(chip.m_new[row])
    top = float(np.fmax.reduce(chip.s[row, :keys])) * scale
    text = f"m ← max(m, max s·{number(scale)}) = max({number(old)}, {number(top)}) = {number(new)}"
    note = "moved" if new > old else "stays"
    if growth:
        text = f"max s·{number(scale)} = {number(top)}, m = {number(old)}: m ← {number(new)}"
        note = note if new > old or top <= old else f"stays: grows by less than {number(growth)}"
    lines = [Equation("m", text, note)]
    # a row that has seen no key has nothing to subtract
    minus = "" if new == -math.inf else less(new)
    if chip.alpha is not None:
        alpha = float(chip.alpha[row])
        note = "nothing yet" if old == -math.inf else "nothing to rescale" if alpha == 1 else "rescales l and acc"
        lines.append(Equation("alpha", f"α = 2^({number(old)}{minus}) = {number(alpha)}", note))
    if chip.p is not None:
        total = float(chip.p[row].sum())
        lines.append(Equation("p", f"Σ p = Σ 2^(s·{number(scale)}{minus}) = {number(total)}"))
        if step != "exponentiate" and chip.l is not None and chip.alpha is not None:
            parts = f"{number(before.l[row])}·{number(chip.alpha[row])} + {number(total)}"
            lines.append(Equation("l", f"l ← l·α + Σ p = {parts} = {number(chip.l[row])}"))
    return lines
