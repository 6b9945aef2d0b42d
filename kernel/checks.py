"""Which tensors are an attention problem; everything else is refused here, before any launch."""

import math
from typing import Final

import torch

from kernel import interpreted

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
    if sm_scale is not None and not math.isfinite(sm_scale):
        raise ValueError(f"sm_scale is {sm_scale}; it must be a finite number, or None for 1/sqrt(head_dim).")
    if q.device.type != "cuda" and not INTERPRETED:
        raise ValueError(
            f"q, k and v are on {q.device}, where the compiled kernel cannot run; move them to a GPU, "
            "or set TRITON_INTERPRET=1 before Python starts to run it in Triton's interpreter."
        )


def _name(dtype: torch.dtype | torch.layout) -> str:
    return str(dtype).removeprefix("torch.")
