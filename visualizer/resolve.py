"""resolve(state, tape, run) -> Frame: the one place where a moment becomes what the panels draw."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from kernel.problem import Problem
from kernel.source import kernel_source
from visualizer.frame import (
    ChipView,
    Frame,
    LedgerView,
    RowsView,
    RunView,
    SourceView,
    TilesView,
    TransportView,
)
from visualizer.limits import m_limits, power_of_two
from visualizer.numbers import number, span
from visualizer.resolve_chip import chip_view
from visualizer.resolve_lse import lse_view
from visualizer.state import State
from visualizer.steps import LAZY_MAX, SENTENCES
from visualizer.tape import Moment, Tape

MAX_BANDS: Final = 4096
LOADS: Final = {"load_q": "q", "load_k": "k", "load_v": "v"}


def resolve(state: State, tape: Tape, run: RunView) -> Frame:
    """The Frame of `state`: a function of the state, the problem's values and the last run, and of nothing else.

    `state.step` and `state.row` are clipped to what exists.
    """
    p = state.problem
    if not len(tape):
        what = "batch" if p.batch == 0 else "seqlen_q"
        return Frame(problem=p, run=run, empty=f"{what} is 0: there are no query rows, so no program runs.")
    moment = tape[min(state.step, len(tape) - 1)]
    row = _row(state, tape, moment)
    chip = chip_view(state, tape, moment, row)
    return replace(
        _around(state, tape, moment, row, run, chip),
        tiles=_tiles(tape, moment),
        chip=chip,
        rows=_rows(tape, moment, row),
    )


def resolve_place(state: State, tape: Tape, run: RunView) -> Frame:
    """What the Frame of `state` holds besides the values of its step, at once, however far they are: `coming`."""
    moment = tape.place(min(state.step, len(tape) - 1))
    frame = replace(_around(state, tape, moment, _row(state, tape, moment), run, None), coming=True)
    return replace(frame, tiles=_tiles(tape, moment)) if tape.has_inputs(moment.index) else frame


def _around(state: State, tape: Tape, moment: Moment, row: int, run: RunView, chip: ChipView | None) -> Frame:
    """The views that are there without the values of the step."""
    p = state.problem
    return Frame(
        problem=p,
        run=run,
        lse=lse_view(state, tape, moment, row, run),
        source=_source(p, moment, chip),
        ledger=_ledger(tape, moment, run),
        transport=_transport(tape, moment),
        options={"lse_unit": state.lse_unit, "matrix": state.matrix},
    )


def _row(state: State, tape: Tape, moment: Moment) -> int:
    start, end = tape.tiling.rows(moment.position.block)
    return min(state.row, end - start - 1)


def _tiles(tape: Tape, moment: Moment) -> TilesView:
    t, p = tape.tiling, tape.problem
    head, block, iteration, step = moment.position
    done = np.where(np.arange(t.num_q_blocks) < block, t.visited, 0)
    done[block] = t.visited[block] if step in ("normalise", "store") else max(iteration, 0) + (step == "accumulate")
    total, visited = t.num_q_blocks * t.num_k_blocks, int(t.visited.sum())
    caption = f"program {head * t.num_q_blocks + block + 1:,} of {t.num_programs:,}"
    if moment.tile is not None:
        caption += f" · tile {iteration + 1:,} of {t.visited[block]:,}"
    return TilesView(
        head=head,
        num_heads=p.num_heads,
        kv_head=p.kv_head(head),
        num_q_blocks=t.num_q_blocks,
        num_k_blocks=t.num_k_blocks,
        block_m=p.block_m,
        block_n=p.block_n,
        seqlen_q=p.seqlen_q,
        seqlen_k=p.seqlen_k,
        full=t.full,
        visited=t.visited,
        done=done,
        q=tape.inputs.q(head),
        k=tape.inputs.k(head),
        level=tape.levels(head).s,
        block=block,
        tile=moment.tile,
        load=LOADS.get(step),
        scored=step not in ("load_q", "load_k"),
        store=step == "store",
        caption=caption,
        skipped=total - visited,
        total=total,
        is_leftwards=t.is_leftwards,
    )


def _rows(tape: Tape, moment: Moment, row: int) -> RowsView:
    chip = moment.chip
    head, block, iteration, step = moment.position
    start, end = tape.tiling.rows(block)
    count = end - start
    history = tape.history(moment.index)
    done = len(history.m)
    m = chip.m if chip.m_new is None else chip.m_new
    alpha, alpha_tile = chip.alpha, iteration
    if alpha is None:
        alpha_tile = done - 1
        alpha = history.alpha[-1] if done else np.full(count, np.nan, np.float32)
    moved = None
    if chip.m_new is not None and chip.m is not None:
        old = tape.before(moment.index).m if step == "accumulate" else chip.m  # its last step makes m = m_new
        assert old is not None
        moved = int((chip.m_new > old)[:count].sum())
    assert m is not None and chip.l is not None
    return RowsView(
        rows=(start, end),
        row=row,
        m=m[:count],
        alpha=alpha[:count],
        l=chip.l[:count],
        alpha_tile=alpha_tile,
        history_m=history.m[:, row],
        history_alpha=history.alpha[:, row],
        history_l=history.l[:, row],
        m_range=m_limits(tape.levels(head).s * float(tape.mirror.qk_scale), m[:count], history.m[:, :count]),
        l_range=(0.0, max(power_of_two(chip.l[:count]), power_of_two(history.l[:, :count]))),
        iterations=int(tape.tiling.visited[block]),
        iteration=iteration,
        moved=moved,
        caption=span("row", start, end),
    )


def _source(p: Problem, moment: Moment, chip: ChipView | None) -> SourceView:
    source = kernel_source(p.backend)
    step = moment.position.step
    known = {
        "CAUSAL": p.causal,
        "SIGN": (p.scale > 0) - (p.scale < 0),
        "CAREFUL": False,
        "WIDE": False,
        "rest_ptr": None,
    }
    known["PARTIAL"] = moment.chip.keep is not None
    return SourceView(
        source=source,
        step=step,
        lines=source.lines_run(step, known),
        note="" if chip is None else _note(moment, chip),
        quantity=SENTENCES[step][0],
    )


def _ledger(tape: Tape, moment: Moment, run: RunView) -> LedgerView:
    t = tape.tiling
    now, total, naive = t.traffic(moment.index), t.traffic(len(tape) - 1), t.naive_traffic()
    result = run.result if run.result is not None and run.result.timed_on_gpu and not run.stale else None
    tflops = result.times[0].tflops if result is not None and result.times else math.nan
    return LedgerView(
        read=now.read,
        written=now.written,
        flops=now.flops,
        total_read=total.read,
        total_written=total.written,
        total_flops=total.flops,
        naive_read=naive.read,
        naive_written=naive.written,
        naive_flops=naive.flops,
        intensity=total.flops / max(1, total.read + total.written),
        naive_intensity=naive.flops / max(1, naive.read + naive.written),
        tflops=tflops if math.isfinite(tflops) else None,
        device=None if result is None else result.device,
    )


def _transport(tape: Tape, moment: Moment) -> TransportView:
    t = tape.tiling
    head, block, _, step = moment.position
    first = t.program_start(head, block)
    return TransportView(
        index=moment.index,
        total=len(tape),
        head=head,
        num_heads=tape.problem.num_heads,
        program=head * t.num_q_blocks + block,
        num_programs=t.num_programs,
        program_steps=(first, first + t.steps_of_program(block)),
        bands=t.bands if t.num_programs <= MAX_BANDS else None,
        steps_per_head=t.steps_per_head,
        step=step,
        sentence=LAZY_MAX if step == "row_max" and tape.problem.lazy_growth else SENTENCES[step][1],
        quantity=SENTENCES[step][0],
        filled=tape.programs_filled / t.num_programs,
    )


def _note(moment: Moment, chip: ChipView) -> str:
    """The values that stand beside the source line of the step, for the selected row."""
    step, row = moment.position.step, chip.row
    if step in ("load_q", "load_k", "load_v"):
        tile = {"load_q": chip.q, "load_k": chip.k, "load_v": chip.v}[step]
        first = chip.rows[0] if step == "load_q" else (chip.cols or (0, 0))[0]
        what = "row" if step == "load_q" else "key"
        return "" if tile is None else span(what, first, first + len(tile))
    if step == "row_max" and chip.m_new is not None and moment.chip.m is not None:
        moved = int((chip.m_new > moment.chip.m[: len(chip.m_new)]).sum())
        return f"m_new[{row}] = {number(chip.m_new[row])}   moved in {moved} of {len(chip.m_new)} rows"
    if step == "mask" and chip.keep is not None:
        return f"{int((~chip.keep).sum()):,} of {chip.keep.size:,} scores masked"
    values = {
        "scores": None if chip.matrix is None else f"max s[{row}] = {number(chip.matrix[row].max(initial=-np.inf))}",
        "alpha": None if chip.alpha is None else f"alpha[{row}] = {number(chip.alpha[row])}",
        "exponentiate": None if moment.chip.p is None else f"Σ p[{row}] = {number(moment.chip.p[row].sum())}",
        "denominator": None if chip.l is None else f"l[{row}] = {number(chip.l[row])}",
        "store": None if chip.lse is None else f"lse[{row}] = {number(chip.lse[row])}",
    }
    if step in ("rescale", "accumulate", "normalise") and chip.acc is not None:
        return f"{chip.acc_name}[{row}, 0] = {number(chip.acc[row, 0])}"
    return values.get(step) or ""
