"""Blocks, warps and stages by GPU, head_dim and dtype: a table, so that nothing is tuned at the first call.

`shared_bytes` says what Triton allocates for the forward kernel, so that a configuration that does not fit is refused
before a launch, with the largest that does.
"""

from dataclasses import dataclass, replace
from typing import Final

from kernel.problem import ITEMSIZE, MAX_BLOCK


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU by its name and compute capability (major, minor)."""

    name: str
    capability: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Config:
    """How a kernel is cut and launched: rows and keys of a tile, warps of a program, stages of its load pipeline.

    parts: in how many groups the rows go through a tile. lanes: in how many sums a row's denominator is kept.
    registers: at most so many a thread, 0 for no limit.
    """

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int
    parts: int = 1
    lanes: int = 1
    registers: int = 0


@dataclass(frozen=True, slots=True)
class BackwardConfig:
    """The three kernels of the backward."""

    delta: Config
    dkdv: Config
    dq: Config


INTERPRETER: Final = Gpu("Triton's interpreter", (0, 0))
# bytes of shared memory that one program may have (CUDA C++ Programming Guide, technical specifications by capability)
SHARED_LIMITS: Final = {
    (7, 0): 98_304,
    (7, 2): 98_304,
    (7, 5): 65_536,
    (8, 0): 166_912,
    (8, 6): 101_376,
    (8, 7): 166_912,
    (8, 9): 101_376,
    (9, 0): 232_448,
    (10, 0): 232_448,
    (10, 3): 232_448,
    (11, 0): 232_448,
    (12, 0): 101_376,
    (12, 1): 101_376,
}
BLOCKS: Final = (16, 32, 64, 128, 256)

# padded head_dim -> configuration. Hopper: measured on an H200; wgmma instructions, which need 64 rows, and of whose
# accumulator a thread holds two of every 8 columns
HOPPER: Final = {
    16: Config(128, 64, 4, 3, lanes=8),
    32: Config(128, 64, 4, 3, lanes=8),
    64: Config(128, 64, 4, 3, lanes=8),
    128: Config(128, 128, 8, 3, lanes=8),
    256: Config(128, 64, 8, 2, lanes=8),
}
HOPPER_CAUSAL: Final = HOPPER | {128: Config(64, 64, 4, 3, lanes=8)}
# the same with k and v through descriptors; where there are two, the second is for at most SHORT keys
HOPPER_TILES: Final = {
    64: (Config(64, 128, 4, 2, lanes=8, registers=168), Config(128, 64, 4, 3, parts=2, lanes=8, registers=168)),
    128: (Config(128, 64, 4, 2, parts=2, lanes=8),),
    256: (Config(128, 64, 8, 2, lanes=8),),
}
SHORT: Final = 1024
# Ampere and later: mma.sync instructions; block_m >= head_dim keeps a row of scores in one warp
AMPERE: Final = {
    16: Config(128, 64, 4, 3),
    32: Config(128, 64, 4, 3),
    64: Config(128, 64, 4, 3),
    128: Config(128, 64, 8, 2),
    256: Config(64, 32, 8, 2),
}
TF32: Final = {
    16: Config(64, 64, 4, 2),
    32: Config(64, 64, 4, 2),
    64: Config(64, 64, 4, 2),
    128: Config(64, 32, 4, 2),
    256: Config(32, 32, 8, 1),
}
# Triton multiplies float32, and all before Ampere, without tensor cores; larger tiles spill, and compile for minutes
PLAIN: Final = {
    16: Config(64, 32, 8, 2),
    32: Config(64, 32, 8, 2),
    64: Config(32, 32, 8, 2),
    128: Config(32, 32, 8, 1),
    256: Config(16, 16, 8, 1),
}
# padded head_dim -> dk/dv's and dq's
HOPPER_BACKWARD: Final = {
    64: (Config(64, 128, 8, 3), Config(128, 64, 8, 3)),
    128: (Config(64, 64, 4, 2), Config(64, 64, 4, 2)),
    256: (Config(32, 64, 8, 2), Config(64, 32, 8, 2)),
}
HOPPER_BACKWARD_CAUSAL: Final = HOPPER_BACKWARD | {64: (Config(64, 64, 4, 2), Config(64, 64, 4, 3))}
AMPERE_BACKWARD: Final = {
    64: (Config(64, 64, 4, 2), Config(64, 64, 4, 2)),
    128: (Config(32, 64, 8, 2), Config(64, 32, 8, 2)),
    256: (Config(32, 32, 8, 1), Config(32, 32, 8, 1)),
}
PLAIN_BACKWARD: Final = {
    64: (Config(32, 32, 8, 1), Config(32, 32, 8, 1)),
    128: (Config(16, 32, 8, 1), Config(32, 16, 8, 1)),
    256: (Config(16, 8, 8, 1), Config(8, 16, 8, 1)),
}
DELTA: Final = Config(64, 16, 4, 1)


def forward(
    gpu: Gpu,
    head_dim: int,
    dtype: str,
    causal: bool,
    tf32: bool = False,
    block_m: int = 0,
    block_n: int = 0,
    num_warps: int = 0,
    num_stages: int = 0,
) -> Config:
    """The forward kernel's configuration; numbers other than 0 are a person's and are kept as they are.

    Raises ValueError when such a number cannot be, when the blocks do not fit, or when the GPU has no bfloat16.
    """
    _check_dtype(gpu, dtype)
    for name, block in (("block_m", block_m), ("block_n", block_n)):
        if block and block not in BLOCKS:
            raise ValueError(f"{name} is {block}; it must be a power of two from 16 to {MAX_BLOCK}.")
    if num_warps and num_warps not in (1, 2, 4, 8, 16):
        raise ValueError(f"num_warps is {num_warps}; it must be 1, 2, 4, 8 or 16.")
    if num_stages and not 1 <= num_stages <= 8:
        raise ValueError(f"num_stages is {num_stages}; it must be from 1 to 8.")
    chosen = _table(gpu, dtype, causal, tf32)[_pad(head_dim)]
    asked = replace(chosen, **_given(block_m=block_m, block_n=block_n))
    if asked != chosen:
        chosen = replace(asked, num_warps=_warps(gpu, head_dim, dtype, tf32, asked))
    chosen = replace(chosen, **_given(num_warps=num_warps, num_stages=num_stages))
    limit = shared_limit(gpu)
    while not num_stages and chosen.num_stages > 1 and shared_bytes(gpu, head_dim, dtype, chosen, tf32) > limit:
        chosen = replace(chosen, num_stages=chosen.num_stages - 1)
    if shared_bytes(gpu, head_dim, dtype, chosen, tf32) > limit:
        raise ValueError(too_large(gpu, head_dim, dtype, chosen, tf32))
    return chosen


def tiled(
    gpu: Gpu,
    head_dim: int,
    dtype: str,
    seqlen_k: int,
    block_m: int = 0,
    block_n: int = 0,
    num_warps: int = 0,
    num_stages: int = 0,
) -> Config | None:
    """The forward kernel's configuration with descriptors of k and v; None where there is none as asked for."""
    if gpu.capability != (9, 0) or dtype == "float32":
        return None
    known = HOPPER_TILES.get(_pad(head_dim), ())
    asked = _given(block_m=block_m, block_n=block_n, num_warps=num_warps, num_stages=num_stages)
    fitting = [config for config in known if replace(config, **asked) == config]
    return fitting[-1 if seqlen_k <= SHORT else 0] if fitting else None


