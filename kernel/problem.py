"""What is to be computed: one attention problem, and the only place that decides whether it is legal."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Final

DTYPES: Final = ("float16", "bfloat16", "float32")
ITEMSIZE: Final = {"float16": 2, "bfloat16": 2, "float32": 4}
DISTRIBUTIONS: Final = ("normal", "rising", "spiky")
BACKENDS: Final = ("triton", "hopper")

MAX_SEQLEN: Final = 1 << 20
MAX_ELEMENTS: Final = 1 << 29
MAX_BLOCK: Final = 256
MAX_PATH: Final = 4096
LOG2E: Final = math.log2(math.e)
# at this scale the largest score of float16 inputs, 256 · 65,504², times log2(e) is still finite in float32
MAX_SCALE: Final = 1e26


class ProblemError(ValueError):
    """A problem that cannot be. `field` is the name of the Problem field to blame."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One attention problem and how its kernel cuts it into tiles.

    Shapes: q (batch, heads, seqlen_q, head_dim), k and v (batch, kv_heads, seqlen_k, head_dim). Query head h reads
    key head h // (heads // kv_heads). causal is aligned bottom-right: the last query sees the last key. sm_scale None
    means 1/sqrt(head_dim). backend "triton" is the portable kernel, "hopper" the one for Hopper GPUs, which prescribes
    its blocks: `change` sets them, and they count the rows of one of its consumers. Inputs are drawn from
    `distribution` with standard deviation `std` and `seed`, or read from the file `inputs`. Raises ProblemError when
    any field cannot be.
    """

    batch: int = 1
    heads: int = 2
    kv_heads: int = 2
    seqlen_q: int = 1024
    seqlen_k: int = 1024
    head_dim: int = 64
    dtype: str = "float16"
    causal: bool = True
    sm_scale: float | None = 0.5
    block_m: int = 128
    block_n: int = 64
    backend: str = "triton"
    seed: int = 20
    distribution: str = "normal"
    std: float = 0.5
    inputs: str | None = None

    def __post_init__(self) -> None:
        _whole("batch", self.batch, 0, 1 << 20)
        _whole("heads", self.heads, 1, 1 << 20)
        _whole("kv_heads", self.kv_heads, 1, 1 << 20)
        _whole("seqlen_q", self.seqlen_q, 0, MAX_SEQLEN)
        _whole("seqlen_k", self.seqlen_k, 0, MAX_SEQLEN)
        _whole("head_dim", self.head_dim, 1, 256)
        _whole("seed", self.seed, 0, (1 << 63) - 1)
        for name in ("block_m", "block_n"):
            block = getattr(self, name)
            _whole(name, block, 16, MAX_BLOCK)
            if block & (block - 1):
                raise ProblemError(name, f"{name} is {block}; it must be a power of two: 16, 32, 64, 128 or 256.")
        if self.heads % self.kv_heads:
            raise ProblemError(
                "kv_heads",
                f"{self.heads} query heads cannot share {self.kv_heads} key heads; "
                f"kv_heads must divide heads ({_divisors(self.heads)}).",
            )
        if self.dtype not in DTYPES:
            raise ProblemError(
                "dtype", f"dtype is {shown(self.dtype)}; choose {', '.join(DTYPES[:-1])} or {DTYPES[-1]}."
            )
        if not isinstance(self.causal, bool):
            raise ProblemError("causal", f"causal is {shown(self.causal)}; it must be true or false.")
        if self.sm_scale is not None:
            _number("sm_scale", self.sm_scale)
            if abs(self.sm_scale) > MAX_SCALE:
                raise ProblemError("sm_scale", too_large(self.sm_scale))
        _number("std", self.std)
        if not 0 < self.std <= 1000:
            raise ProblemError("std", f"std is {self.std:g}; the inputs need one above 0 and at most 1000.")
        if self.distribution not in DISTRIBUTIONS:
            raise ProblemError(
                "distribution",
                f"distribution is {shown(self.distribution)}; choose {', '.join(DISTRIBUTIONS)}.",
            )
        path = self.inputs
        if path is not None and (not isinstance(path, str) or not 0 < len(path) <= MAX_PATH or "\0" in path):
            raise ProblemError("inputs", "inputs must be the path of an .npz or .safetensors file.")
        for name, heads, seqlen in (("q", self.heads, self.seqlen_q), ("k", self.kv_heads, self.seqlen_k)):
            elements = self.batch * heads * seqlen * self.head_dim
            if elements > MAX_ELEMENTS:
                raise ProblemError(
                    "seqlen_q" if name == "q" else "seqlen_k",
                    f"{name} would hold {elements:,} numbers; at most {MAX_ELEMENTS:,} are taken. "
                    "Make batch, heads, seqlen or head_dim smaller.",
                )

        if self.backend not in BACKENDS:
            raise ProblemError("backend", f"backend is {shown(self.backend)}; choose {' or '.join(BACKENDS)}.")
        if self.backend == "hopper":
            self._check_hopper()

    def _check_hopper(self) -> None:
        """What the Hopper kernel cannot take, or the mirror of it cannot show."""
        from kernel.hopper_tiles import MIN_SCALE

        needs = "the Hopper kernel takes {}; change it, or choose the portable kernel."
        if self.dtype == "float32":
            raise ProblemError("dtype", f"dtype is float32; {needs.format('float16 and bfloat16')}")
        if self.head_dim % 8:
            raise ProblemError("head_dim", f"head_dim is {self.head_dim}; {needs.format('multiples of 8')}")
        if self.scale <= MIN_SCALE:
            scales = f"positive scales, above {MIN_SCALE:g}"
            raise ProblemError("sm_scale", f"sm_scale is {self.scale:g}; {needs.format(scales)}")
        if self.causal and self.offset % 64:
            raise ProblemError(
                "seqlen_k",
                f"seqlen_k - seqlen_q is {self.offset:,}; {needs.format('causal lengths a multiple of 64 apart')}",
            )
        blocks = self._hopper_blocks()
        if (self.block_m, self.block_n) != blocks:
            raise ProblemError(
                "block_m" if self.block_m != blocks[0] else "block_n",
                f"blocks are {self.block_m} x {self.block_n}; the Hopper kernel takes {blocks[0]} x {blocks[1]} here.",
            )

    def _hopper_blocks(self) -> tuple[int, int]:
        from kernel.hopper_tiles import config

        c = config(self.head_dim, self.causal, max(self.seqlen_q, self.seqlen_k))
        return c.rows, c.keys

    @property
    def lazy_growth(self) -> float:
        """By how much, in log2, a row's max may grow before m follows it; 0: m follows at once."""
        if self.backend != "hopper":
            return 0.0
        from kernel.hopper_tiles import config

        return config(self.head_dim, self.causal, max(self.seqlen_q, self.seqlen_k)).lazy_growth

    @property
    def scale(self) -> float:
        """sm_scale with None resolved to 1/sqrt(head_dim)."""
        return 1.0 / math.sqrt(self.head_dim) if self.sm_scale is None else float(self.sm_scale)

    @property
    def itemsize(self) -> int:
        """Bytes of one input element."""
        return ITEMSIZE[self.dtype]

    @property
    def num_heads(self) -> int:
        """batch x heads: the query heads that have programs."""
        return self.batch * self.heads

    @property
    def head_dim_pad(self) -> int:
        """Columns of a tile on the chip: the next power of two, at least 16."""
        return max(16, 1 << (self.head_dim - 1).bit_length())

    @property
    def offset(self) -> int:
        """Row i of a causal problem sees the keys up to i + offset."""
        return self.seqlen_k - self.seqlen_q

    def kv_head(self, head: int) -> int:
        """The (batch x kv_heads) index that query head `head` of batch x heads reads."""
        batch, h = divmod(head, self.heads)
        return batch * self.kv_heads + h // (self.heads // self.kv_heads)

    def head_name(self, head: int) -> str:
        """Query head `head` of batch x heads in words."""
        batch, h = divmod(head, self.heads)
        return f"head {h:,}" if self.batch == 1 else f"batch {batch:,} · head {h:,}"

    def change(self, **values: Any) -> Problem:
        """This problem with some fields changed, checked anew; the Hopper kernel's blocks follow the other fields."""
        if values.get("backend", self.backend) == "hopper":
            portable = replace(self, **values | {"backend": "triton"})
            values["block_m"], values["block_n"] = portable._hopper_blocks()
        return replace(self, **values)


