"""How a problem falls into programs, tiles and steps: arithmetic only, no array larger than a column of tiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from kernel.problem import Problem

FULL_STEPS: Final = (
    "load_k",
    "scores",
    "row_max",
    "alpha",
    "exponentiate",
    "denominator",
    "rescale",
    "load_v",
    "accumulate",
)
PARTIAL_STEPS: Final = (*FULL_STEPS[:2], "mask", *FULL_STEPS[2:])
STEPS: Final = ("load_q", *PARTIAL_STEPS, "normalise", "store")
LOOP_STEPS: Final = frozenset(PARTIAL_STEPS)


class Position(NamedTuple):
    """Where a step stands: which program, which of its iterations (-1 outside the loop), which step."""

    head: int
    block: int
    iteration: int
    step: str


class Traffic(NamedTuple):
    """Bytes moved between HBM and chip, and floating-point operations of the two products."""

    read: int
    written: int
    flops: int


@dataclass(frozen=True)
class Tiling:
    """The programs of a problem, in launch order, and the steps of each.

    Program number = head * num_q_blocks + block. The portable kernel's programs visit their full tiles, then their
    partial ones, keys from left to right; the Hopper kernel's go from right to left, so the partial tile comes first.
    Tiles that no row sees are skipped (but for one, wholly masked, where a Hopper program would have none).
    """

    problem: Problem

    @cached_property
    def num_q_blocks(self) -> int:
        return -(-self.problem.seqlen_q // self.problem.block_m)

    @cached_property
    def num_k_blocks(self) -> int:
        return -(-self.problem.seqlen_k // self.problem.block_n)

    @cached_property
    def num_programs(self) -> int:
        return self.problem.num_heads * self.num_q_blocks

    @cached_property
    def full(self) -> np.ndarray:
        """(num_q_blocks,) int64: tiles whose every key is seen by every row of the block."""
        p = self.problem
        if self.is_leftwards:
            masked = p.causal or p.seqlen_k % p.block_n > 0
            return np.maximum(self.visited - masked, 0)
        seen = np.full(self.num_q_blocks, p.seqlen_k, np.int64)
        if p.causal:
            first_row = np.arange(self.num_q_blocks, dtype=np.int64) * p.block_m
            seen = np.clip(first_row + p.offset + 1, 0, p.seqlen_k)
        return seen // p.block_n

    @cached_property
    def visited(self) -> np.ndarray:
        """(num_q_blocks,) int64: iterations of the block's program, full and partial tiles together."""
        p = self.problem
        seen = np.full(self.num_q_blocks, p.seqlen_k, np.int64)
        if p.causal:
            rows_end = (np.arange(self.num_q_blocks, dtype=np.int64) + 1) * p.block_m
            seen = np.clip(np.minimum(rows_end, p.seqlen_q) + p.offset, 0, p.seqlen_k)
        visited = -(-seen // p.block_n)
        return np.maximum(visited, 1) if self.is_leftwards and p.seqlen_k else visited

    @property
    def is_leftwards(self) -> bool:
        """Whether programs go over the keys from right to left."""
        return self.problem.backend == "hopper"

    def masked_iterations(self, block: int) -> range:
        """The iterations of the block's program that visit partial tiles: its last ones, or its first."""
        full, visited = int(self.full[block]), int(self.visited[block])
        return range(visited - full) if self.is_leftwards else range(full, visited)

    @cached_property
    def _steps_before(self) -> np.ndarray:
        """(num_q_blocks + 1,) int64: steps of the blocks of one head before each block."""
        partial = self.visited - self.full
        steps = 3 + self.full * len(FULL_STEPS) + partial * len(PARTIAL_STEPS)
        return np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)

    @cached_property
    def steps_per_head(self) -> int:
        return int(self._steps_before[-1])

    def __len__(self) -> int:
        return self.problem.num_heads * self.steps_per_head

    def tile(self, block: int, iteration: int) -> int:
        """The column of tiles that the block's program visits in this iteration."""
        if not 0 <= iteration < self.visited[block]:
            raise IndexError(f"block {block} has {self.visited[block]} iterations, not {iteration}")
        return int(self.visited[block]) - 1 - iteration if self.is_leftwards else iteration

    def iteration(self, block: int, tile: int) -> int | None:
        """The iteration in which the block's program visits this column of tiles; None where it is skipped."""
        if not 0 <= tile < self.visited[block]:
            return None
        return int(self.visited[block]) - 1 - tile if self.is_leftwards else tile

    def is_partial(self, block: int, tile: int) -> bool:
        """Whether some row of the block does not see some key of the tile."""
        return tile >= self.full[block]

    def rows(self, block: int) -> tuple[int, int]:
        """First row and end of the block, cut off at seqlen_q."""
        start = block * self.problem.block_m
        return start, min(start + self.problem.block_m, self.problem.seqlen_q)

    def cols(self, tile: int) -> tuple[int, int]:
        """First key and end of a column of tiles, cut off at seqlen_k."""
        start = tile * self.problem.block_n
        return start, min(start + self.problem.block_n, self.problem.seqlen_k)

    def program_start(self, head: int, block: int) -> int:
        """Index of the program's load_q."""
        return head * self.steps_per_head + int(self._steps_before[block])

    def locate(self, index: int) -> Position:
        """The position of step `index`. Constant time but for one binary search over the blocks."""
        if not 0 <= index < len(self):
            raise IndexError(f"step {index} is outside 0 ... {len(self) - 1}")
        head, rest = divmod(index, self.steps_per_head)
        block = int(np.searchsorted(self._steps_before, rest, side="right")) - 1
        rest -= int(self._steps_before[block])
        if rest == 0:
            return Position(head, block, -1, "load_q")
        rest -= 1
        for first, count, steps in self._parts(block):
            if rest < count * len(steps):
                iteration, phase = divmod(rest, len(steps))
                return Position(head, block, first + iteration, steps[phase])
            rest -= count * len(steps)
        return Position(head, block, -1, ("normalise", "store")[rest])

    def _parts(self, block: int) -> list[tuple[int, int, tuple[str, ...]]]:
        """The loop as its two parts, in order: first iteration, number of iterations, and the steps of each."""
        full, masked = int(self.full[block]), self.masked_iterations(block)
        whole = (len(masked) if self.is_leftwards else 0, full, FULL_STEPS)
        partial = (masked.start, len(masked), PARTIAL_STEPS)
        return [partial, whole] if self.is_leftwards else [whole, partial]

    def index(self, position: Position) -> int:
        """The step index of a position; the inverse of `locate`."""
        head, block, iteration, step = position
        start = self.program_start(head, block)
        if step == "load_q":
            return start
        if step in ("normalise", "store"):
            return start + self.steps_of_program(block) - 2 + ("normalise", "store").index(step)
        at = start + 1
        for first, count, steps in self._parts(block):
            if first <= iteration < first + count:
                return at + (iteration - first) * len(steps) + steps.index(step)
            at += count * len(steps)
        raise IndexError(f"block {block} has {self.visited[block]} iterations, not {iteration}")

    def steps_of_program(self, block: int) -> int:
        """How many steps the block's program has."""
        return int(self._steps_before[block + 1] - self._steps_before[block])

    @cached_property
    def bands(self) -> np.ndarray:
        """(num_programs + 1,) int64: the first step of every program, and the end."""
        heads = np.arange(self.problem.num_heads, dtype=np.int64)[:, None] * self.steps_per_head
        return np.append((heads + self._steps_before[:-1]).ravel(), len(self))

    def steps_of(self, block: int, iteration: int) -> tuple[str, ...]:
        """The steps of one iteration, in order."""
        return PARTIAL_STEPS if iteration in self.masked_iterations(block) else FULL_STEPS

    @cached_property
    def _traffic_before(self) -> np.ndarray:
        """(num_q_blocks + 1, 3) int64: Traffic of one head's blocks before each block."""
        rows = [self._traffic_within(b, int(self.visited[b]), 3, True) for b in range(self.num_q_blocks)]
        return np.concatenate([np.zeros((1, 3), np.int64), np.cumsum(np.array(rows, np.int64).reshape(-1, 3), axis=0)])

    def _traffic_within(self, block: int, iterations: int, loaded: int, stored: bool) -> Traffic:
        """Traffic of a program after `iterations` whole iterations; loaded: 0 nothing yet, else q is on the chip."""
        p = self.problem
        start, end = self.rows(block)
        rows = end - start
        keys = min(iterations * p.block_n, p.seqlen_k)
        if self.is_leftwards:
            visited = int(self.visited[block])
            keys = min(visited * p.block_n, p.seqlen_k) - (visited - iterations) * p.block_n if iterations else 0
        read = (rows if loaded else 0) * p.head_dim + 2 * keys * p.head_dim
        written = rows * (p.head_dim * p.itemsize + 4) if stored else 0
        return Traffic(read * p.itemsize, written, 4 * rows * keys * p.head_dim)

    def traffic(self, index: int) -> Traffic:
        """Bytes and FLOPs of all steps up to and with `index`; -1 gives zeros.

        Each program reads its q tile once and each k and v tile that it visits; the products count the rows and keys
        that exist, not the padding, and the masked part of a partial tile, which the kernel computes too.
        """
        if index < 0 or not len(self):
            return Traffic(0, 0, 0)
        head, block, iteration, step = self.locate(index)
        per_head = self._traffic_before[-1]
        total = head * per_head + self._traffic_before[block]
        if iteration < 0:
            iterations = 0 if step == "load_q" else int(self.visited[block])
            return Traffic(*map(int, total + self._traffic_within(block, iterations, 1, step == "store")))
        total = total + self._traffic_within(block, iteration, 1, False)
        p = self.problem
        done = self.steps_of(block, iteration).index(step)
        names = self.steps_of(block, iteration)
        start, end = self.cols(self.tile(block, iteration))
        rows = self.rows(block)[1] - self.rows(block)[0]
        tile_bytes, product = (end - start) * p.head_dim * p.itemsize, 2 * rows * (end - start) * p.head_dim
        read = tile_bytes * (1 + (done >= names.index("load_v")))
        flops = product * ((done >= names.index("scores")) + (done >= names.index("accumulate")))
        return Traffic(int(total[0]) + read, int(total[1]), int(total[2]) + flops)

    def naive_traffic(self) -> Traffic:
        """Traffic of attention as it is written in a textbook: S and P, in the input dtype, each go to HBM and back."""
        p = self.problem
        qo, kv = p.seqlen_q * p.head_dim, 2 * p.seqlen_k * p.head_dim
        scores = p.seqlen_q * p.seqlen_k
        heads = p.num_heads * p.itemsize
        return Traffic(heads * (qo + kv + 2 * scores), heads * (qo + 2 * scores), p.num_heads * 4 * scores * p.head_dim)
