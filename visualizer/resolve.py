"""resolve(state, tape, run) -> Frame: the one place where a moment becomes what the panels draw."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from kernel.mirror import Chip
from kernel.problem import ITEMSIZE, Problem
from kernel.results import RunResult
from kernel.source import kernel_source
from visualizer.equations import equations
from visualizer.frame import (
    ChipView,
    Frame,
    LedgerView,
    LseView,
    RowsView,
    RunView,
    SourceView,
    TilesView,
    TransportView,
)
from visualizer.limits import one_two_five, outwards
from visualizer.numbers import number, span
from visualizer.state import State
from visualizer.tape import Moment, Tape

LN2: Final = math.log(2)
MAX_BANDS: Final = 4096
SHARED_KIB: Final = 227
REGISTERS_KIB: Final = 256
# colours reach their ends at this part of the largest value, or nearly all of a normal tile would look empty
VIVID: Final = 0.6

SENTENCES: Final = {
    "load_q": ("q", "q tile to the chip; m = −∞, l = 0, acc = 0"),
    "load_k": ("k", "k tile to the chip"),
    "scores": ("s", "s = q·kᵀ"),
    "mask": ("s", "s = −∞ where the row does not see the key"),
    "row_max": ("m", "m_new = max(m, row max of s, scaled)"),
    "alpha": ("alpha", "α = 2^(m − m_new)"),
    "exponentiate": ("p", "p = 2^(s·scale − m_new)"),
    "denominator": ("l", "l = l·α + row sum of p"),
    "rescale": ("acc", "acc = acc·α"),
    "load_v": ("v", "v tile to the chip"),
    "accumulate": ("acc", "acc = acc + p·v"),
    "normalise": ("o", "o = acc / l"),
    "store": ("lse", "o to memory, and L = m + log₂ l"),
}
LAZY_MAX: Final = "m_new = the larger of m and row max of s, scaled; m where it would grow by less than 8"
FRESH: Final = {"load_q": {"q", "m", "l", "acc"}, "row_max": {"m"}, "store": {"o", "lse"}, "mask": {"s"}}
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
    chip = _chip(state, tape, moment, row)
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
        lse=_lse(state, tape, moment, row, run),
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


def _chip(state: State, tape: Tape, moment: Moment, row: int) -> ChipView:
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
    limit_s = _round_up(VIVID * level.s) if p.scale else 1.0  # a round number, since the legend names it
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
            "p": (0.0, _power_of_two(chip.p) if p.lazy_growth else 1.0),
            "acc": _typical(acc),
            "m": (-top, top),
            "alpha": (0.0, 1.0),
            "l": (0.0, _power_of_two(l)),
            "lse": _symmetric(chip.lse),
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
        l_range=(0.0, max(_power_of_two(chip.l[:count]), _power_of_two(history.l[:, :count]))),
        iterations=int(tape.tiling.visited[block]),
        iteration=iteration,
        moved=moved,
        caption=span("row", start, end),
    )


def m_limits(level: float, now: np.ndarray, before: np.ndarray) -> tuple[float, float]:
    """Limits for m: the head's level rounded up, and as much below 0 as m has been; wider where m goes beyond."""
    top = max(_round_up(level), _power_of_two(now))
    low = min(_smallest(now), _smallest(before))
    return (0.0 if low >= 0 else -top / 2 if low >= -top / 2 else -max(top, _round_up(-low))), top


