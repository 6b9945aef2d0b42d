"""The block loop as an indexable sequence: any step of any program, without running the whole."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kernel.inputs import Inputs
from kernel.mirror import Chip, Mirror
from kernel.problem import Problem
from kernel.reference import exact_lse
from kernel.tiling import Position, Tiling
from visualizer.program import Program, between

CACHE_BYTES: Final = 32 << 20
KEPT_BYTES: Final = 192 << 20
MIN_SPACING, MAX_SPACING = 64, 160
NEAR_WORK: Final = 330_000_000  # of `_near_tiles`: about 15 ms on two cores
NEAR_NUMBERS: Final = 1 << 20  # of one tensor of one head: drawn in about 10 ms
EXACT_SCORES: Final = 1 << 26
LEVEL_ROWS: Final = 256


class Moment(NamedTuple):
    """What holds once a step has run."""

    index: int
    position: Position
    tile: int | None
    chip: Chip


class Levels(NamedTuple):
    """The largest sizes of one head's values, estimated on a sample of rows: colour limits that do not flicker."""

    q: float
    k: float
    v: float
    s: float


@dataclass(frozen=True)
class History:
    """m, alpha and l after each finished iteration of one program: (iterations, BLOCK_M) float32 each.

    NaN: in a program of hundreds of tiles, not worked out yet; `Tape.fill` does it.
    """

    m: np.ndarray
    alpha: np.ndarray
    l: np.ndarray


