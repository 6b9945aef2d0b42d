"""The Hopper backward: what it takes, and its launches. The kernels are in hopper_backward_kernel.py.

It takes what the Hopper forward takes, at head_dim 64 and 128. `backward` gives None for everything else, which the
portable backward does. Like the forward, each variant is tested before it is used, and refused where it fails.

dk and dv have the same bits in every call. dq has them where torch.use_deterministic_algorithms(True) is set: its parts
are then added in a fixed order, which costs about a tenth. Extra memory: dq in float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import torch
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernel.descriptors import Described, strides
from kernel.hopper_backward_kernel import FIRST_BARRIER, attention_backward, finish, prepare
from kernel.hopper_launch import Plans, barriers_free, descriptor
from kernel.hopper_tiles import MIN_SCALE

ROWS: Final = 64  # of `prepare` and `finish`
_prepare: Any = prepare
_finish: Any = finish
_deterministic: Any = torch.utils.deterministic


@dataclass(frozen=True, slots=True)
class Config:
    """rows: query rows of a step. keys: of a program. Then how many q, do and ds slots there are."""

    rows: int
    keys: int
    q_stages: int
    do_stages: int
    ds_stages: int


CONFIGS: Final = {64: Config(128, 128, 3, 2, 2), 128: Config(64, 128, 3, 2, 2)}


@dataclass(slots=True)
class Plan:
    """Everything about a call but its pointers and its scale; `refusal` says why there is none."""

    refusal: str
    launch: Any = None
    c: Config = CONFIGS[64]
    padded_q: int = 0
    sizes: tuple = ()


_plans: Final[Plans[Plan]] = Plans(256)


def backward(
    do: torch.Tensor, dlse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor,
    lse: torch.Tensor, causal: bool, sm_scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:  # fmt: skip
    """dq, dk and dv, contiguous, from the gradients of o and lse (base 2); None where this kernel does not apply."""
    do, o = (x if strides(x) and x.data_ptr() % 16 == 0 else x.contiguous() for x in (do, o))
    if sm_scale <= MIN_SCALE or (q.data_ptr() | k.data_ptr() | v.data_ptr()) % 16:
        return None
    order = torch.are_deterministic_algorithms_enabled()
    key = (q.shape, k.shape, q.stride(), k.stride(), v.stride(), q.dtype, q.device, causal, order)
    plan = _plans.get(key)
    if plan is None:
        if torch.cuda.is_current_stream_capturing():
            return None  # a variant that was not tested cannot be tested now
        with torch.cuda.device(q.device):
            plan = _plans.make(key, lambda: _make_plan(q, k, v, causal, order))
    if plan.refusal:
        return None
    with torch.cuda.device(q.device):
        return _launch(plan, do, dlse, q, k, v, o, lse, causal, order, sm_scale)


def refusal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> str:
    """Why this backward does not take a problem that the Hopper forward takes; "" when it does."""
    if torch.cuda.get_device_capability(q.device) != (9, 0):
        return f"{torch.cuda.get_device_name(q.device)} is no Hopper GPU"
    if q.dtype not in (torch.float16, torch.bfloat16):
        return f"{str(q.dtype).removeprefix('torch.')} inputs; the Hopper backward takes float16 and bfloat16"
    if q.shape[3] not in CONFIGS:
        return f"head_dim is {q.shape[3]}; the Hopper backward takes 64 and 128"
    if 0 in (*q.shape, *k.shape):
        return "the problem is empty"
    if any(strides(x) is None for x in (q, k, v)):
        return "rows of q, k or v are not contiguous or do not start at multiples of 16 bytes"
    if 2 * q.shape[0] * q.shape[1] * _padded(q.shape[2]) >= 1 << 31 or k.shape[2] >= 1 << 24:
        return "the problem is too large for the Hopper backward's 32-bit row numbers"
    return ""


def _padded(seqlen_q: int) -> int:
    return -(-seqlen_q // 128) * 128


def _make_plan(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, order: bool) -> Plan:
    reason = refusal(q, k, v)
    if reason:
        return Plan(reason)
    c = CONFIGS[q.shape[3]]
    even = k.shape[2] % c.keys == 0
    compiled, reason = _variant(q.dtype, q.shape[3], causal, even, order, q.device.index)
    return Plan(reason) if reason else _fill_plan(compiled, q, k, causal, order)


def _fill_plan(compiled: Any, q: torch.Tensor, k: torch.Tensor, causal: bool, order: bool) -> Plan:
    (batch, heads, seqlen_q, head_dim), (_, kv_heads, seqlen_k, _) = q.shape, k.shape
    c = CONFIGS[head_dim]
    padded_q = _padded(seqlen_q)
    constants = _constants(c, causal, seqlen_k % c.keys == 0, order)
    sizes = (heads, heads // kv_heads, seqlen_q, seqlen_k, padded_q, batch * heads * padded_q, *constants.values())
    return Plan("", compiled[(-(-seqlen_k // c.keys) * batch * kv_heads, 1, 1)], c, padded_q, sizes)


def _launch(
    plan: Plan, do: torch.Tensor, dlse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    o: torch.Tensor, lse: torch.Tensor, causal: bool, order: bool, sm_scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    batch, heads, seqlen_q, head_dim = q.shape
    padded_q, lines = plan.padded_q, batch * heads * plan.padded_q
    programs = lines // ROWS
    with _unfilled():
        dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
        stats = torch.empty(2 * lines, dtype=torch.float32, device=q.device)
        total = torch.empty((lines, head_dim), dtype=torch.float32, device=q.device)
        turn = torch.empty(programs + 1, dtype=torch.int32, device=q.device)  # whose turn a dq tile is; the tickets
    lse = lse.contiguous()
    # in fixed order the first part of a tile is stored, so that only rows without keys need zeros
    zero_to = padded_q if not order else max(0, seqlen_q - k.shape[2]) if causal else 0
    _prepare[(programs,)](
        o, do, lse, lse if dlse is None else dlse.contiguous(), stats, total, turn, *o.stride()[:3], *do.stride()[:3],
        heads, seqlen_q, padded_q, lines, zero_to, D=head_dim, BM=ROWS, HAS_DLSE=dlse is not None,
    )  # fmt: skip
    plan.launch(
        *(Described(x, tuple(x.shape), strides(x) or ()) for x in (q, k, v, do)),
        Described(stats, (2 * lines,), (1,)),
        *(Described(x, tuple(x.shape), strides(x) or ()) for x in (dk, dv)),
        Described(total, (lines, head_dim), (head_dim, 1)),
        turn, turn[programs:], sm_scale, *plan.sizes,
    )  # fmt: skip
    _finish[(programs,)](total, dq, sm_scale, seqlen_q, padded_q, D=head_dim, BM=ROWS)
    return dq, dk, dv


@contextmanager
def _unfilled() -> Iterator[None]:
    """Keeps torch from filling, in its deterministic mode, buffers that are written as a whole anyway."""
    fill = _deterministic.fill_uninitialized_memory
    _deterministic.fill_uninitialized_memory = False
    try:
        yield
    finally:
        _deterministic.fill_uninitialized_memory = fill


def _constants(c: Config, causal: bool, even: bool, order: bool) -> dict[str, Any]:
    stages = {"Q_STAGES": c.q_stages, "DO_STAGES": c.do_stages, "DS_STAGES": c.ds_stages}
    return {"CAUSAL": causal, "EVEN": even, **stages, "ORDER": order}


@lru_cache(maxsize=64)
def _variant(dtype: torch.dtype, head_dim: int, causal: bool, even: bool, order: bool, device: int) -> tuple[Any, str]:
    """The compiled kernel, or why it cannot be used on this device."""
    try:
        compiled = _compile(dtype, head_dim, causal, even, order, device)
        if not barriers_free(compiled, FIRST_BARRIER):
            return None, "this Triton uses the hardware barriers that the Hopper backward needs"
        return compiled, _self_test(compiled, dtype, head_dim, causal, even, order, device)
    except Exception as error:  # whatever a compiler that nobody has tried yet may raise: the portable kernel is there
        return None, f"the Hopper backward does not compile here: {type(error).__name__}: {str(error)[:200]}"


def _compile(dtype: torch.dtype, head_dim: int, causal: bool, even: bool, order: bool, device: int) -> Any:
    c = CONFIGS[head_dim]
    q, k = (torch.empty((1, 1, n, head_dim), dtype=dtype, device=f"cuda:{device}") for n in (128, c.keys))
    stats, total = (torch.empty(shape, dtype=torch.float32, device=q.device) for shape in ((256,), (128, head_dim)))
    turn = torch.empty(8, dtype=torch.int32, device=q.device)
    flat = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=1)
    wide = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=32, rank=2)
    rows, keys = descriptor(q, c.rows, head_dim), descriptor(k, c.keys, head_dim)
    return attention_backward.warmup(
        rows, keys, keys, rows, TensorDescriptor(stats, [256], [1], [c.rows], flat), keys, keys,
        TensorDescriptor(total, [128, head_dim], [head_dim, 1], [c.rows, head_dim], wide),
        turn, turn[1:], 1.0, 1, 1, 128, c.keys, 128, 128,
        **_constants(c, causal, even, order), num_warps=8, maxnreg=168, grid=(1,),
    )  # fmt: skip


def _self_test(
    compiled: Any, dtype: torch.dtype, head_dim: int, causal: bool, even: bool, order: bool, device: int
) -> str:
    """Compares the gradients of a small problem with those of plain attention in float64."""
    seqlen_q, seqlen_k = 333, 384 if even else 300
    random = torch.Generator(f"cuda:{device}").manual_seed(seqlen_k)

    def draw(heads: int, length: int) -> torch.Tensor:
        return torch.randn((2, heads, length, head_dim), generator=random, device=random.device).to(dtype)

    q, k, v, do = draw(4, seqlen_q), draw(2, seqlen_k), draw(2, seqlen_k), draw(4, seqlen_q)
    scale = head_dim**-0.5
    kk, vv = (x.double().repeat_interleave(2, 1) for x in (k, v))
    s = q.double() @ kk.transpose(2, 3) * scale
    if causal:
        s.masked_fill_(~torch.ones_like(s, dtype=torch.bool).tril(seqlen_k - seqlen_q), -math.inf)
    lse = torch.logsumexp(s, 3)
    p = torch.softmax(s, 3).nan_to_num(0.0)
    o = p @ vv
    ds = p * (do.double() @ vv.transpose(2, 3) - (o * do.double()).sum(3, keepdim=True)) * scale
    by_head = (ds.transpose(2, 3) @ q.double(), p.transpose(2, 3) @ do.double())
    exact = (ds @ kk, *(x.view(2, 2, 2, seqlen_k, head_dim).sum(2) for x in by_head))
    lse2 = (lse * math.log2(math.e)).float().view(-1, seqlen_q)
    plan = _fill_plan(compiled, q, k, causal, order)
    found = _launch(plan, do, None, q, k, v, o.to(dtype), lse2, causal, order, scale)
    error = max(((a.double() - b).norm() / b.norm()).item() for a, b in zip(found, exact, strict=True))
    if error < (2e-3 if dtype == torch.float16 else 1.5e-2):
        return ""
    return f"the Hopper backward failed its self test: gradients are off by {error:.1e}"
