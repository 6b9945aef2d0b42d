"""`flash_attn_triton`: checks the tensors, picks the configuration, launches the kernels, and differentiates them.

The launches stand in two registered operators, flashscope::attention and flashscope::attention_backward, so that
autograd and torch.compile know them. A call that needs neither skips the dispatcher, which costs more than the launch.
"""

import math
from typing import Any, Final, NamedTuple

import torch
from torch.autograd import forward_ad

from kernel import configs
from kernel.checks import DTYPES, check, counts, flag, number
from kernel.choice import backend_of, hopper_gradients, hopper_plan
from kernel.configs import Config
from kernel.descriptors import strides
from kernel.forward import attention_forward
from kernel.launch import (
    Launch,
    constants,
    gpu,
    is_wide,
    layout,
    lengths,
    portable_backward,
    precision,
    processors,
)
from kernel.problem import exponent_scale

MAX_PLANS: Final = 1024
MAX_PROGRAMS: Final = (1 << 31) - 1


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
    causal: row i sees the keys up to i + seqlen_k - seqlen_q. sm_scale: any number up to 1e26 in size, None is
    1/sqrt(head_dim); where a score times it exceeds float32 (never in float16) its row is NaN, as in eager attention.

    Returns o like q, contiguous; with return_lse the pair of o and lse (batch * heads, seqlen_q) in float32,
    lse_i = log2 sum_j exp(sm_scale q_i k_j). A row that sees no key has o = 0 and lse = -inf. An inf or NaN reaches
    the rows that see it and no others. Both o and lse are differentiable, once.
    float32 is multiplied in full precision unless allow_tf32. Blocks, warps and stages not given are kernel.configs'.
    backend: "triton" is the portable kernel, "hopper" the one for Hopper GPUs; None takes "hopper" where it applies, is
    faster, and no blocks, warps or stages are given. The gradients go the same way, and are portable where "hopper" has
    none (head_dim other than 64 and 128). Hopper's dq has the same bits in every call only under
    torch.use_deterministic_algorithms(True), and an inf or NaN may spread in Hopper's gradients within its tile.
    For gradients in 16 bits the portable kernel also keeps what rounding cuts off o, as large as o; Hopper's does not,
    so that dq and dk of rows that two or three keys share are off by a rounding of o·do, as in FlashAttention.
    Gradients are made from lse in float32: those of rows with |lse| > 2^22, where it has no digits left for the
    number of equal scores, can be off by that number.
    Raises TypeError or ValueError, before anything is launched, when the tensors or the blocks cannot be.
    """
    causal, return_lse = flag("causal", causal), flag("return_lse", return_lse)
    allow_tf32 = flag("allow_tf32", allow_tf32)
    if sm_scale is not None and type(sm_scale) is not float:
        sm_scale = number("sm_scale", sm_scale)
    asked = counts(block_m=block_m, block_n=block_n, num_warps=num_warps, num_stages=num_stages)
    backend = backend_of(backend, asked)
    if torch.compiler.is_compiling() or not _plain(q, k, v):
        check(q, k, v, sm_scale)
        scale = _scale(q, sm_scale)
        o, lse, _ = attention(q, k, v, causal, scale, list(asked), allow_tf32, backend, _differentiable(q, k, v))
    else:
        plan = _find_plan(q, k, v, causal, sm_scale, asked, allow_tf32, backend)
        if _differentiable(q, k, v):
            o, lse = _Attention.apply(q, k, v, plan)
        else:
            o, lse, _ = _launch(plan, q, k, v, False)
    return (o, lse) if return_lse else o


def _plain(a: Any, b: Any, c: Any) -> bool:
    """Whether no tensor subclass or mode wants to see a call; refuses the transforms that have no rule for it."""
    if torch._C._functorch.peek_interpreter_stack() is not None:  # pyright: ignore[reportAttributeAccessIssue]
        raise RuntimeError(
            "flash_attn_triton has no rule for torch.func's transforms; use torch.autograd, and no vmap."
        )
    if forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(x).tangent is not None for x in (a, b, c)):
        raise RuntimeError("flash_attn_triton has no forward-mode derivative; use torch.autograd's backward mode.")
    return (
        type(a) in _PLAIN_TYPES
        and type(b) in _PLAIN_TYPES
        and type(c) in _PLAIN_TYPES
        and not torch._C._len_torch_dispatch_stack()
        and a.layout == b.layout == c.layout == torch.strided
        and not (a.is_nested or b.is_nested or c.is_nested)
        and not (a.is_neg() or b.is_neg() or c.is_neg())  # the dispatcher negates what is still to be negated
    )


class _Plan(NamedTuple):
    """What a call does, found once for each combination of shapes, strides, dtype, device and arguments."""

    o_shape: tuple[int, ...]
    lse_shape: tuple[int, ...]
    portable: Launch
    tiled: Launch | None
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
    tf32 = precision(q, allow_tf32) == "tf32"

    def launch(config: Config, tiles: tuple = ()) -> Launch:
        programs = batch * heads * -(-seqlen_q // config.block_m)
        if programs > MAX_PROGRAMS:
            raise ValueError(
                f"This needs {programs:,} programs, and a launch has at most {MAX_PROGRAMS:,}; split the batch."
            )
        numbers = (exponent_scale(scale), *layout(q, k, v), *lengths(q, k))
        told = constants(config, head_dim, causal, scale, precision(q, allow_tf32), is_wide(q, k, v))
        return Launch(
            attention_forward, programs, numbers, told | {"PARTS": config.parts, "LANES": config.lanes}, tiles
        )

    tiled = configs.tiled(gpu(q.device.index), head_dim, DTYPES[q.dtype], k.shape[2], *asked)
    tiles = tuple(strides(x) or () for x in (k, v)) if tiled and k.numel() else ((),)
    # descriptors take their time to be read, which a small problem has no other programs to fill
    few = 8 * processors(q.device.index) if tiled else 0
    pays = tiled and all(tiles) and batch * heads * -(-seqlen_q // tiled.block_m) >= few
    return _Plan(
        (batch, heads, seqlen_q, head_dim),
        (batch * heads, seqlen_q),
        launch(configs.forward(gpu(q.device.index), head_dim, DTYPES[q.dtype], causal, tf32, *asked)),
        launch(tiled, tiles) if tiled and pays else None,
        causal,
        scale,
        allow_tf32,
        backend,
        hopper_plan(q, k, v, causal, scale, backend),
    )


_PLAIN_TYPES: Final = (torch.Tensor, torch.nn.Parameter)
_plans: dict[Any, _Plan] = {}


def _differentiable(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)


def _launch(
    plan: _Plan, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, differentiable: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """o (batch, heads, seqlen_q, head_dim), lse (batch * heads, seqlen_q), and what rounding cuts off o, like o.

    The last is None in float32, from the Hopper kernel, and where no gradients are wanted.
    """
    if plan.hopper is not None:
        found = plan.hopper.run(q, k, v, plan.scale)
        if found is not None:
            return *found, None
        if plan.backend == "hopper":
            raise ValueError(
                'q, k or v does not start at a multiple of 16 bytes, which backend="hopper" needs; copy it.'
            )
    o = torch.empty(plan.o_shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(plan.lse_shape, dtype=torch.float32, device=q.device)
    rest = torch.empty_like(o) if differentiable and o.itemsize == 2 else None
    aligned = (k.data_ptr() | v.data_ptr()) % 16 == 0
    launch = plan.tiled if plan.tiled is not None and aligned else plan.portable
    launch(q.device, q, k, v, o, lse, rest)
    return o, lse, rest


class _Attention(torch.autograd.Function):
    """Eager autograd without the dispatcher, which costs four times as much as a launch."""

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, plan: _Plan) -> Any:
        o, lse, rest = _launch(plan, q, k, v, True)
        ctx.save_for_backward(q, k, v, o, lse, rest)
        ctx.set_materialize_grads(False)
        ctx.plan = plan
        return o, lse

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        plan = ctx.plan
        *saved, rest = ctx.saved_tensors
        saved = (*saved, plan.causal, plan.scale, plan.allow_tf32, plan.backend, rest)
        given = [x for x in grads if x is not None]
        # the operator, with create_graph, refuses to be differentiated again; with is_grads_batched it runs in a loop
        batched = not all(torch._C._has_storage(x) for x in given)
        direct = given and _plain(given[0], given[-1], given[0]) and not (batched or torch.is_grad_enabled())
        return *_gradients(backward if direct else attention_backward, *grads, *saved), None


def _gradients(function: Any, do: torch.Tensor | None, dlse: torch.Tensor | None, *saved: Any) -> tuple:
    """dq, dk and dv where either output may have no gradient."""
    o = saved[3]
    if do is None and dlse is None:
        return None, None, None
    do, dlse = (x if x is None or x.layout == torch.strided else x.to_dense() for x in (do, dlse))
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
    differentiable: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """o, lse and, for gradients in 16 bits, what rounding cuts off o (else no element), of tensors that were checked.

    asked: block_m, block_n, num_warps, num_stages, 0 for the table's.
    """
    plan = _find_plan(q, k, v, causal, scale, tuple(asked), allow_tf32, backend)
    o, lse, rest = _launch(plan, q, k, v, differentiable)
    if rest is None:  # of the shape that is promised to torch.compile
        rest = torch.zeros_like(o) if differentiable and o.itemsize == 2 else o.new_empty(0)
    return o, lse, rest


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
    rest: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dq, dk and dv, contiguous, from the gradients of o and lse; two portable calls give the same bits.

    rest (like o): what the forward's rounding has cut off o.
    """
    hopper = hopper_gradients(q, k, causal, backend)
    found = hopper and hopper(do, dlse, q, k, v, o, lse, causal, scale)
    return found or portable_backward(do, dlse, q, k, v, o, lse, causal, scale, allow_tf32, rest)


