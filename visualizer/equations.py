"""The arithmetic of one row of the block, with its numbers put in."""

from __future__ import annotations

import math

import numpy as np

from kernel.mirror import Chip
from visualizer.explain import less, number
from visualizer.frame import Equation
from visualizer.tape import Moment, Tape


def equations(tape: Tape, moment: Moment, before: Chip, row: int) -> tuple[Equation, ...]:
    """What has happened to the row so far in this iteration, oldest first; `before` is the chip when it began."""
    chip, step = moment.chip, moment.position.step
    if step == "load_q":
        return (Equation("m", "m = -inf"), Equation("l", "l = 0"), Equation("acc", "acc = 0"))
    if step in ("normalise", "store"):
        return _end(chip, row)
    if chip.s is None or moment.tile is None:
        assert chip.m is not None and chip.l is not None
        return (Equation("m", f"m = {number(chip.m[row])}"), Equation("l", f"l = {number(chip.l[row])}"))
    start, end = tape.tiling.cols(moment.tile)
    lines = [_scores(chip, row, start, end)]
    if chip.m_new is not None:
        lines += _softmax(chip, before, row, end - start, float(tape.mirror.qk_scale), step)
    if step in ("rescale", "load_v", "accumulate") and chip.acc is not None:
        text = "acc ← acc·α + p·v" if step == "accumulate" else "acc ← acc·α"
        lines.append(Equation("acc", f"{text}: acc[0] = {number(chip.acc[row, 0])}"))
    return tuple(lines)


def _end(chip: Chip, row: int) -> tuple[Equation, ...]:
    assert chip.m is not None and chip.l is not None and chip.acc is not None and chip.o is not None
    l = float(chip.l[row])
    text = f"o[0] = acc[0] / l = {number(chip.acc[row, 0])} / {number(l)} = {number(chip.o[row, 0])}"
    first = Equation("o", "o = 0", "the row saw no key: l = 0") if l == 0 else Equation("o", text)
    if chip.lse is None:
        return (first,)
    text = f"L = m + log₂ l = {number(chip.m[row])} + log₂ {number(l)} = {number(chip.lse[row])}"
    return (first, Equation("lse", text, "for the backward pass"))


def _scores(chip: Chip, row: int, start: int, end: int) -> Equation:
    assert chip.s is not None
    scores = chip.s[row, : end - start]
    hidden = 0 if chip.keep is None else int((~chip.keep[row, : end - start]).sum())
    if hidden == end - start:
        return Equation("s", "s = -inf for every key of this tile", "masked for this row")
    if np.isnan(scores).any():
        return Equation("s", f"s is NaN for {int(np.isnan(scores).sum())} keys", "and so will be p, l and acc")
    best = int(scores.argmax())
    note = f"{hidden} of {end - start} keys masked" if hidden else ""
    return Equation("s", f"max s = q·k[{start + best}] = {number(scores[best])}", note)


def _softmax(chip: Chip, before: Chip, row: int, keys: int, scale: float, step: str) -> list[Equation]:
    """m, and as far as they are there, alpha, the sum of p, and l."""
    assert chip.s is not None and chip.m_new is not None and before.m is not None and before.l is not None
    old, new = float(before.m[row]), float(chip.m_new[row])
    top = float(np.fmax.reduce(chip.s[row, :keys])) * scale
    text = f"m ← max(m, max s·{number(scale)}) = max({number(old)}, {number(top)}) = {number(new)}"
    lines = [Equation("m", text, "moved" if new > old else "stays")]
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
