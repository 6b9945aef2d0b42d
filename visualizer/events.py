"""The steps at which something happens, and the search for the next of them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

import ml_dtypes
import numpy as np

from kernel.inputs import NUMPY_DTYPES
from kernel.mirror import Chip, lift
from kernel.tiling import Position
from visualizer.moves import by_step_name
from visualizer.tape import Moment, Tape

# what can be jumped to, and what a person reads
EVENTS: Final = {
    "max moved": "step that moves the row's max",
    "partial tile": "partly masked tile",
    "store": "store",
    "non-finite": "NaN or infinity",
}
NAMES: Final = {"partial tile": "mask", "store": "store"}  # events that are a step, wherever it is
PIECE_NUMBERS: Final = 1 << 18  # lifted to float32 and looked through in about a millisecond
WAIT_SECONDS: Final = 0.005
SAFE: Final = 2.0**126  # the difference of two such numbers is finite in float32
NEAR_LARGEST: Final = 0.99  # of what the dtype holds: what rounds up from there may be infinite
EPSILON: Final = 2.0**-22  # of a product's parts, added in any order: four times float32's


def find(tape: Tape, index: int, event: str, row: int, *, forward: bool = True) -> int | None:
    """What `search` finds, at once."""
    return next((step for step in search(tape, index, event, row, forward=forward) if step is not None), None)


def search(tape: Tape, index: int, event: str, row: int, *, forward: bool = True) -> Iterator[int | None]:
    """Looks for the next step after `index` (or the previous one) where something happens.

    Yields None every few milliseconds while it looks, and then the step; it ends without one where there is none.
    "max moved" is the row_max at which the m of the selected row (of its block) grows from a finite value, "partial
    tile" the mask, "store" the store, "non-finite" a step whose result holds NaN or an infinity.
    """
    tiling = tape.tiling
    if event in NAMES:
        yield by_step_name(tiling, index, NAMES[event], forward)
        return
    look = partial(_growth, tape, row) if event == "max moved" else partial(_not_finite, tape, _Sizes(tape))
    head, block = tiling.locate(index)[:2]
    here = head * tiling.num_q_blocks + block
    for program in range(here, tiling.num_programs) if forward else range(here, -1, -1):
        head, block = divmod(program, tiling.num_q_blocks)
        start = tiling.program_start(head, block)
        end = start + tiling.steps_of_program(block)
        within = range(max(start, index + 1), end) if forward else range(start, min(end, index))
        for step in look(head, block, within, forward):
            yield step
            if step is not None:
                return
        yield None


def _growth(tape: Tape, row: int, head: int, block: int, within: range, forward: bool) -> Iterator[int | None]:
    """Of the steps `within` one program the first (or last) at which the row's m grows."""
    last = None
    yield from _drawn(tape, head)
    for i in _growing_iterations(tape, row, head, block):
        step = None if i is None else tape.tiling.index(Position(head, block, i, "row_max"))
        if step is None or step < within.start:
            yield None
        elif step >= within.stop:
            break
        elif forward:
            yield step
            return
        else:
            last = step
    yield last


def _growing_iterations(tape: Tape, row: int, head: int, block: int) -> Iterator[int | None]:
    """The iterations of a program in which m of the row grows from a finite value, in order, and None now and then.

    The mirror works out those tiles alone that may bring a larger score.
    """
    tiling, mirror = tape.tiling, tape.mirror
    start, end = tiling.rows(block)
    row = min(row, end - start - 1)
    chip = mirror.apply(Chip(), "load_q", head, block)
    assert chip.q is not None and chip.m is not None
    m = chip.m
    for i, most in _tops(tape, chip.q[row], head, block):
        if most is None:
            yield None
        elif not most <= float(m[row]) + float(mirror.lazy_growth):  # so that NaN is looked at
            names, tile = tiling.steps_of(block, i), tiling.tile(block, i)
            chip = replace(chip, m=m)
            for name in names[: names.index("row_max") + 1]:
                chip = mirror.apply(chip, name, head, block, tile)
            assert chip.m_new is not None
            grows = np.isfinite(m[row]) and chip.m_new[row] > m[row]
            m = chip.m_new
            yield i if grows else None