def backward(gpu: Gpu, head_dim: int, dtype: str, causal: bool) -> BackwardConfig:
    """The configuration of the backward's kernels. Raises ValueError when the GPU has no bfloat16."""
    _check_dtype(gpu, dtype)
    table = AMPERE_BACKWARD
    if gpu == INTERPRETER:
        table = dict.fromkeys(PLAIN_BACKWARD, (Config(64, 64, 4, 1), Config(64, 64, 4, 1)))
    elif not _tensor_cores(gpu, dtype, False):
        table = PLAIN_BACKWARD
    elif gpu.capability[0] == 9:
        table = HOPPER_BACKWARD_CAUSAL if causal else HOPPER_BACKWARD
    return BackwardConfig(DELTA, *table[max(64, _pad(head_dim))])


def shared_limit(gpu: Gpu) -> int:
    """Bytes of shared memory that one program may have; an unknown newer GPU counts as the smallest since Ampere."""
    return SHARED_LIMITS.get(gpu.capability, 101_376 if gpu.capability >= (8, 0) else 65_536)


def shared_bytes(gpu: Gpu, head_dim: int, dtype: str, config: Config, tf32: bool = False) -> int:
    """Bytes of shared memory that Triton allocates for one program of the forward kernel; 0 in the interpreter.

    q, the stages of k and v, and where p changes from one layout to another, p; exact but for float32, where Triton
    may leave out the padding of p, 4 bytes a row. Compared with what it compiles in tests/kernel/test_configs.py.
    """
    if gpu == INTERPRETER:
        return 0
    m, n, pad, size = config.block_m, config.block_n, _pad(head_dim), ITEMSIZE[dtype]
    if gpu.capability < (8, 0):  # tiles are lifted to float32, and loaded when they are needed
        return 4 * (m * pad + n * max(pad, m))
    tensor_cores, wgmma = _tensor_cores(gpu, dtype, tf32), _wgmma(gpu, dtype, tf32, m, config.num_warps)
    buffers = 1 if config.num_stages == 1 else 2 * (config.num_stages - (0 if wgmma else 1))
    total = size * (m * pad + buffers * n * pad)
    if not tensor_cores:
        total += 4 * m * (n + 1)
    elif not wgmma and m < max(n, pad):
        total += size * m * (n + (4 if size == 4 else 0))
    return total


