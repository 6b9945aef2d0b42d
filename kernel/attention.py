"""`flash_attn_triton`: checks the tensors, picks the configuration, launches the kernels, and differentiates them.

The launches stand in two registered operators, flashscope::attention and flashscope::attention_backward, so that
autograd and torch.compile know them. A call that needs neither skips the dispatcher, which costs more than the launch.
"""

import math
import warnings
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch.autograd import forward_ad
from triton.runtime.errors import OutOfResources

from kernel import configs, interpreted
from kernel.backward import attention_delta, attention_dkdv, attention_dq
from kernel.configs import BackwardConfig, Config
from kernel.forward import attention_forward
from kernel.problem import LOG2E

DTYPES: Final = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32"}
# |sm_scale| * log2(e) as the kernel gets it: positive and finite in float32
MIN_SCALE: Final = float(np.finfo(np.float32).tiny)
MAX_SCALE: Final = float(np.finfo(np.float32).max)
# a tile is at most 256 x 256, so strides below this keep its offsets under 2^31
WIDE_STRIDE: Final = 1 << 22
MAX_PLANS: Final = 1024
INTERPRETED: Final = bool(interpreted.INTERPRETED.value)


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
    backend: str | None = None,
) -> Any:
    """softmax(sm_scale · q·kᵀ)·v, computed tile by tile (Dao, FlashAttention-2, 2023).

    q (batch, heads, seqlen_q, head_dim), k and v (batch, kv_heads, seqlen_k, head_dim): float16, bfloat16 or float32,
    any strides, head_dim 1 to 256; heads is a multiple of kv_heads, query head h reads key head h * kv_heads // heads.
    causal: row i sees the keys up to i + seqlen_k - seqlen_q. sm_scale: any finite number, None is 1/sqrt(head_dim).

    Returns o like q, contiguous; with return_lse the pair of o and lse (batch * heads, seqlen_q) in float32,
    lse_i = log2 sum_j exp(sm_scale q_i k_j). A row that sees no key has o = 0 and lse = -inf. An inf or NaN reaches
    the rows that see it and no others. Both o and lse are differentiable, once.
    float32 is multiplied in full precision unless allow_tf32. Blocks, warps and stages not given are kernel.configs'.
    backend: "triton" is the portable kernel, "hopper" the one for Hopper GPUs; None takes "hopper" where it applies, is
    faster, and no blocks, warps or stages are given. The gradients go the same way, and are portable where "hopper" has
    none (head_dim other than 64 and 128). Hopper's dq has the same bits in every call only under
    torch.use_deterministic_algorithms(True), and an inf or NaN may spread in Hopper's gradients within its tile.
    Raises TypeError or ValueError, before anything is launched, when the tensors or the blocks cannot be.
    """
    causal, asked = bool(causal), (block_m or 0, block_n or 0, num_warps or 0, num_stages or 0)
    backend = _backend(backend, asked)
    if torch.compiler.is_compiling() or not _plain(q, k, v):
        check(q, k, v, sm_scale)
        scale = _scale(q, sm_scale)
        o, lse = attention(q, k, v, causal, scale, list(asked), allow_tf32, backend)
    else:
        plan = _find_plan(q, k, v, causal, sm_scale, asked, allow_tf32, backend)
        if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
            o, lse = _Attention.apply(q, k, v, plan)
        else:
            o, lse = _launch(plan, q, k, v)
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
    if sm_scale is not None and not math.isfinite(sm_scale):
        raise ValueError(f"sm_scale is {sm_scale}; it must be a finite number, or None for 1/sqrt(head_dim).")
    if q.device.type != "cuda" and not INTERPRETED:
        raise ValueError(
            f"q, k and v are on {q.device}, where the compiled kernel cannot run; move them to a GPU, "
            "or set TRITON_INTERPRET=1 before Python starts to run it in Triton's interpreter."
        )


