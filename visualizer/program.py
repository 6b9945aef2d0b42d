"""One program of the tape: its checkpoints, so that any of its iterations is near, and its history."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Final

import numpy as np

from kernel.mirror import Chip, Mirror

CHECKPOINTS: Final = 64


class Program:
    """A program, run wherever anybody looks and kept at about CHECKPOINTS of its iterations.

    `kept` are checkpoints from an earlier run: {iteration: m, l and acc before it}. m, alpha and l are the history:
    (iterations, BLOCK_M) float32 after each iteration, NaN where the program was not run here (`complete` does that).
    """

    def __init__(self, mirror: Mirror, head: int, block: int, kept: dict[int, Chip]) -> None:
        self._mirror, self._head, self._block = mirror, head, block
        visited = int(mirror.tiling.visited[block])
        self.start = mirror.apply(Chip(), "load_q", head, block)
        self._spacing = max(1, -(-visited // CHECKPOINTS))
        self._chips = {0: self.start} | {i: between(chip, self.start.q) for i, chip in kept.items()}
        self._places = sorted(self._chips)
        self._last = (0, self.start)
        self._known = np.zeros(visited, bool)
        p = mirror.tiling.problem
        self.m, self.alpha, self.l = (np.full((visited, p.block_m), np.nan, np.float32) for _ in range(3))
        count = min(visited, CHECKPOINTS) + 1 + len(kept)
        self.nbytes = 4 * p.block_m * (count * (p.head_dim_pad + 2) + 3 * visited)

    def at(self, iteration: int) -> Chip:
        """The chip before `iteration`."""
        for _ in self.way(iteration):
            pass
        return self._last[1]

    def way(self, iteration: int) -> Iterator[None]:
        """Runs what `at` needs, a few tiles at a time."""
        return self._run(iteration, iteration)

    def distance(self, iteration: int) -> int:
        """How many tiles `at` has to run."""
        return iteration - self._nearest(iteration)[0]

    def knows(self, until: int) -> bool:
        """Whether the history of all iterations before `until` is there."""
        return bool(self._known[:until].all())

    def complete(self, until: int) -> Iterator[None]:
        """Fills the history of the iterations before `until`, a few tiles at a time."""
        while not self._known[:until].all():
            gap = int(np.argmin(self._known[:until]))
            known = np.flatnonzero(self._known[gap:until])
            yield from self._run(gap, gap + int(known[0]) if len(known) else until)

    def _nearest(self, iteration: int) -> tuple[int, Chip]:
        """The closest known place at or before `iteration`, and the chip there."""
        at = self._places[bisect.bisect_right(self._places, iteration) - 1]
        return self._last if at <= self._last[0] <= iteration else (at, self._chips[at])

    def _run(self, near: int, iteration: int) -> Iterator[None]:
        """Runs from the closest place at or before `near` up to `iteration`."""
        at, chip = self._last = self._nearest(near)
        for run in self._mirror.advance(chip, self._head, self._block, at, iteration):
            done = slice(at, run.end)
            self.m[done], self.alpha[done], self.l[done] = run.m, run.alpha, run.l
            self._known[done] = True
            at, chip = self._last = run.end, between(run.chip, self.start.q)
            before = self._places[bisect.bisect_right(self._places, at) - 1]
            if at - before >= self._spacing:
                self._chips[at] = chip
                bisect.insort(self._places, at)
            yield


def between(chip: Chip, q: np.ndarray | None = None) -> Chip:
    """What an iteration hands to the next; k, s, p and v would be kept alive for nothing."""
    return Chip(q=q, m=chip.m, l=chip.l, acc=chip.acc)
