"""How the Hopper forward is cut into tiles and who gets which: configurations by head_dim, the table of query tiles.

NumPy alone, so that what shows a run can ask for the order in which that kernel takes its tiles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

MIN_SCALE: Final = 1e-30  # a smaller scale is the portable kernel's
FAR: Final = 4194304.0  # from this |m| on, in log2, a row is done again with care, as in forward.py
LAZY_GROWTH: Final = 8.0  # log2 of how far a row's max may grow before m follows it, where a configuration is lazy
END: Final = 0.7  # what the start and the end of a query tile cost, in key tiles


@dataclass(frozen=True, slots=True)
class Config:
    """How the kernel is cut. hold, named, rotate, split_o and lazy are tricks that hopper_kernel explains.

    rows: query rows of a consumer. keys: of a tile. registers: of a consumer's thread; launch_registers: of each thread
    at the start. rounds: how many rounds of programs a group of heads lasts, so that its keys stay in the L2 cache.
    """

    rows: int
    consumers: int
    keys: int
    stages: int
    q_stages: int
    registers: int
    launch_registers: int
    rounds: int
    hold: bool
    rotate: bool
    split_o: bool
    lazy: bool
    named: bool = True

    @property
    def lazy_growth(self) -> float:
        """By how much, in log2, a row's max may grow before m follows it; 0 where m follows at once."""
        return LAZY_GROWTH if self.lazy else 0.0

    @property
    def block_m(self) -> int:
        """Query rows of a program."""
        return self.rows * self.consumers


LONG_64: Final = Config(64, 3, 128, 2, 2, 160, 128, 4, hold=True, rotate=False, split_o=False, lazy=False)
LONG_64_CAUSAL: Final = replace(LONG_64, hold=False, lazy=True)
SHORT_64: Final = Config(64, 4, 64, 3, 2, 112, 96, 4, hold=True, rotate=True, split_o=False, lazy=False)
ALL_128: Final = Config(64, 2, 128, 2, 2, 240, 168, 2, hold=True, rotate=False, split_o=False, lazy=True)
ALL_256: Final = Config(64, 2, 64, 2, 1, 240, 168, 2, hold=True, rotate=False, split_o=True, lazy=True)


def config(head_dim: int, causal: bool, seqlen: int) -> Config:
    """The configuration for a head_dim and the longer of the two lengths."""
    if head_dim > 128:
        return ALL_256
    if head_dim > 64:
        return ALL_128
    if seqlen <= (2048 if causal else 512):
        return SHORT_64
    return LONG_64_CAUSAL if causal else LONG_64


def pays(all_heads: int, seqlen_q: int, seqlen_k: int, c: Config, processors: int) -> bool:
    """Whether the Hopper kernel is the faster one, as measured on an H200.

    It is where its tiles, which are larger than the portable kernel's, fill half of the multiprocessors, and where few
    queries meet many keys, so that the portable kernel has no more tiles. Elsewhere it was 0.76 to 0.98 as fast.
    """
    tiles = all_heads * -(-seqlen_q // c.block_m)
    return 2 * tiles >= processors or (seqlen_q <= 64 and seqlen_k >= 1024)


def padded(head_dim: int) -> int:
    """Columns of a tile: a power of two, at least 16."""
    return max(16, 1 << (head_dim - 1).bit_length())


def first_key(seqlen_q: int, seqlen_k: int, causal: bool, c: Config) -> int:
    """Where the leftmost tile begins, <= 0: causal tiles are laid so that no diagonal of 64 rows crosses a border."""
    beyond = (seqlen_k - seqlen_q) % 64 if causal else 0
    return beyond - c.keys if beyond else 0


def is_even(seqlen_q: int, seqlen_k: int, causal: bool, c: Config) -> bool:
    """Whether only the causal diagonal needs a mask."""
    return (seqlen_k - seqlen_q) % 64 == 0 if causal else seqlen_k % c.keys == 0


def schedule(
    batch: int, heads: int, seqlen_q: int, seqlen_k: int, causal: bool, c: Config, programs: int
) -> np.ndarray:
    """(rounds + 1, programs) int64: the query tile of each program in each round, -1 at the end.

    A tile is batch << 42 | head << 24 | first row. Where tiles differ in length (causal, or a last tile with fewer
    rows) the longest of a group of heads go first, and in every round the program with the least work so far gets the
    longest (1 to 2 % imbalance, where any fixed order has 3 to 25 %). So no two programs ever differ by more than the
    longest tile: of any two, the one with less work gets the longer tile of the round.
    """
    blocks, all_heads = -(-seqlen_q // c.block_m), batch * heads
    count = blocks * all_heads
    programs = min(programs, count)
    rounds = -(-count // programs)
    head = np.arange(all_heads, dtype=np.int64)
    head = head // heads << 42 | head % heads << 24
    tile = np.arange(blocks, dtype=np.int64) * c.block_m
    table = np.full((rounds + 1, programs), -1, np.int64)
    cost = costs(seqlen_q, seqlen_k, causal, c)
    if cost.min() == cost.max():
        table.ravel()[:count] = (head[:, None] | tile).ravel()
        return table
    longest = np.argsort(-cost, kind="stable")
    group = -(-all_heads // max(1, round(count / (c.rounds * programs))))
    order = np.concatenate([(head[a : a + group] | tile[longest, None]).ravel() for a in range(0, all_heads, group)])
    load = np.zeros(programs)
    for r in range(rounds):
        part = order[r * programs : (r + 1) * programs]
        work = cost[(part & 0xFFFFFF) // c.block_m]
        by_work = np.argsort(-work, kind="stable")
        idle = np.argsort(load, kind="stable")[: len(part)]
        load[idle] += work[by_work]
        table[r, idle] = part[by_work]
    return table


def costs(seqlen_q: int, seqlen_k: int, causal: bool, c: Config) -> np.ndarray:
    """(query tiles of a head,) what each costs, in key tiles."""
    blocks = -(-seqlen_q // c.block_m)
    row = np.arange(blocks * c.consumers) * c.rows
    end = np.minimum(row + c.rows + seqlen_k - seqlen_q, seqlen_k) if causal else np.full(row.shape, seqlen_k)
    visited = np.maximum(-(-(end - first_key(seqlen_q, seqlen_k, causal, c)) // c.keys), 1)
    visited = np.where(row < seqlen_q, visited, 0).reshape(blocks, c.consumers)
    return (visited.mean(1) + visited.max(1)) / 2 + END
