"""16-bit tiles under Triton's interpreter, which multiplies raw bits of bfloat16 and rounds to it otherwise than a GPU.

Compiled for a GPU these helpers are nothing, and a cast.
"""

import triton
import triton.language as tl
from triton import knobs

# decided when a kernel is defined, not when it is called
INTERPRETED = tl.constexpr(bool(knobs.runtime.interpret))


@triton.jit
def lift(tile):
    """Interpreted: the tile's values in float32. Compiled: the tile as it is."""
    if INTERPRETED:
        if tile.dtype == tl.bfloat16:
            bits = tile.to(tl.uint16, bitcast=True).to(tl.uint32) << 16
            return bits.to(tl.float32, bitcast=True)
        return tile.to(tl.float32)
    return tile


@triton.jit
def rounded(tile, DTYPE: tl.constexpr):
    """A float32 tile in DTYPE, rounded to nearest, ties to even."""
    if INTERPRETED:
        if DTYPE == tl.bfloat16:  # noqa: SIM300 (DTYPE is no constant to Python)
            bits = tile.to(tl.uint32, bitcast=True)
            up = ((bits >> 16) & 1) + 0x7FFF
            bits = tl.where(tile == tile, bits + up, bits | 0x400000)
            return (bits >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)
        return tile.to(DTYPE)
    return tile.to(DTYPE)