def backward_bytes(gpu: Gpu, head_dim: int, dtype: str, config: BackwardConfig) -> tuple[int, int]:
    """At most so many bytes of shared memory have the programs of dk/dv and of dq; 0 in the interpreter."""
    return (
        _backward_bytes(gpu, head_dim, dtype, config.dkdv, config.dkdv.block_n, config.dkdv.block_m, 2),
        _backward_bytes(gpu, head_dim, dtype, config.dq, config.dq.block_m, config.dq.block_n, 1),
    )


def _backward_bytes(gpu: Gpu, head_dim: int, dtype: str, config: Config, kept: int, passing: int, products: int) -> int:
    """Two tiles of `kept` rows stay on the chip, two of `passing` rows go by; p and ds may change their layout."""
    if gpu == INTERPRETER:
        return 0
    pad, size, stages = _pad(head_dim), ITEMSIZE[dtype], config.num_stages
    if gpu.capability < (8, 0):
        return 4 * (pad * 2 * (kept + passing) + products * kept * passing)
    wgmma = _wgmma(gpu, dtype, False, kept, config.num_warps)
    tiles = 2 * kept + 2 * passing * max(1, stages - (0 if wgmma else 1))
    if stages == 1 and not wgmma:
        tiles += passing
    total = size * (pad * tiles + (0 if wgmma else products * kept * passing))
    return total + (stages - 1) * products * 2 * 4 * passing


def too_large(gpu: Gpu, head_dim: int, dtype: str, config: Config, tf32: bool = False) -> str:
    """The sentence that refuses a configuration: the bytes needed, the bytes there, and the largest blocks that fit."""
    limit = shared_limit(gpu)
    need = shared_bytes(gpu, head_dim, dtype, config, tf32)
    fitting = [
        (m, n)
        for m in BLOCKS
        for n in BLOCKS
        if shared_bytes(gpu, head_dim, dtype, replace(config, block_m=m, block_n=n), tf32) <= limit
    ]
    stages = "1 stage" if config.num_stages == 1 else f"{config.num_stages} stages"
    text = (
        f"Blocks of {config.block_m} x {config.block_n} with {stages} need {need:,} bytes of shared memory at head_dim "
        f"{head_dim} in {dtype}, but a program on {gpu.name} has {limit:,}"
    )
    if not fitting:
        return f"{text}; ask for fewer stages."
    m, n = max(fitting, key=lambda blocks: (blocks[0] * blocks[1], blocks[0]))
    return f"{text}; the largest blocks that fit are {m} x {n}."


def _table(gpu: Gpu, dtype: str, causal: bool, tf32: bool) -> dict[int, Config]:
    if gpu == INTERPRETER:
        return dict.fromkeys(PLAIN, Config(128, 64, 4, 1))
    if not _tensor_cores(gpu, dtype, tf32):
        return PLAIN
    if dtype == "float32":
        return TF32
    if gpu.capability[0] == 9:
        return HOPPER_CAUSAL if causal else HOPPER
    return AMPERE


def _tensor_cores(gpu: Gpu, dtype: str, tf32: bool) -> bool:
    return gpu.capability >= (8, 0) and (dtype != "float32" or tf32)


def _wgmma(gpu: Gpu, dtype: str, tf32: bool, rows: int, num_warps: int) -> bool:
    """Whether products use Hopper's instructions, whose operands wait in shared memory."""
    return gpu.capability[0] in (9, 10) and _tensor_cores(gpu, dtype, tf32) and rows >= 64 and num_warps >= 4


def _check_dtype(gpu: Gpu, dtype: str) -> None:
    if dtype == "bfloat16" and gpu != INTERPRETER and gpu.capability < (8, 0):
        raise ValueError(f"{gpu.name} has no bfloat16 arithmetic (it came with Ampere); use float16 or float32.")


def _warps(gpu: Gpu, head_dim: int, dtype: str, tf32: bool, config: Config) -> int:
    """Warps for blocks that are not the table's: scores and acc, in float32, take at most half of the registers."""
    if not _tensor_cores(gpu, dtype, tf32):
        return 8
    return 4 if config.block_m * (config.block_n + _pad(head_dim)) <= 128 * 128 else 8


def _given(**values: int) -> dict[str, int]:
    return {name: value for name, value in values.items() if value}


def _pad(head_dim: int) -> int:
    return max(16, 1 << (head_dim - 1).bit_length())
