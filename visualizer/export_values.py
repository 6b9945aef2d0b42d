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
from visualizer.settle import settle
from visualizer.state import State
from visualizer.tape import Tape

ON_CHIP: Final = ("q", "k", "v", "s", "p", "acc", "m", "m_new", "alpha", "l", "lse")
PER_ROW: Final = ("m", "m_new", "alpha", "l", "lse")
WIDE: Final = (("s", "cols"), ("p", "cols"), ("acc", "dims"), ("o", "dims"))


def export_values(what: str, state: State, out: Path, run: RunView | None = None) -> None:
    """Writes `what`, "values" (what the program holds at the step) or "lse" (L of the head at hand), to `out`.

    An .npz holds both in full; a .csv has a line for each row of the block, or of the head. Raises ExportError.
    """
    tape = Tape(state.problem)
    settle(tape, state.step)
    save(what, resolve(state, tape, run or RunView()), tape, state, out)


def save(what: str, frame: Frame, tape: Tape, state: State, out: Path) -> None:
    """As export_values, from a frame that is at hand."""
    if frame.empty is not None:
        raise ExportError(f"There is nothing to export: {frame.empty}")
    with whole(out) as part:
        if out.suffix.lower() == ".npz":
            with part.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **arrays(frame, tape, state))
        else:
            with part.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(_lse_table(frame) if what == "lse" else _step_table(frame, tape, state))


def arrays(frame: Frame, tape: Tape, state: State) -> dict[str, Any]:
    """Everything by name.

    On the chip: q (R, D), negated where sm_scale is negative, k and v (C, D), s and p (R, C), acc or o (R, D), m,
    m_new, alpha, l (R,), lse (R,) once stored; row and key: which rows and keys of the head these are. L of the head:
    lse_mirror (seqlen_q,), lse_exact at the rows lse_exact_rows, lse_kernel after a run; all in base 2.
    """
    assert frame.chip is not None and frame.lse is not None and frame.transport is not None
    values = _held(frame, tape, state)
    rows = frame.chip.rows
    found: dict[str, Any] = {
        "step": frame.transport.step,
        "step_index": frame.transport.index,
        "head": frame.transport.head,
        "row": np.arange(*rows),
        "key": np.arange(*(frame.chip.cols or (0, 0))),
        **values,
    }
    view = frame.lse
    factor = 1.0 if view.unit == "log2" else 1 / np.log(2)
    found["lse_mirror"] = (view.mirror * factor).astype(np.float32)
    found["lse_exact"], found["lse_exact_rows"] = view.exact * factor, view.exact_rows
    if view.kernel is not None:
        found["lse_kernel"] = (view.kernel * factor).astype(np.float32)
    return found


def _held(frame: Frame, tape: Tape, state: State) -> dict[str, np.ndarray]:
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


def _step_table(frame: Frame, tape: Tape, state: State) -> Iterator[list[Any]]:
    """row, m, …, then s[key], p[key], acc[column]; a line for each row of the block."""
    chip = frame.chip
    assert chip is not None
    values = _held(frame, tape, state)
    scalars = [name for name in PER_ROW if name in values]
    wide = [name for name, _ in WIDE if name in values]
    first_key = (chip.cols or (0, 0))[0]
    titles = ["row", *scalars]
    for name in wide:
        start = first_key if name in ("s", "p") else 0
        titles += [f"{name}[{start + i}]" for i in range(values[name].shape[1])]
    yield titles
    for i in range(chip.rows[1] - chip.rows[0]):
        line: list[Any] = [chip.rows[0] + i, *(_text(values[name][i]) for name in scalars)]
        for name in wide:
            line += [_text(x) for x in values[name][i]]
        yield line


def _lse_table(frame: Frame) -> Iterator[list[Any]]:
    """row, lse_mirror, lse_kernel after a run, lse_exact; empty where not known. In the unit that is shown."""
    view = frame.lse
    assert view is not None
    exact = np.full(view.num_rows, np.nan)
    exact[view.exact_rows] = view.exact
    columns = {"mirror": view.mirror, **({} if view.kernel is None else {"kernel": view.kernel}), "exact": exact}
    yield ["head", "row", *(f"lse_{view.unit}_{name}" for name in columns)]
    for row in range(view.num_rows):
        yield [view.head, row, *("" if np.isnan(x[row]) else _text(x[row]) for x in columns.values())]


def _text(x: Any) -> str:
    """A number in as many digits as its own type needs to be read back exactly."""
    return np.format_float_positional(x, trim="-") if 1e-4 <= abs(x) < 1e6 or x == 0 else str(x)