class Tape:
    """`tape[i]` is the Moment after step i of `problem`'s programs, in launch order.

    A program is run once, up to where it is looked at; some of its iterations stay as checkpoints, so stepping back and
    coming again are quick. `fill` runs the programs that nobody has looked at, a little at a time.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.tiling = Tiling(problem)
        self.inputs = Inputs(problem)
        self.mirror = Mirror(self.inputs, self.tiling)
        self._programs: OrderedDict[tuple[int, int], Program] = OrderedDict()
        self._last: Moment | None = None
        self.lse = np.full((problem.num_heads, problem.seqlen_q), np.nan, np.float32)
        self.programs_filled = 0
        self.blocks_filled = [0] * problem.num_heads
        self._heads_filled: set[int] = set()
        self.exact_rows = _sampled_rows(problem)
        self.exact_lse = np.full((problem.num_heads, len(self.exact_rows)), np.nan)
        self._kept: dict[tuple[int, int], dict[int, Chip]] = {}
        self._room, self._spacing = KEPT_BYTES, _spacing(self.tiling)
        self._filling = self._fill()
        self._completing: Iterator[None] | None = None
        self._way: tuple[tuple[int, int, int], Iterator[None]] | None = None
        self._near = _near_tiles(problem)
        self.is_filled = False
        self._levels: dict[int, Levels] = {}

    def __len__(self) -> int:
        return len(self.tiling)

    def __getitem__(self, index: int) -> Moment:
        if self._last is not None and index == self._last.index:
            return self._last
        position = self.tiling.locate(index)
        head, block, iteration, step = position
        tile = self.tiling.tile(block, iteration) if iteration >= 0 else None
        where = (step, head, block, -1 if tile is None else tile)
        last = self._last
        if last is not None and index == last.index + 1 and last.position[:3] == position[:3]:
            chip = self.mirror.apply(last.chip, *where)
        elif step == "load_q":
            chip = self._program(head, block).start
        elif iteration < 0:
            chip = self.mirror.apply(self._program(head, block).at(self._end(block)), "normalise", head, block)
            if step == "store":
                chip = self.mirror.apply(chip, "store", head, block)
        else:
            chip = self._program(head, block).at(iteration)
            names = self.tiling.steps_of(block, iteration)
            for name in names[: names.index(step) + 1]:
                chip = self.mirror.apply(chip, name, *where[1:])
        self._last = Moment(index, position, tile, chip)
        return self._last

    def place(self, index: int) -> Moment:
        """What is known of step `index` without running anything: where it is, with an empty chip."""
        position = self.tiling.locate(index)
        tile = self.tiling.tile(position.block, position.iteration) if position.iteration >= 0 else None
        return Moment(index, position, tile, Chip())

    def has_inputs(self, index: int) -> bool:
        """Whether q, k and v at step `index` are drawn, or so few that it takes no time."""
        p = self.problem
        small = max(p.seqlen_q, p.seqlen_k) * p.head_dim <= NEAR_NUMBERS
        return small or self.inputs.wait(self.tiling.locate(index).head)

    def is_near(self, index: int) -> bool:
        """Whether tape[index] comes at once, and not only after a run of many tiles, or of drawing a large head."""
        return self.has_inputs(index) and self.tiles_to(index) <= self._near

    def tiles_to(self, index: int) -> int:
        """How many tiles tape[index] has to run."""
        if self._last is not None and index == self._last.index:
            return 0
        head, block, iteration = self._start(index)
        if (head, block) in self._programs:
            return self._programs[head, block].distance(iteration)
        return iteration - max((i for i in self._kept.get((head, block), ()) if i <= iteration), default=0)

    def reach(self, index: int, seconds: float) -> bool:
        """Works for about `seconds` towards a step that is not near; True once all that it needs is there.

        Work on one step goes on where the call before ended, and leaves checkpoints also where it never ends.
        """
        end = time.perf_counter() + seconds
        head, block, iteration = self._start(index)
        if not self.has_inputs(index):
            self.inputs.begin(head)
            if not self.inputs.wait(head, seconds):
                return False
        if self._way is None or self._way[0] != (head, block, iteration):
            self._way = (head, block, iteration), self._program(head, block).way(iteration)
        for _ in self._way[1]:
            if time.perf_counter() >= end:
                return False
        self._way = None
        return True

    def before(self, index: int) -> Chip:
        """The chip when the iteration of step `index` began: m, l and acc; outside the loop, at the program's end."""
        head, block, iteration = self._start(index)
        return self._program(head, block).at(iteration)

    def history(self, index: int) -> History:
        """The finished iterations of the program at step `index`, up to that step."""
        head, block, iteration, step = self.tiling.locate(index)
        program = self._program(head, block)
        done = 0 if step == "load_q" else self._end(block) if iteration < 0 else iteration + (step == "accumulate")
        program.at(done)
        self._completing = None if program.knows(done) else program.complete(done)
        return History(program.m[:done], program.alpha[:done], program.l[:done])

    def levels(self, head: int) -> Levels:
        """The colour limits of one head, from at most LEVEL_ROWS rows of each tensor."""
        if head not in self._levels:
            q, k, v = (
                x[:: max(1, -(-len(x) // LEVEL_ROWS))].astype(np.float32)
                for x in (self.inputs.q(head), self.inputs.k(head), self.inputs.v(head))
            )
            with np.errstate(invalid="ignore", over="ignore"):
                self._levels[head] = Levels(*(_size(x) for x in (q, k, v, q @ k.T)))
        return self._levels[head]

    def lse_until(self, index: int, head: int, *, run: bool = True) -> np.ndarray:
        """(seqlen_q,) float32: the mirror's L of the rows stored up to step `index`; NaN where not stored or filled.

        The rows that step `index` itself stores are run, unless `run` is False.
        """
        lse = self.lse[head].copy()
        at, block, _, step = self.tiling.locate(index)
        if head == at:
            stored = block + (step == "store")
            if step == "store" and run:
                self._keep_lse(head, block, self[index].chip)
                lse = self.lse[head].copy()
            lse[stored * self.problem.block_m :] = np.nan
        elif head > at:
            lse[:] = np.nan
        return lse

    def is_head_filled(self, head: int) -> bool:
        """Whether L and the exact values of a whole head are there."""
        return head in self._heads_filled

    @property
    def is_completing(self) -> bool:
        """Whether the history at hand has gaps that `fill` closes."""
        return self._completing is not None

    def fill(self, seconds: float) -> bool:
        """Works on what is still missing, for about `seconds`; True while some remains.

        The history of the program at hand comes first, then L, checkpoints and exact rows, head by head.
        """
        end = time.perf_counter() + seconds
        while not self.is_filled or self._completing is not None:
            work = self._filling if self._completing is None else self._completing
            if next(work, work) is work:
                if self._completing is None:
                    self.is_filled = True
                self._completing = None
            elif time.perf_counter() >= end:
                break
        return not self.is_filled or self._completing is not None

    def _start(self, index: int) -> tuple[int, int, int]:
        """The head, block and iteration from whose beginning step `index` is a few steps away."""
        head, block, iteration, step = self.tiling.locate(index)
        return head, block, 0 if step == "load_q" else self._end(block) if iteration < 0 else iteration

    def _end(self, block: int) -> int:
        return int(self.tiling.visited[block])

    def _program(self, head: int, block: int) -> Program:
        key = (head, block)
        if key not in self._programs:
            self._programs[key] = Program(self.mirror, head, block, self._kept.get(key, {}))
            while len(self._programs) > 1 and sum(p.nbytes for p in self._programs.values()) > CACHE_BYTES:
                self._programs.popitem(last=False)
        self._programs.move_to_end(key)
        return self._programs[key]

    def _keep_lse(self, head: int, block: int, chip: Chip) -> None:
        start, end = self.tiling.rows(block)
        if chip.lse is not None:
            self.lse[head, start:end] = chip.lse[: end - start]

    def _fill(self) -> Iterator[None]:
        """Every program's L and some checkpoints, and the exact rows: the head at hand first, then the others."""
        left = list(range(self.problem.num_heads))
        while left:
            head = self._last.position.head if self._last is not None else left[0]
            head = head if head in left else left[0]
            left.remove(head)
            for block in range(self.tiling.num_q_blocks):
                yield from self._fill_program(head, block)
            if left:
                self.inputs.begin(left[0])
            self.exact_lse[head] = yield from exact_lse(self.inputs, self.problem, head, self.exact_rows)
            self._heads_filled.add(head)

    def _fill_program(self, head: int, block: int) -> Iterator[None]:
        chip = self.mirror.apply(Chip(), "load_q", head, block)
        kept = {}
        for run in self.mirror.advance(chip, head, block, 0, self._end(block)):
            chip = run.chip
            if run.end >= self._spacing * (len(kept) + 1) and self._room > 0:
                kept[run.end] = between(chip)
                self._room -= 4 * self.problem.block_m * (self.problem.head_dim_pad + 2)
            yield
        if kept:
            self._kept[head, block] = kept
        chip = self.mirror.apply(self.mirror.apply(chip, "normalise", head, block), "store", head, block)
        self._keep_lse(head, block, chip)
        self.programs_filled += 1
        self.blocks_filled[head] += 1
        yield


def _spacing(tiling: Tiling) -> int:
    """Tiles between two checkpoints that `fill` keeps, so that those of all heads nearly fit in KEPT_BYTES."""
    p = tiling.problem
    bytes_a_tile = 4 * p.block_m * (p.head_dim_pad + 2)
    wanted = p.num_heads * int(tiling.visited.sum()) * bytes_a_tile // KEPT_BYTES
    return min(MAX_SPACING, max(MIN_SPACING, wanted))


def _near_tiles(p: Problem) -> int:
    """How many tiles of any size and head_dim take about 15 ms: the products, and as much again on the scores."""
    return NEAR_WORK // (p.block_m * p.block_n * (100 + p.head_dim_pad))


def _sampled_rows(problem: Problem) -> np.ndarray:
    """The rows that get exact values: all, or as many evenly spaced ones as take a few seconds in all heads."""
    scores = problem.num_heads * problem.seqlen_q * max(1, problem.seqlen_k)
    count = problem.seqlen_q if scores <= EXACT_SCORES else problem.seqlen_q * EXACT_SCORES // scores
    count = min(problem.seqlen_q, max(count, 16))
    return np.arange(count, dtype=np.int64) * (problem.seqlen_q - 1) // max(1, count - 1)


def _size(x: np.ndarray) -> float:
    finite = np.abs(x[np.isfinite(x)])
    return float(finite.max(initial=0)) or 1.0