attention = torch.library.custom_op("flashscope::attention", forward, mutates_args=())
attention_backward = torch.library.custom_op("flashscope::attention_backward", backward, mutates_args=())


@attention.register_fake
def _(q, k, v, causal, scale, asked, allow_tf32, backend="", differentiable=False):
    lse = q.new_empty((q.shape[0] * q.shape[1], q.shape[2]), dtype=torch.float32)
    return q.new_empty(q.shape), lse, q.new_empty(q.shape if differentiable and q.itemsize == 2 else 0)


@attention_backward.register_fake
def _(do, dlse, q, k, v, o, lse, causal, scale, allow_tf32, backend="", rest=None):
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _save(ctx: Any, inputs: tuple, output: tuple) -> None:
    q, k, v, ctx.causal, ctx.scale, _, ctx.allow_tf32, ctx.backend, _ = inputs
    o, lse, rest = output
    ctx.save_for_backward(q, k, v, o, lse, rest if rest.numel() == o.numel() else None)
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, do: torch.Tensor | None, dlse: torch.Tensor | None, drest: Any) -> tuple:
    *saved, rest = ctx.saved_tensors
    saved = (*saved, ctx.causal, ctx.scale, ctx.allow_tf32, ctx.backend, rest)
    return *_gradients(attention_backward, do, dlse, *saved), *(None,) * 6


def _refuse_second_derivative(ctx: Any, *grads: Any) -> Any:
    raise RuntimeError(
        "flash_attn_triton has no second derivative; differentiate it once, or use torch's "
        "scaled_dot_product_attention with SDPBackend.MATH here."
    )


attention.register_autograd(_differentiate, setup_context=_save)
attention_backward.register_autograd(_refuse_second_derivative)


def _is_capturing(q: torch.Tensor) -> bool:
    return q.is_cuda and torch.cuda.is_current_stream_capturing()


def _scale(q: torch.Tensor, sm_scale: float | None) -> float:
    return 1.0 / math.sqrt(q.shape[3]) if sm_scale is None else float(sm_scale)
