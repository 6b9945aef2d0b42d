"""`flash_attn_triton`: checks the tensors, picks the configuration, launches the kernel, and differentiates it."""

import math
import warnings
from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch

from kernel import configs
from kernel.configs import Config
from kernel.forward import attention_forward
from kernel.interpreted import INTERPRETED
from kernel.problem import LOG2E

DTYPES: Final = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32"}
# |sm_scale| * log2(e) as the kernel gets it: positive and finite in float32
MIN_SCALE: Final = float(np.finfo(np.float32).tiny)
MAX_SCALE: Final = float(np.finfo(np.float32).max)


def flash_attn_triton(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = True,
    sm_scale: float | None = 1.0,
    *,
    return_lse: bool = False,
    block_m: int | None = None,
    block_n: int | None = None,
    num_warps: int | None = None,
    num_stages: int | None = None,
    allow_tf32: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(sm_scale · q·kᵀ)·v, computed tile by tile (Dao, FlashAttention-2, 2023).

    q (batch, heads, seqlen_q, head_dim), k and v (batch, kv_heads, seqlen_k, head_dim): float16, bfloat16 or float32,
    any strides, head_dim 1 to 256; heads is a multiple of kv_heads, query head h reads key head h * kv_heads // heads.
    causal: row i sees the keys up to i + seqlen_k - seqlen_q. sm_scale: any finite number, None is 1/sqrt(head_dim).

    Returns o like q, contiguous; with return_lse also lse (batch * heads, seqlen_q) in float32,
    lse_i = log2 sum_j exp(sm_scale q_i k_j). A row that sees no key has o = 0 and lse = -inf.
    float32 is multiplied in full precision unless allow_tf32. Blocks, warps and stages not given are kernel.configs'.
    Raises TypeError or ValueError, before anything is launched, when the tensors or the blocks cannot be.
    """
    check(q, k, v, sm_scale)
    scale = 1.0 / math.sqrt(q.shape[3]) if sm_scale is None else float(sm_scale)
    o, lse = launch(q, k, v, bool(causal), scale, (block_m, block_n, num_warps, num_stages), allow_tf32)
    return (o, lse) if return_lse else o


def check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sm_scale: float | None) -> None:
    """Raises TypeError or ValueError, in one sentence, when tensors and scale are no attention problem."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}; flash_attn_triton takes torch tensors.")
        if x.dtype not in DTYPES:
            raise TypeError(f"{name} is {_name(x.dtype)}; flash_attn_triton takes float16, bfloat16 or float32.")
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
        raise ValueError(f"k has shape {tuple(k.shape)} and v {tuple(v.shape)}; they must be equal.")
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
    if sm_scale is not None and not math.isfinite(sm_scale):
        raise ValueError(f"sm_scale is {sm_scale}; it must be a finite number, or None for 1/sqrt(head_dim).")
    if q.device.type != "cuda" and not INTERPRETED:
        raise ValueError(
            f"q, k and v are on {q.device}, where the compiled kernel cannot run; move them to a GPU, "
            "or set TRITON_INTERPRET=1 before Python starts to run it in Triton's interpreter."
        )


def launch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float, asked: tuple, allow_tf32: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """o (batch, heads, seqlen_q, head_dim) and lse (batch * heads, seqlen_q) of tensors that were checked."""
    batch, heads, seqlen_q, head_dim = q.shape
    o = torch.empty((batch, heads, seqlen_q, head_dim), dtype=q.dtype, device=q.device)
    lse = torch.empty((batch * heads, seqlen_q), dtype=torch.float32, device=q.device)
    config = _config(q, causal, asked)
    programs = batch * heads * -(-seqlen_q // config.block_m)
    if not programs:
        return o, lse
    arguments = (
        *(q, k, v, o, lse),
        min(max(abs(scale) * LOG2E, MIN_SCALE), MAX_SCALE) if scale else 1.0,
        *(*q.stride(), *k.stride(), *v.stride()),
        *(heads, heads // max(1, k.shape[1]), seqlen_q, k.shape[2]),
    )
    constants = {
        "HEAD_DIM": head_dim,
        "HEAD_DIM_PAD": max(16, 1 << (head_dim - 1).bit_length()),
        "BLOCK_M": config.block_m,
        "BLOCK_N": config.block_n,
        "CAUSAL": causal,
        "SIGN": (scale > 0) - (scale < 0),
        "PRECISION": "tf32" if allow_tf32 else "ieee",
    }
    _run(attention_forward, q.device, programs, arguments, constants, config)
    return o, lse


def _run(
    kernel: Any, device: torch.device, programs: int, arguments: tuple, constants: dict[str, Any], config: Config
) -> None:
    """Launches on the tensors' device and its current stream, whichever device is current."""
    options = {} if INTERPRETED else {"num_warps": config.num_warps, "num_stages": config.num_stages}
    if INTERPRETED:
        # NumPy warns where a GPU goes on silently: NaN, infinity, log2(0)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            kernel[(programs,)](*arguments, **constants)
    elif device.index == torch.cuda.current_device():
        kernel[(programs,)](*arguments, **constants, **options)
    else:
        with torch.cuda.device(device):
            kernel[(programs,)](*arguments, **constants, **options)


def _config(q: torch.Tensor, causal: bool, asked: tuple) -> Config:
    capability = configs.INTERPRETER if INTERPRETED else torch.cuda.get_device_capability(q.device)
    config = configs.choose(capability, q.shape[3], DTYPES[q.dtype], causal)
    names = ("block_m", "block_n", "num_warps", "num_stages")
    return replace(config, **{name: value for name, value in zip(names, asked, strict=True) if value})


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