def _plain(q: Any, k: Any, v: Any) -> bool:
    """Whether no tensor subclass or mode wants to see the call; refuses the transforms that have no rule for it."""
    if torch._C._functorch.peek_interpreter_stack() is not None:  # pyright: ignore[reportAttributeAccessIssue]
        raise RuntimeError(
            "flash_attn_triton has no rule for torch.func's transforms; use torch.autograd, and no vmap."
        )
    if forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(x).tangent is not None for x in (q, k, v)):
        raise RuntimeError("flash_attn_triton has no forward-mode derivative; use torch.autograd's backward mode.")
    return (
        type(q) in _PLAIN_TYPES
        and type(k) in _PLAIN_TYPES
        and type(v) in _PLAIN_TYPES
        and not torch._C._len_torch_dispatch_stack()
    )


class _Plan(NamedTuple):
    """What a call does, found once for each combination of shapes, strides, dtype, device and arguments."""

    o_shape: tuple[int, ...]
    lse_shape: tuple[int, ...]
    programs: int
    arguments: tuple[Any, ...]
    constants: dict[str, Any]
    causal: bool
    scale: float
    allow_tf32: bool
    backend: str
    hopper: Any


def _find_plan(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    sm_scale: float | None,
    asked: tuple[int, ...],
    allow_tf32: bool,
    backend: str,
) -> _Plan:
    key: Any = (q.shape, k.shape, v.shape, q.stride(), k.stride(), v.stride(), q.dtype, k.dtype, v.dtype)
    key = (*key, q.device, k.device, v.device, causal, sm_scale, asked, allow_tf32, backend)
    plan = _plans.get(key)
    if plan is None:
        check(q, k, v, sm_scale)
        plan = _make_plan(q, k, v, causal, _scale(q, sm_scale), asked, allow_tf32, backend)
        if _is_capturing(q):
            return plan  # what a capture forbids may be possible at the next call
        if len(_plans) >= MAX_PLANS:
            if q.is_cuda:
                torch.cuda.synchronize(q.device)  # a launch under way may still read what a plan holds
            _plans.clear()
        _plans[key] = plan
    return plan