def _tops(tape: Tape, q: np.ndarray, head: int, block: int) -> Iterator[tuple[int, float | None]]:
    """For every iteration what its scaled maximum is at most for the row q (D,): infinity in a partial tile.

    None: nothing but time has passed.
    """
    p, tiling, scale = tape.problem, tape.tiling, float(tape.mirror.qk_scale)
    masked, visited = tiling.masked_iterations(block), int(tiling.visited[block])
    keys, q = tape.inputs.k(head), q[: p.head_dim]
    size = float(np.abs(q).sum(dtype=np.float64))
    i = 0
    while i < visited:
        stop = min(i + _piece(p.block_n * p.head_dim), visited if i >= masked.stop else max(masked.start, i + 1))
        if i in masked:
            tops = np.full(1, np.inf)
            stop = i + 1
        else:
            low, high = sorted((tiling.tile(block, i), tiling.tile(block, stop - 1)))
            k = lift(keys[low * p.block_n : (high + 1) * p.block_n])
            with np.errstate(all="ignore"):
                tops = (k @ q).reshape(stop - i, p.block_n).max(1).astype(np.float64)
                tops += EPSILON * (p.head_dim + 8) * size * float(np.abs(k).max())
                tops *= scale * (1 + EPSILON * np.sign(tops))
            if tiling.is_leftwards:
                tops = tops[::-1]
        yield i, None
        yield from zip(range(i, stop), map(float, tops), strict=True)
        i = stop


def _not_finite(tape: Tape, sizes: _Sizes, head: int, block: int, within: range, forward: bool) -> Iterator[int | None]:
    """Of the steps `within` one program the first (or last) that writes such a value.

    It runs only programs whose tiles hold one, or numbers so large that one may come of them.
    """
    yield from sizes.measure(head)
    first = sizes.first_doubtful(block)
    if first is None:
        return
    doubtful = range(max(first, within.start), within.stop)
    for step in doubtful if forward else reversed(doubtful):
        while not tape.reach(step, 0):
            yield None
        yield step if _wrote_not_finite(tape[step]) else None


class _Sizes:
    """The largest |x| of every tile of one head, or NaN where the tile holds one."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._head = -1
        self._q = self._k = self._v = np.zeros(0)

    def measure(self, head: int) -> Iterator[None]:
        """Draws a head and looks through it, a piece at a time."""
        if head == self._head:
            return
        p, inputs = self._tape.problem, self._tape.inputs
        yield from _drawn(self._tape, head)
        self._q = yield from _largest(inputs.q(head), p.block_m)
        self._k = yield from _largest(inputs.k(head), p.block_n)
        self._v = yield from _largest(inputs.v(head), p.block_n)
        self._head = head

    def first_doubtful(self, block: int) -> int | None:
        """The step of the block's program before which every number is finite; None where all of them are."""
        p, tiling = self._tape.problem, self._tape.tiling
        if not self._q[block] < np.inf:
            return tiling.program_start(self._head, block)
        visited = int(tiling.visited[block])
        with np.errstate(all="ignore"):
            scores = self._q[block] * self._k[:visited] * p.head_dim * max(1.0, float(self._tape.mirror.qk_scale))
        highest = min(SAFE / max(1, p.seqlen_k), NEAR_LARGEST * float(ml_dtypes.finfo(NUMPY_DTYPES[p.dtype]).max))
        tiles = np.flatnonzero(~(scores < SAFE) | ~(self._v[:visited] < highest))
        if not len(tiles):
            return None
        i = tiling.iteration(block, int(tiles[-1 if tiling.is_leftwards else 0]))
        assert i is not None
        return tiling.index(Position(self._head, block, i, "load_k"))


def _largest(x: np.ndarray, block: int) -> Generator[None, None, np.ndarray]:
    """The largest |x| of every `block` rows, in float64."""
    found, piece = [], block * _piece(block * x.shape[1])
    for start in range(0, len(x), piece):
        rows = np.abs(lift(x[start : start + piece])).max(1)
        found.append(np.maximum.reduceat(rows, np.arange(0, len(rows), block)))
        yield
    return np.concatenate(found).astype(np.float64) if found else np.zeros(0)


def _piece(numbers: int) -> int:
    """How many tiles of so many numbers are looked through at once."""
    return max(1, PIECE_NUMBERS // numbers)


def _drawn(tape: Tape, head: int) -> Iterator[None]:
    """Waits until the inputs of a head are there."""
    if not tape.has_inputs(tape.tiling.program_start(head, 0)):
        tape.inputs.begin(head)
        while not tape.inputs.wait(head, WAIT_SECONDS):
            yield


def _wrote_not_finite(moment: Moment) -> bool:
    chip, step = moment.chip, moment.position.step
    wrote = {
        "load_q": chip.q,
        "load_k": chip.k,
        "scores": chip.s,
        "exponentiate": chip.p,
        "denominator": chip.l,
        "load_v": chip.v,
        "accumulate": chip.acc,
        "store": chip.o,
    }.get(step)
    return wrote is not None and not np.isfinite(wrote).all()
