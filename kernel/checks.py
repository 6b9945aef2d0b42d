"""Which tensors and arguments are an attention problem; everything else is refused here, before any launch."""

import math
import numbers
import operator
from typing import Any, Final

import numpy as np
import torch

from kernel import interpreted
from kernel.problem import MAX_SCALE, shown, too_large

DTYPES: Final = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32"}
# row and key numbers, and a block beyond them, are 32-bit integers in the kernels
MAX_SEQLEN: Final = (1 << 31) - 1024
INTERPRETED: Final = bool(interpreted.INTERPRETED.value)


def check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sm_scale: float | None) -> None:
    """Raises TypeError or ValueError, in one sentence, when tensors and scale are no attention problem."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}; flash_attn_triton takes torch tensors.")
        if x.dtype not in DTYPES:
            raise TypeError(f"{name} is {_name(x.dtype)}; flash_attn_triton takes float16, bfloat16 or float32.")
        if x.is_nested:
            raise TypeError(f"{name} is nested; flash_attn_triton takes dense tensors, as to_padded_tensor() gives.")
        if x.layout != torch.strided:
            raise TypeError(f"{name} is {_name(x.layout)}; flash_attn_triton takes dense tensors, as to_dense() gives.")
        if x.dim() != 4:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}; it must have four dimensions, (batch, heads, seqlen, head_dim)."
            )
    if not q.dtype == k.dtype == v.dtype:
        dtypes = f"{_name(q.dtype)}, {_name(k.dtype)} and {_name(v.dtype)}"
        raise TypeError(f"q, k and v are {dtypes}; convert them to one dtype.")
    if not q.device == k.device == v.device:
        raise ValueError(f"q, k and v are on {q.device}, {k.device} and {v.device}; move them to one device.")
    batch, heads, _, head_dim = q.shape
    if k.shape != v.shape:
        raise ValueError(f"k has shape {tuple(k.shape)} and v {tuple(v.shape)}; give them the same shape.")
    if k.shape[0] != batch or k.shape[3] != head_dim:
        raise ValueError(
            f"q has shape {tuple(q.shape)} and k {tuple(k.shape)}; batch (first) and head_dim (last) must be equal."
        )
    if not 1 <= head_dim <= 256:
        raise ValueError(f"head_dim is {head_dim}; it must be from 1 to 256.")
    kv_heads = k.shape[1]
    if heads != kv_heads and (kv_heads == 0 or heads % kv_heads):
        raise ValueError(
            f"{heads} query heads cannot share {kv_heads} key heads; heads must be a multiple of kv_heads."
        )
    if max(q.shape[2], k.shape[2]) > MAX_SEQLEN:
        raise ValueError(f"The longest sequence is {max(q.shape[2], k.shape[2]):,}; it must be at most {MAX_SEQLEN:,}.")
    if sm_scale is not None and not abs(sm_scale) <= MAX_SCALE:  # torch.compile follows this, but no math.isfinite
        if not math.isfinite(sm_scale):
            raise ValueError(f"sm_scale is {sm_scale}; it must be a finite number, or None for 1/sqrt(head_dim).")
        raise ValueError(too_large(sm_scale))
    if q.is_meta:
        raise ValueError("q, k and v are on the meta device, where tensors hold no numbers; move them to a GPU or CPU.")
    if q.device.type != "cuda" and not INTERPRETED:
        raise ValueError(
            f"q, k and v are on {q.device}, where the compiled kernel cannot run; move them to a GPU, "
            "or set TRITON_INTERPRET=1 before Python starts to run it in Triton's interpreter."
        )


def flag(name: str, value: Any) -> bool:
    """A bool from a bool, also NumPy's, or from 0 or 1, as the original kernel takes them. Raises TypeError."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, np.bool_)) and value in (0, 1):
        return bool(value)
    raise TypeError(f"{name} is {told(value)}; it must be True or False.")


def number(name: str, value: Any) -> float:
    """A float from any real number but a bool. Raises TypeError, and ValueError where no float is as large."""
    if isinstance(value, bool) or not isinstance(value, (int, float, numbers.Real)):
        wanted = "a number, as .item() gives it" if isinstance(value, torch.Tensor) else "a number such as 0.125"
        raise TypeError(f"{name} is {told(value)}; it must be {wanted}, or None for 1/sqrt(head_dim).")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is {shown(value)}; it must be at most {MAX_SCALE:g} in size.") from None


def counts(**values: Any) -> tuple[int, ...]:
    """Positive whole numbers that a person gave, 0 where kernel.configs chooses. Raises ValueError."""
    return tuple(0 if value is None else _count(name, value) for name, value in values.items())


def _count(name: str, value: Any) -> int:
    try:
        count = 0 if isinstance(value, (bool, torch.Tensor)) else operator.index(value)
    except TypeError:
        count = 0
    if count < 1:
        raise ValueError(f"{name} is {told(value)}; give a positive whole number, or None for the table's.")
    return count


def told(value: object) -> str:
    """What a person gave, short and in one line."""
    return "a tensor" if isinstance(value, torch.Tensor) else " ".join(shown(value).split())


def _name(dtype: torch.dtype | torch.layout) -> str:
    return str(dtype).removeprefix("torch.")