def _make_plan(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    scale: float,
    asked: tuple[int, ...],
    allow_tf32: bool,
    backend: str,
) -> _Plan:
    batch, heads, seqlen_q, head_dim = q.shape
    tf32 = _precision(q, allow_tf32) == "tf32"
    config = configs.forward(_gpu(q.device.index), head_dim, DTYPES[q.dtype], causal, tf32, *asked)
    return _Plan(
        (batch, heads, seqlen_q, head_dim),
        (batch * heads, seqlen_q),
        batch * heads * -(-seqlen_q // config.block_m),
        (_exponent_scale(scale), *_layout(q, k, v), *_lengths(q, k)),
        _constants(config, head_dim, causal, scale, _precision(q, allow_tf32), _wide(q, k, v)),
        causal,
        scale,
        allow_tf32,
        backend,
        _hopper_plan(q, k, v, causal, scale, backend),
    )


_PLAIN_TYPES: Final = (torch.Tensor, torch.nn.Parameter)
_plans: dict[Any, _Plan] = {}


def _launch(plan: _Plan, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """o (batch, heads, seqlen_q, head_dim) and lse (batch * heads, seqlen_q)."""
    if plan.hopper is not None:
        found = plan.hopper.run(q, k, v, plan.scale)
        if found is not None:
            return found
        if plan.backend == "hopper":
            raise ValueError(
                'q, k or v does not start at a multiple of 16 bytes, which backend="hopper" needs; copy it.'
            )
    o = torch.empty(plan.o_shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(plan.lse_shape, dtype=torch.float32, device=q.device)
    _run(attention_forward, q.device, plan.programs, (q, k, v, o, lse, *plan.arguments), plan.constants)
    return o, lse


class _Attention(torch.autograd.Function):
    """Eager autograd without the dispatcher, which costs four times as much as a launch."""

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, plan: _Plan) -> Any:
        o, lse = _launch(plan, q, k, v)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.set_materialize_grads(False)
        ctx.plan = plan
        return o, lse

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        plan = ctx.plan
        saved = (*ctx.saved_tensors, plan.causal, plan.scale, plan.allow_tf32, plan.backend)
        # with create_graph the operator runs, which refuses to be differentiated again
        function = attention_backward if torch.is_grad_enabled() else backward
        return *_gradients(function, *grads, *saved), None


def _gradients(function: Any, do: torch.Tensor | None, dlse: torch.Tensor | None, *saved: Any) -> tuple:
    """dq, dk and dv where either output may have no gradient."""
    o = saved[3]
    if do is None and dlse is None:
        return None, None, None
    return function(o.new_zeros(()).expand(o.shape) if do is None else do, dlse, *saved)


def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    scale: float,
    asked: list[int],
    allow_tf32: bool,
    backend: str = "",
) -> tuple[torch.Tensor, torch.Tensor]:
    """o and lse of tensors that were checked; asked: block_m, block_n, num_warps, num_stages, 0 for the table's."""
    return _launch(_find_plan(q, k, v, causal, scale, tuple(asked), allow_tf32, backend), q, k, v)


def backward(
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
    backend: str = "",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dq, dk and dv, contiguous, from the gradients of o and lse; two portable calls give the same bits."""
    if backend != "triton" and _is_hopper(q):
        from kernel import hopper, hopper_backward

        if backend or hopper.pays(q, k, causal):
            found = hopper_backward.backward(do, dlse, q, k, v, o, lse, causal, scale)
            if found is not None:
                return found
    head_dim = q.shape[3]
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    if q.numel() == 0 or k.numel() == 0:
        return dq.zero_(), dk.zero_(), dv.zero_()
    config = _backward_config(q.device.index, head_dim, q.dtype, causal)
    delta = torch.empty_like(lse)
    wide = _wide(q, k, v, do, o)
    pad = max(16, 1 << (head_dim - 1).bit_length())
    _run(
        attention_delta,
        q.device,
        lse.shape[0] * -(-lse.shape[1] // config.delta.block_m),
        (o, do, lse if dlse is None else dlse.contiguous(), delta, *_layout(o, do), q.shape[1], q.shape[2]),
        {"HEAD_DIM": head_dim, "HEAD_DIM_PAD": pad, "BLOCK_M": config.delta.block_m}
        | {"HAS_DLSE": dlse is not None, "WIDE": wide, **_options(config.delta)},
    )
    inputs = (q, k, v, do, lse, delta)
    rest = (scale, _exponent_scale(scale), *_layout(q, k, v, do), *_lengths(q, k))
    for kernel, outputs, heads, length, block, part in (
        (attention_dkdv, (dk, dv), k.shape[0] * k.shape[1], k.shape[2], config.dkdv.block_n, config.dkdv),
        (attention_dq, (dq,), lse.shape[0], q.shape[2], config.dq.block_m, config.dq),
    ):
        constants = _constants(part, head_dim, causal, scale, _precision(q, allow_tf32), wide)
        ragged = q.shape[2] % part.block_m != 0 or k.shape[2] % part.block_n != 0
        programs = heads * -(-length // block)
        _run(kernel, q.device, programs, (*inputs, *outputs, *rest), constants | {"RAGGED": ragged})
    return dq, dk, dv


attention = torch.library.custom_op("flashscope::attention", forward, mutates_args=())
attention_backward = torch.library.custom_op("flashscope::attention_backward", backward, mutates_args=())


@attention.register_fake
def _(q, k, v, causal, scale, asked, allow_tf32, backend=""):
    return q.new_empty(q.shape), q.new_empty((q.shape[0] * q.shape[1], q.shape[2]), dtype=torch.float32)


@attention_backward.register_fake
def _(do, dlse, q, k, v, o, lse, causal, scale, allow_tf32, backend=""):
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _save(ctx: Any, inputs: tuple, output: tuple) -> None:
    q, k, v, ctx.causal, ctx.scale, _, ctx.allow_tf32, ctx.backend = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, do: torch.Tensor | None, dlse: torch.Tensor | None) -> tuple:
    saved = (*ctx.saved_tensors, ctx.causal, ctx.scale, ctx.allow_tf32, ctx.backend)
    return *_gradients(attention_backward, do, dlse, *saved), *(None,) * 5


attention.register_autograd(_differentiate, setup_context=_save)


def _backend(backend: str | None, asked: tuple[int, ...]) -> str:
    """ "triton", "hopper", or "" where the tensors decide."""
    if backend not in (None, "triton", "hopper"):
        raise ValueError(f'backend is {backend!r}; it must be "triton", "hopper" or None.')
    if backend == "hopper" and any(asked):
        raise ValueError('backend="hopper" chooses its own blocks, warps and stages; leave them out.')
    return "triton" if any(asked) else backend or ""


def _is_hopper(q: torch.Tensor) -> bool:
    return not INTERPRETED and _gpu(q.device.index).capability == (9, 0)


def _hopper_plan(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float, backend: str) -> Any:
    """The Hopper kernel's plan for this problem, or None; Gluon is imported only on a GPU that can run it."""
    refusal = "this is no Hopper GPU"
    if backend != "triton" and _is_hopper(q):
        from kernel import hopper

        if not backend and not hopper.pays(q, k, causal):
            return None
        plan = hopper.plan(q, k, v, causal, scale)
        if not plan.refusal:
            return plan
        refusal = plan.refusal
    if backend == "hopper":
        raise ValueError(f'backend="hopper" cannot take this: {refusal}; leave backend out for the portable kernel.')
    return None


def _is_capturing(q: torch.Tensor) -> bool:
    return q.is_cuda and torch.cuda.is_current_stream_capturing()


def _run(kernel: Any, device: torch.device, programs: int, arguments: tuple, constants: dict[str, Any]) -> None:
    """Launches on the tensors' device and its current stream, whichever device is current."""
    if not programs:
        return
    if INTERPRETED:
        # NumPy warns where a GPU goes on silently: NaN, infinity, log2(0)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            kernel[(programs,)](*arguments, **constants)
        return
    try:
        if device.index == torch.cuda.current_device():
            kernel[(programs,)](*arguments, **constants)
        else:
            with torch.cuda.device(device):
                kernel[(programs,)](*arguments, **constants)
    except OutOfResources as error:
        raise ValueError(
            f"The kernel needs {error.required:,} of {error.name}, and {torch.cuda.get_device_name(device)} has "
            f"{error.limit:,}; ask for smaller blocks or fewer stages."
        ) from error


def _constants(config: Config, head_dim: int, causal: bool, scale: float, precision: str, wide: bool) -> dict[str, Any]:
    return {
        "HEAD_DIM": head_dim,
        "HEAD_DIM_PAD": max(16, 1 << (head_dim - 1).bit_length()),
        "BLOCK_M": config.block_m,
        "BLOCK_N": config.block_n,
        "CAUSAL": causal,
        "SIGN": (scale > 0) - (scale < 0),
        "PRECISION": precision,
        "WIDE": wide,
        **_options(config),
    }


def _options(config: Config) -> dict[str, int]:
    return {"num_warps": config.num_warps, "num_stages": config.num_stages}


def _scale(q: torch.Tensor, sm_scale: float | None) -> float:
    return 1.0 / math.sqrt(q.shape[3]) if sm_scale is None else float(sm_scale)


def _exponent_scale(scale: float) -> float:
    return min(max(abs(scale) * LOG2E, MIN_SCALE), MAX_SCALE) if scale else 1.0


def _precision(q: torch.Tensor, allow_tf32: bool) -> str:
    return "tf32" if allow_tf32 and q.dtype == torch.float32 else "ieee"


def _layout(*tensors: torch.Tensor) -> tuple[int, ...]:
    return tuple(stride for x in tensors for stride in x.stride())


def _wide(*tensors: torch.Tensor) -> bool:
    return any(max(x.stride()[2:]) >= WIDE_STRIDE for x in tensors)


def _lengths(q: torch.Tensor, k: torch.Tensor) -> tuple[int, int, int, int]:
    """heads, query heads a key head, seqlen_q, seqlen_k."""
    return q.shape[1], q.shape[1] // max(1, k.shape[1]), q.shape[2], k.shape[2]


@lru_cache(maxsize=256)
def _backward_config(device: int | None, head_dim: int, dtype: torch.dtype, causal: bool) -> BackwardConfig:
    return configs.backward(_gpu(device), head_dim, DTYPES[dtype], causal)


@lru_cache(maxsize=16)
def _gpu(device: int | None) -> configs.Gpu:
    if INTERPRETED:
        return configs.INTERPRETER
    return configs.Gpu(torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
