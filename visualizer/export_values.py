"""The numbers of a step, and L of every row, as NPZ and CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from visualizer.export import ExportError, whole
from visualizer.frame import Frame, RunView
from visualizer.resolve import resolve
from visualizer.settle import settle, settle_all
from visualizer.state import State
from visualizer.tape import Tape

ON_CHIP: Final = ("q", "k", "v", "s", "p", "acc", "m", "m_new", "alpha", "l", "lse")
PER_ROW: Final = ("m", "m_new", "alpha", "l", "lse")
WIDE: Final = ("q", "s", "p", "acc", "o")


def export_values(what: str, state: State, out: Path) -> None:
    """Writes `what`, "values" (what the program holds at the step) or "lse" (L of every row of every head), to `out`.

    A .csv has a line for each row of the block, or of all heads; k and v, whose rows are keys, are in the .npz only.
    Raises ExportError.
    """
    tape = Tape(state.problem)
    if what == "lse":
        settle_all(tape)
    else:
        settle(tape, state.step, others=False)
    save(what, resolve(state, tape, RunView()), tape, state, out)


def save(what: str, frame: Frame, tape: Tape, state: State, out: Path, kernel_lse: np.ndarray | None = None) -> None:
    """As export_values, from what is at hand: L is NaN, in a .csv nothing, where it is not worked out yet.

    kernel_lse (num_heads, seqlen_q): that of a run, in base 2.
    """
    if frame.empty is not None:
        raise ExportError(f"There is nothing to export: {frame.empty}")
    with whole(out) as part:
        if out.suffix.lower() == ".npz":
            found = lse_arrays(tape, kernel_lse) if what == "lse" else arrays(frame)
            with part.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **found)
        else:
            table = _lse_table(tape, state, kernel_lse) if what == "lse" else _step_table(frame)
            with part.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(table)


def arrays(frame: Frame) -> dict[str, Any]:
    """What is on the chip, by name; what the step has not loaded or computed yet is missing.

    q (R, D), negated where sm_scale is negative, k and v (C, D), s and p (R, C), acc or o (R, D), m, m_new, alpha, l
    (R,), lse (R,) in base 2 once stored; row and key: which rows and keys of the head these are.
    """
    assert frame.chip is not None and frame.transport is not None
    return {
        "step": frame.transport.step,
        "step_index": frame.transport.index,
        "head": frame.transport.head,
        "row": np.arange(*frame.chip.rows),
        "key": np.arange(*(frame.chip.cols or (0, 0))),
        **_held(frame),
    }


def lse_arrays(tape: Tape, kernel_lse: np.ndarray | None) -> dict[str, np.ndarray]:
    """lse_mirror, after a run lse_kernel (batch, heads, seqlen_q); lse_exact at the rows lse_exact_rows; base 2."""
    p = tape.problem
    found = {
        "lse_mirror": tape.lse.reshape(p.batch, p.heads, p.seqlen_q),
        "lse_exact": tape.exact_lse.reshape(p.batch, p.heads, len(tape.exact_rows)),
        "lse_exact_rows": tape.exact_rows,
    }
    if kernel_lse is not None:
        found["lse_kernel"] = kernel_lse.reshape(p.batch, p.heads, p.seqlen_q)
    return found


def _held(frame: Frame) -> dict[str, np.ndarray]:
    """What the chip holds, cut to the rows and keys that exist; bfloat16 as float32, which NumPy can save."""
    chip = frame.chip
    assert chip is not None
    values = {}
    for name in ON_CHIP:
        array = getattr(chip, name)
        if array is not None:
            values[chip.acc_name if name == "acc" else name] = np.asarray(array)
    if chip.acc_name == "o" and chip.sums is not None:
        values["acc"] = np.asarray(chip.sums)
    return {n: x.astype(np.float32) if x.dtype.name == "bfloat16" else x for n, x in values.items()}


def _step_table(frame: Frame) -> Iterator[list[Any]]:
    """step, head, row, m, …, then q[column], s[key], p[key], acc[column]; a line for each row of the block."""
    chip = frame.chip
    assert chip is not None and frame.transport is not None
    values = _held(frame)
    scalars = [name for name in PER_ROW if name in values]
    wide = [name for name in WIDE if name in values]
    first_key = (chip.cols or (0, 0))[0]
    titles = ["step", "head", "row", *scalars]
    for name in wide:
        start = first_key if name in ("s", "p") else 0
        titles += [f"{name}[{start + i}]" for i in range(values[name].shape[1])]
    yield titles
    for i in range(chip.rows[1] - chip.rows[0]):
        place = [frame.transport.index, frame.transport.head, chip.rows[0] + i]
        line: list[Any] = [*place, *(_text(values[name][i]) for name in scalars)]
        for name in wide:
            line += [_text(x) for x in values[name][i]]
        yield line


def _lse_table(tape: Tape, state: State, kernel_lse: np.ndarray | None) -> Iterator[list[Any]]:
    """batch, head, row, lse of mirror, of the kernel after a run, and exact, in the unit that is shown; base 2 or e."""
    p = tape.problem
    factor = np.float32(1 if state.lse_unit == "log2" else np.log(2))
    exact = np.full((p.num_heads, p.seqlen_q), np.nan)
    exact[:, tape.exact_rows] = tape.exact_lse
    known = {"mirror": tape.lse, **({} if kernel_lse is None else {"kernel": kernel_lse}), "exact": exact}
    columns = {
        name: x * (factor if x.dtype == np.float32 else (1.0 if state.lse_unit == "log2" else np.log(2)))
        for name, x in known.items()
    }
    yield ["batch", "head", "row", *(f"lse_{state.lse_unit}_{name}" for name in columns)]
    for head in range(p.num_heads):
        for row in range(p.seqlen_q):
            numbers = (x[head, row] for x in columns.values())
            yield [head // p.heads, head % p.heads, row, *("" if np.isnan(x) else _text(x) for x in numbers)]


def _text(x: Any) -> str:
    """A number in as many digits as its own type needs to be read back exactly."""
    return np.format_float_positional(x, trim="-") if 1e-4 <= abs(x) < 1e6 or x == 0 else str(x)
