"""The score matrix as geometry: axes that zoom like a map, one picture of all tiles at screen resolution, and words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kernel.problem import Problem
from visualizer.numbers import span

LEVELS: Final = 13
GAP: Final = 254
HATCH: Final = 255
MIN_TILE: Final = 3.0
MIN_HATCH: Final = 6.0


@dataclass(frozen=True, slots=True)
class Axis:
    """Rows or keys on the screen: elements low ... high lie on pixels origin ... origin + size (logical pixels)."""

    length: int
    block: int
    origin: float
    size: float
    low: float
    high: float
    dpr: float = 1.0

    @property
    def tile_size(self) -> float:
        """Logical pixels of one whole tile."""
        return self.block * self.size / (self.high - self.low)

    @property
    def is_detailed(self) -> bool:
        """Whether single tiles can be told apart; below that the picture shows aggregates."""
        return self.tile_size >= MIN_TILE

    @property
    def end(self) -> float:
        return self.origin + self.size

    def at(self, element: float) -> float:
        """The pixel where an element begins, snapped to the device's pixels."""
        return self.origin + round((element - self.low) * self._scale) / self.dpr

    def element(self, pixel: float) -> float:
        return self.low + (pixel - self.origin) * (self.high - self.low) / self.size

    def tile_at(self, pixel: float) -> int | None:
        """The tile under a pixel; None off the axis."""
        element = self.element(pixel)
        if not (self.origin <= pixel < self.end and 0 <= element < self.length):
            return None
        return int(element) // self.block

    def span(self, tile: int) -> tuple[float, float]:
        """First pixel and end of a tile, the last tile with the length that it has; may lie outside the view."""
        return self.at(tile * self.block), self.at(min((tile + 1) * self.block, self.length))

    def tiles(self) -> range:
        """The tiles in view."""
        last = min(self.high, self.length)
        return range(int(self.low) // self.block, -int(-last // self.block) if last > 0 else 0)

    @property
    def pixels(self) -> int:
        """Device pixels of the view."""
        return max(1, round(self.size * self.dpr))

    @property
    def _scale(self) -> float:
        return self.size * self.dpr / (self.high - self.low)

    def edges(self, tiles: np.ndarray) -> np.ndarray:
        """Device pixel, from the origin, where each of these tiles begins; whole numbers where tiles are told apart."""
        edges = (np.minimum(tiles * self.block, self.length) - self.low) * self._scale
        return np.round(edges) if self.is_detailed else edges

    def gaps(self, thickness: int) -> np.ndarray:
        """Device pixels that the lines between the tiles take; none where tiles are too small for lines."""
        if self.tile_size < MIN_TILE + 1:
            return np.zeros(0, np.intp)
        starts = self.edges(np.array([t for t in self.tiles() if t > 0], np.int64)).astype(np.intp)
        at = (starts[:, None] - 1 + np.arange(thickness)[None, :] - (thickness - 1) // 2).ravel()
        return at[(at >= 0) & (at < self.pixels)]


def tile_codes(rows: Axis, keys: Axis, full: np.ndarray, visited: np.ndarray) -> np.ndarray:
    """(rows.pixels, keys.pixels) uint8: what each device pixel shows.

    A code is f * (LEVELS + 1) + v: v of LEVELS parts of the pixel are visited tiles, f of them full ones; or GAP
    between tiles, or HATCH on the lines of partial tiles. full, visited: (num_q_blocks,) int64. Tiles smaller than
    a few pixels are averaged over the pixel; the cost depends on the pixels in view, and on the tiles' number only
    by one pass over the rows of tiles.
    """
    if rows.tile_size * rows.dpr >= 1:
        tiles, shown = _tile_of_each_pixel(rows)
        codes = _line_codes(keys, full[tiles.start : tiles.stop], visited[tiles.start : tiles.stop])[shown]
    else:
        codes = _line_codes(keys, _means(rows, full), _means(rows, visited))
    if min(rows.tile_size, keys.tile_size) >= MIN_HATCH:
        period, line = round(6 * keys.dpr), max(1, round(1.3 * keys.dpr))
        stripes = np.arange(rows.pixels + keys.pixels) % period < line
        hatch = np.lib.stride_tricks.sliding_window_view(stripes, keys.pixels)[: rows.pixels]
        codes[hatch & (codes == LEVELS)] = HATCH
    line = max(1, round(keys.dpr))
    codes[:, keys.gaps(line)] = GAP
    codes[rows.gaps(line)] = GAP
    return codes


def code_colors(
    full: np.ndarray, partial: np.ndarray, hatch: np.ndarray, skipped: np.ndarray, gap: np.ndarray
) -> np.ndarray:
    """(256,) uint32 0xffRRGGBB for tile_codes, from five colours (3,) of 0 ... 255."""
    f, v = np.divmod(np.arange(256), LEVELS + 1)
    f, v = np.minimum(f, v)[:, None] / LEVELS, np.minimum(v, LEVELS)[:, None] / LEVELS
    colors = skipped + (partial - skipped) * v + (full - partial) * f
    colors[GAP], colors[HATCH] = gap, hatch
    red, green, blue = np.clip(colors.round(), 0, 255).astype(np.uint32).T
    return np.ascontiguousarray(np.uint32(0xFF000000) | red << 16 | green << 8 | blue)


def done_runs(visited: np.ndarray, done: np.ndarray) -> tuple[list[tuple[int, int]], list[int]]:
    """The runs (first, end) of finished rows of tiles, and the rows that are partly done."""
    whole = np.concatenate([[False], done >= visited, [False]]).astype(np.int8)
    edges = np.flatnonzero(np.diff(whole))
    partly = np.flatnonzero((done > 0) & (done < visited))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)], [int(row) for row in partly]


