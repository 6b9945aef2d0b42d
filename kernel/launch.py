"""Launches of the portable kernels: what they are told of the tensors, and on which device and stream they run."""

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np
import torch
from triton.runtime.errors import OutOfResources
from triton.tools.tensor_descriptor import TensorDescriptor

from kernel import configs
from kernel.backward import attention_delta, attention_dkdv, attention_dq
from kernel.checks import DTYPES, INTERPRETED
from kernel.configs import BackwardConfig, Config
from kernel.descriptors import Described
from kernel.problem import exponent_scale

# a tile is at most 256 x 256, so strides below this keep its offsets under 2^31
WIDE_STRIDE: Final = 1 << 22


class Launch:
    """The forward kernel with everything but its tensors, for many calls of the same shapes and strides on one device.

    From the second call on it goes past Triton's inspection of the arguments, which takes longer than a small kernel:
    the numbers are the same each time, and of the pointers only whether they are multiples of 16 can change.
    """

    def __init__(
        self,
        kernel: Any,
        programs: int,
        numbers: tuple,
        constants: dict[str, Any],
        tiles: tuple[tuple[int, ...], ...] = (),
    ) -> None:
        """tiles: the strides of k and v where the kernel takes descriptors of them; both then start at 16 bytes."""
        self._kernel = kernel
        self._programs = programs
        self._numbers = numbers
        self._constants = constants
        self._tiles = tiles
        self._known = tuple(constants[name] for name in kernel.arg_names if name in constants)
        self._compiled: dict[int, Any] = {}  # by which of the tensors there are, a bit each

    def __call__(self, device: torch.device, *tensors: torch.Tensor | None) -> None:
        """Launches for q, k, v, o, lse and rest, on their device and its current stream, whichever is current."""
        if not self._programs:
            return
        pointers, given, bits = [], 0, 0
        for x in tensors:
            pointer = None if x is None else x.data_ptr()
            pointers.append(pointer)
            given = given * 2 + (pointer is not None)
            bits |= pointer or 0
        usual = bits % 16 == 0 and not INTERPRETED and device.index == torch.cuda.current_device()
        compiled = self._compiled.get(given) if usual else None
        if compiled is not None:
            compiled(*pointers, *self._described(Described, tensors), *self._numbers, *self._known)
            return
        tiles = self._described(self._descriptor, tensors)
        found = run(self._kernel, device, self._programs, (*tensors, *tiles, *self._numbers), self._constants)
        if usual:
            self._compiled[given] = found[(self._programs, 1, 1)]

    def _described(self, describe: Callable[..., Any], tensors: tuple) -> tuple:
        if not self._tiles:
            return None, None
        (_, k, v, *_), (for_k, for_v) = tensors, self._tiles
        return describe(k, k.shape, for_k), describe(v, v.shape, for_v)

    def _descriptor(self, x: torch.Tensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> TensorDescriptor:
        block = [1, 1, self._constants["BLOCK_N"], self._constants["HEAD_DIM_PAD"]]
        return TensorDescriptor(x, list(shape), list(strides), block)


def run(kernel: Any, device: torch.device, programs: int, arguments: tuple, constants: dict[str, Any]) -> Any:
    """Launches on the tensors' device and its current stream, whichever device is current; returns what was compiled.

    Nothing is launched, and None returned, where there are no programs.
    """
    if not programs:
        return None
    if INTERPRETED:
        # NumPy warns where a GPU goes on silently: NaN, infinity, log2(0)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return kernel[(programs,)](*arguments, **constants)
    try:
        if device.index == torch.cuda.current_device():
            return kernel[(programs,)](*arguments, **constants)
        with torch.cuda.device(device):
            return kernel[(programs,)](*arguments, **constants)
    except OutOfResources as error:
        raise ValueError(
            f"The kernel needs {error.required:,} of {error.name}, and {torch.cuda.get_device_name(device)} has "
            f"{error.limit:,}; ask for smaller blocks or fewer stages."
        ) from error


def portable_backward(
    do: torch.Tensor,
    dlse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    causal: bool,
    scale: float,
    allow_tf32: bool,
    rest: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dq, dk and dv, contiguous, from the gradients of o and lse; two calls give the same bits.

    rest (like o): what the forward's rounding has cut off o.
    """
    head_dim = q.shape[3]
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    if q.numel() == 0 or k.numel() == 0:
        return dq.zero_(), dk.zero_(), dv.zero_()
    config = backward_config(q.device.index, head_dim, q.dtype, causal)
    delta = torch.empty_like(lse)
    wide = is_wide(q, k, v, do, o)
    pad = max(16, 1 << (head_dim - 1).bit_length())
    rest = rest if rest is None else rest.contiguous()
    dlse_or_any = lse if dlse is None else dlse.contiguous()
    run(
        attention_delta,
        q.device,
        lse.shape[0] * -(-lse.shape[1] // config.delta.block_m),
        (o, rest, do, dlse_or_any, delta, *layout(o, do), q.shape[1], q.shape[2]),
        {"HEAD_DIM": head_dim, "HEAD_DIM_PAD": pad, "BLOCK_M": config.delta.block_m}
        | {"HAS_DLSE": dlse is not None, "WIDE": wide, **options(config.delta)},
    )
    inputs = (q, k, v, do, lse, delta)
    numbers = (scale, exponent_scale(scale), *layout(q, k, v, do), *lengths(q, k))
    for kernel, outputs, heads, length, block, part in (
        (attention_dkdv, (dk, dv), k.shape[0] * k.shape[1], k.shape[2], config.dkdv.block_n, config.dkdv),
        (attention_dq, (dq,), lse.shape[0], q.shape[2], config.dq.block_m, config.dq),
    ):
        told = constants(part, head_dim, causal, scale, precision(q, allow_tf32), wide)
        ragged = q.shape[2] % part.block_m != 0 or k.shape[2] % part.block_n != 0
        programs = heads * -(-length // block)
        run(kernel, q.device, programs, (*inputs, *outputs, *numbers), told | {"RAGGED": ragged})
    return dq, dk, dv


def constants(config: Config, head_dim: int, causal: bool, scale: float, precision: str, wide: bool) -> dict[str, Any]:
    return {
        "HEAD_DIM": head_dim,
        "HEAD_DIM_PAD": max(16, 1 << (head_dim - 1).bit_length()),
        "BLOCK_M": config.block_m,
        "BLOCK_N": config.block_n,
        "CAUSAL": causal,
        "SIGN": (scale > 0) - (scale < 0),
        "PRECISION": precision,
        "WIDE": wide,
        **options(config),
    }


def options(config: Config) -> dict[str, int]:
    limit = {"maxnreg": config.registers} if config.registers else {}
    return {"num_warps": config.num_warps, "num_stages": config.num_stages, **limit}


def precision(q: torch.Tensor, allow_tf32: bool) -> str:
    return "tf32" if allow_tf32 and q.dtype == torch.float32 else "ieee"


def layout(*tensors: torch.Tensor) -> tuple[int, ...]:
    return tuple(stride for x in tensors for stride in x.stride())


def is_wide(*tensors: torch.Tensor) -> bool:
    return any(max(x.stride()[2:]) >= WIDE_STRIDE for x in tensors)


def lengths(q: torch.Tensor, k: torch.Tensor) -> tuple[int, int, int, int]:
    """heads, query heads a key head, seqlen_q, seqlen_k."""
    return q.shape[1], q.shape[1] // max(1, k.shape[1]), q.shape[2], k.shape[2]


@lru_cache(maxsize=256)
def backward_config(device: int | None, head_dim: int, dtype: torch.dtype, causal: bool) -> BackwardConfig:
    return configs.backward(gpu(device), head_dim, DTYPES[dtype], causal)


@lru_cache(maxsize=16)
def gpu(device: int | None) -> configs.Gpu:
    if INTERPRETED:
        return configs.INTERPRETER
    return configs.Gpu(torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device))


@lru_cache(maxsize=16)
def processors(device: int | None) -> int:
    """Multiprocessors of a CUDA device."""
    return torch.cuda.get_device_properties(device).multi_processor_count