def _lse(state: State, tape: Tape, moment: Moment, row: int, run: RunView) -> LseView:
    """The view is kept, and handed out again with another row, while nothing else has changed: it may be long."""
    p = tape.problem
    head, block = moment.position[:2]
    result = None if run.stale else run.result
    start, end = tape.tiling.rows(block)
    stored = tape.lse_until(moment.index, head, run=moment.chip.q is not None)
    known, exact = tape.lse[head], tape.exact_lse[head]
    key = (head, state.lse_unit)
    is_coming = tape.blocks_filled[head] < tape.tiling.num_q_blocks
    passed = int((~np.isnan(stored)).sum())
    if tape.blocks_filled[head] >= block:  # then NaN in it is a value
        passed = end if moment.position.step == "store" else start
    kept = _LSE.get(tape)
    if kept is not None and kept.key == key and kept.result is result and kept.holds(stored, known, exact):
        return replace(kept.view, row=start + row, rows=(start, end), stored_rows=passed, is_coming=is_coming)
    factor = np.float32(1.0 if state.lse_unit == "log2" else LN2)
    old = None if kept is None or kept.key != key else kept
    mirror = old.view.mirror if old is not None and _same(old.stored, stored) else stored * factor
    known_exact = old.view.exact if old is not None and _same(old.exact, exact) else exact * float(factor)
    kernel = old.view.kernel if old is not None and old.result is result else None
    if kernel is None and result is not None:
        kernel = result.lse[head] * factor
    rows = tape.exact_rows
    mirror_exact = _minus(mirror[rows], known_exact)
    difference = mirror_exact if kernel is None else _minus(kernel[rows], known_exact)
    whole = _minus(known[rows] * factor, known_exact) if kernel is None else difference
    between = None if kernel is None else _minus(kernel, mirror)
    ends = [x for x in (_farthest(whole), None if between is None else _farthest(between)) if x is not None]
    view = LseView(
        head=head,
        num_rows=p.seqlen_q,
        blind_rows=p.seqlen_q if p.seqlen_k == 0 else max(0, -p.offset) if p.causal else 0,
        value_range=outwards([known * factor, known_exact] + ([] if kernel is None else [kernel])),
        difference_range=one_two_five(max(ends)) if ends else None,
        is_coming=is_coming,
        unit=state.lse_unit,
        mirror=mirror,
        kernel=kernel,
        exact_rows=rows,
        exact=known_exact,
        difference_name="mirror − exact" if kernel is None else "kernel − exact",
        difference=difference,
        mirror_difference=between,
        row=start + row,
        rows=(start, end),
        stored_rows=passed,
        max_kernel_exact=None if kernel is None else _worst(kernel[rows], known_exact),
        max_mirror_exact=_largest(mirror_exact),
        max_kernel_mirror=None if kernel is None else _worst(kernel, mirror),
        sampled=len(rows) < p.seqlen_q,
        caption=p.head_name(head),
    )
    _LSE[tape] = _KeptLse(key, result, stored, known.copy(), exact.copy(), view)
    return view


class _KeptLse(NamedTuple):
    key: tuple[int, str]
    result: RunResult | None
    stored: np.ndarray
    known: np.ndarray
    exact: np.ndarray
    view: LseView

    def holds(self, stored: np.ndarray, known: np.ndarray, exact: np.ndarray) -> bool:
        return _same(self.stored, stored) and _same(self.known, known) and _same(self.exact, exact)


_LSE: Final[WeakKeyDictionary[Tape, _KeptLse]] = WeakKeyDictionary()


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays hold the same bits, NaN included."""
    return np.array_equal(a.view(np.uint8), b.view(np.uint8))


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


def _symmetric(array: np.ndarray | None) -> tuple[float, float]:
    top = _power_of_two(None if array is None else np.abs(array))
    return -top, top


def _typical(array: np.ndarray | None) -> tuple[float, float]:
    """Colour limits of three times the root mean square of the finite values, rounded up so that they seldom change."""
    finite = np.zeros(1) if array is None else array if np.isfinite(array).all() else array[np.isfinite(array)]
    with np.errstate(over="ignore"):
        size = 3 * math.sqrt(float(np.square(finite).mean())) if finite.size else 0.0
    top = _round_up(size) if math.isfinite(size) else _symmetric(array)[1]
    return -top, top


def _power_of_two(array: np.ndarray | None) -> float:
    """The power of two at or above the largest finite value, so that colours do not flicker from step to step."""
    if array is None:
        return 1.0
    finite = array[np.isfinite(array)]
    top = float(finite.max(initial=0.0))
    return 2.0 ** math.ceil(math.log2(top)) if top > 0 else 1.0


def _smallest(array: np.ndarray) -> float:
    finite = array[np.isfinite(array)]
    return float(finite.min(initial=np.inf))


def _round_up(x: float) -> float:
    """x > 0 rounded up to a half or a whole of a power of two: 4, 6, 8, 12, 16, ..."""
    top = 2.0 ** math.ceil(math.log2(x)) if x > 0 else 1.0
    return top * 0.75 if x <= top * 0.75 else top


def _minus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b in float64, with 0 where both are -inf."""
    with np.errstate(invalid="ignore"):
        difference = a.astype(np.float64) - b
    difference[(a == -np.inf) & (b == -np.inf)] = 0
    return difference


def _worst(values: np.ndarray, known: np.ndarray) -> float | None:
    """The largest |values - known| where known is a number; NaN where a value is none though the known one is."""
    at = ~np.isnan(known)
    if np.isnan(values[at]).any():
        return math.nan
    return _largest(_minus(values[at], known[at]))


def _farthest(difference: np.ndarray) -> float | None:
    """The largest finite |difference|."""
    return _largest(difference[np.isfinite(difference)])


def _largest(difference: np.ndarray) -> float | None:
    known = np.abs(difference[~np.isnan(difference)])
    return float(known.max()) if known.size else None