def tile_words(p: Problem, block: int, tile: int) -> tuple[str, str, str]:
    """Of one tile: "full", "partly masked" or "skipped"; its rows and keys; and why it is so."""
    first, last = block * p.block_m, min((block + 1) * p.block_m, p.seqlen_q) - 1
    key, key_end = tile * p.block_n, (tile + 1) * p.block_n
    where = f"{span('row', first, last + 1)} × {span('key', key, min(key_end, p.seqlen_k))}"
    sees = last + p.offset
    if p.causal and sees < key:
        why = f"row {last:,}, the last of the block, sees {f'keys up to {sees:,}' if sees >= 0 else 'no key at all'}"
        return "skipped", where, f"every key comes after every row: {why}"
    reasons = []
    if p.causal and first + p.offset < min(key_end, p.seqlen_k) - 1:
        sees = first + p.offset
        reasons.append(f"row {first:,} sees {f'keys up to {sees:,}' if sees >= 0 else 'no key at all'}")
    if key_end > p.seqlen_k:
        reasons.append(f"the last key is {p.seqlen_k - 1:,}; the rest of the tile is padding")
    return ("partly masked", where, "; ".join(reasons)) if reasons else ("full", where, "every row sees every key")


def _line_codes(keys: Axis, full: np.ndarray, visited: np.ndarray) -> np.ndarray:
    """(lines, keys.pixels) uint8: codes, without gaps and hatching, of lines of so many full and visited tiles."""
    x = np.arange(keys.pixels, dtype=np.float32)
    levels = []
    for counts in (full, visited):
        cover = np.clip(keys.edges(counts)[:, None].astype(np.float32) - x, 0, 1)
        levels.append((cover * LEVELS + 0.5).astype(np.uint8))
    return levels[0] * np.uint8(LEVELS + 1) + levels[1]


def _tile_of_each_pixel(axis: Axis) -> tuple[range, np.ndarray]:
    """The tiles in view, and for each device pixel which of them it shows (counted from the first)."""
    tiles = axis.tiles()
    ends = axis.edges(np.arange(tiles.start + 1, tiles.stop + 1)).round()
    shown = np.searchsorted(ends, np.arange(axis.pixels), side="right")
    return tiles, np.minimum(shown, len(tiles) - 1)


def _means(rows: Axis, values: np.ndarray) -> np.ndarray:
    """(rows.pixels,) float64: the mean over the rows of tiles that each device pixel holds."""
    count = rows.pixels
    starts = (rows.low + np.arange(count + 1) * (rows.high - rows.low) / count) // rows.block
    starts = np.minimum(starts.astype(np.intp), len(values))
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    return (sums[starts[1:]] - sums[starts[:-1]]) / np.maximum(1, starts[1:] - starts[:-1])