FIELDS: Final = tuple(field.name for field in fields(Problem))


def _whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ProblemError(name, f"{name} is {shown(value)}; it must be a whole number from {low:,} to {high:,}.")
    if not low <= value <= high:
        raise ProblemError(name, f"{name} is {shown(value)}; it must be from {low:,} to {high:,}.")


def _number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _finite(value):
        raise ProblemError(name, f"{name} is {shown(value)}; it must be a finite number.")


def _finite(value: int | float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def exponent_scale(scale: float) -> float:
    """|scale| * log2(e) as the kernels get it: positive in float32, also where it rounds to 0 there; 1 for scale 0."""
    return max(abs(scale) * LOG2E, 2.0**-149) if scale else 1.0


def too_large(sm_scale: float) -> str:
    """The sentence that refuses a scale of more than MAX_SCALE."""
    return f"sm_scale is {shown(sm_scale)}; use one of at most {MAX_SCALE:g} in size, so that scores stay finite."


def shown(value: object) -> str:
    """A value that came from elsewhere, short enough for a sentence."""
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return "a number of more than 19 digits"
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _divisors(n: int) -> str:
    found = [d for d in range(1, min(n, 4096) + 1) if n % d == 0]
    return ", ".join(map(str, found[:8])) + (", ..." if len(found) > 8 else "")
