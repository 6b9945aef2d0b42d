"""The Hopper forward: what it takes, its compilation and test, and its launch.

The kernel itself is hopper_kernel.py, its tiles are hopper_tiles.py. It takes float16 and bfloat16, head_dim a multiple
of 8 up to 256, any lengths, grouped heads, causal or not, sm_scale > 0, and tensors whose rows start at multiples of
16 bytes. A plan's `refusal` says why not; the portable kernel takes the rest.

Nothing is trusted because it worked once. The first call of each variant (dtype, padded head_dim, causal, even lengths,
configuration) reads in the compiled code which hardware barriers the compiler uses, and compares a small problem with
plain attention; a variant that fails is refused from then on. Under CUDA graph capture neither can be done, so the
first call of a shape must come before the capture, else it is refused and the portable kernel is captured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import torch

from kernel import hopper_tiles
from kernel.descriptors import Described, strides
from kernel.hopper_kernel import attention_forward
from kernel.hopper_launch import BARRIERS, Plans, barriers_free, descriptor
from kernel.hopper_parts import FIRST_BARRIER
from kernel.hopper_tiles import MIN_SCALE, Config, config, first_key, is_even, padded, schedule
from kernel.launch import processors

MAX_LENGTH: Final = 1 << 24
MAX_HEADS: Final = 1 << 18
MAX_BATCH: Final = 1 << 21


@dataclass(slots=True)
class Plan:
    """Everything about a call but its pointers and its scale; `refusal` says why there is none."""

    refusal: str
    launch: Any = None
    table: Any = None
    strides: tuple[tuple[int, ...], ...] = ()
    sizes: tuple = ()
    o_shape: tuple[int, ...] = ()
    lse_shape: tuple[int, int] = (0, 0)
    lse_size: int = 0
    flags_at: int = 0
    captured: bool = False

    def run(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sm_scale: float
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        """o and lse, on the current stream of the tensors' device; None where a tensor does not start at 16 bytes."""
        if (q.data_ptr() | k.data_ptr() | v.data_ptr()) % 16:
            return None
        if q.device.index == torch.cuda.current_device():
            return self._run(q, k, v, sm_scale)
        with torch.cuda.device(q.device):
            return self._run(q, k, v, sm_scale)

    def _run(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sm_scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.captured and torch.cuda.is_current_stream_capturing():
            self.captured = True
            _captured.append(self)
        o = torch.empty(self.o_shape, dtype=q.dtype, device=q.device)
        lse = torch.empty(self.lse_size, dtype=torch.float32, device=q.device)
        broken = lse.data_ptr() + 4 * self.flags_at  # behind lse, a flag for each program
        lse = lse.as_strided(self.lse_shape, (self.lse_shape[1], 1))
        for_q, for_k, for_v, for_o = self.strides
        self.launch(
            Described(q, q.shape, for_q), Described(k, k.shape, for_k), Described(v, v.shape, for_v),
            Described(o, self.o_shape, for_o), q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), lse.data_ptr(),
            broken, self.table.data_ptr(), sm_scale, *self.sizes,
        )  # fmt: skip
        return o, lse


_captured: Final[list[Plan]] = []  # a CUDA graph points at their tables, for as long as the process lives
_plans: Final[Plans[Plan]] = Plans(256)


def plan(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, sm_scale: float) -> Plan:
    """The plan for a legal problem on a CUDA device; its `refusal` says why this kernel does not take it.

    The first call of a variant compiles and tests it, which takes seconds.
    """
    if sm_scale <= MIN_SCALE:
        return Plan(f"sm_scale is {sm_scale}, and it must be positive, above {MIN_SCALE:g}")
    key = (q.shape, k.shape, q.stride(), k.stride(), v.stride(), q.dtype, q.device, causal)
    found = _plans.get(key)
    if found is None:
        if torch.cuda.is_current_stream_capturing():
            return Plan("this shape's first call is inside a CUDA graph capture; call it once before")
        with torch.cuda.device(q.device):
            found = _plans.make(key, lambda: _make_plan(q, k, v, causal))
    return found


def pays(q: torch.Tensor, k: torch.Tensor, causal: bool) -> bool:
    """Whether this kernel is the faster one for a problem that it can take."""
    (batch, heads, seqlen_q, head_dim), seqlen_k = q.shape, k.shape[2]
    c = config(head_dim, causal, max(seqlen_q, seqlen_k))
    return hopper_tiles.pays(batch * heads, seqlen_q, seqlen_k, c, processors(q.device.index))


def forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, sm_scale: float
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """o (batch, heads, seqlen_q, head_dim), contiguous, and lse (batch * heads, seqlen_q); None where refused."""
    found = plan(q, k, v, causal, sm_scale)
    return None if found.refusal else found.run(q, k, v, sm_scale)


def _make_plan(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Plan:
    (batch, heads, seqlen_q, head_dim), seqlen_k = q.shape, k.shape[2]
    if torch.cuda.get_device_capability(q.device) != (9, 0):
        return Plan(f"{torch.cuda.get_device_name(q.device)} is no Hopper GPU")
    if q.dtype not in (torch.float16, torch.bfloat16):
        return Plan(f"{str(q.dtype).removeprefix('torch.')} inputs; the Hopper kernel takes float16 and bfloat16")
    if head_dim % 8 or not 8 <= head_dim <= 256:
        return Plan(f"head_dim is {head_dim}; the Hopper kernel takes multiples of 8 up to 256")
    if 0 in (*q.shape, *k.shape):
        return Plan("the problem is empty")
    if max(seqlen_q, seqlen_k) >= MAX_LENGTH or heads >= MAX_HEADS or batch >= MAX_BATCH:
        return Plan("the problem is too large for the Hopper kernel's table of tiles")
    found = [strides(x) for x in (q, k, v)]
    if any(s is None for s in found):
        return Plan("rows of q, k or v are not contiguous or do not start at multiples of 16 bytes")
    c = config(head_dim, causal, max(seqlen_q, seqlen_k))
    even = is_even(seqlen_q, seqlen_k, causal, c)
    compiled, c, reason = _variant(q.dtype, padded(head_dim), causal, even, c, q.device.index)
    if reason:
        return Plan(reason)
    return _fill_plan(compiled, c, q, k, v, causal)


def _fill_plan(compiled: Any, c: Config, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Plan:
    (batch, heads, seqlen_q, _), (_, kv_heads, seqlen_k, _) = q.shape, k.shape
    table = schedule(batch, heads, seqlen_q, seqlen_k, causal, c, processors(q.device.index))
    o_shape = tuple(q.shape)
    o_strides = torch.empty(o_shape, dtype=q.dtype, device="meta").stride()
    left = first_key(seqlen_q, seqlen_k, causal, c)
    even = is_even(seqlen_q, seqlen_k, causal, c)
    rows = batch * heads * seqlen_q
    flags_at = -(-rows // 4) * 4
    return Plan(
        refusal="",
        launch=compiled[(table.shape[1], 1, 1)],
        table=torch.from_numpy(table).to(q.device),
        strides=(*(strides(x) or () for x in (q, k, v)), o_strides),
        sizes=(heads // kv_heads, heads, seqlen_q, seqlen_k, left, *_constants(c, causal, even).values()),
        o_shape=o_shape,
        lse_shape=(batch * heads, seqlen_q),
        lse_size=flags_at + table.shape[1],
        flags_at=flags_at,
    )


def _constants(c: Config, causal: bool, even: bool) -> dict[str, Any]:
    return {
        "CAUSAL": causal,
        "EVEN": even,
        "CONSUMERS": c.consumers,
        "STAGES": c.stages,
        "Q_STAGES": c.q_stages,
        "REGISTERS": c.registers,
        "HOLD": c.hold,
        "NAMED": c.named,
        "ROTATE": c.rotate,
        "SPLIT_O": c.split_o,
        "LAZY": c.lazy,
    }


@lru_cache(maxsize=128)
def _variant(
    dtype: torch.dtype, head_dim: int, causal: bool, even: bool, c: Config, device: int
) -> tuple[Any, Config, str]:
    """The compiled kernel and the configuration it was compiled for, or why it cannot be used on this device."""
    try:
        compiled = _compile(dtype, head_dim, causal, even, c, device)
        if c.named and not (FIRST_BARRIER + 2 * c.stages <= BARRIERS and barriers_free(compiled, FIRST_BARRIER)):
            c = replace(c, named=False)
            compiled = _compile(dtype, head_dim, causal, even, c, device)
        return compiled, c, _self_test(compiled, dtype, head_dim, causal, even, c, device)
    except Exception as error:  # whatever a compiler that nobody has tried yet may raise: the portable kernel is there
        return None, c, f"the Hopper kernel does not compile here: {type(error).__name__}: {str(error)[:200]}"


def _compile(dtype: torch.dtype, head_dim: int, causal: bool, even: bool, c: Config, device: int) -> Any:
    def tensor(rows: int) -> torch.Tensor:
        return torch.empty((1, 1, rows, head_dim), dtype=dtype, device=f"cuda:{device}")

    q, k, o = tensor(c.rows), tensor(c.keys), tensor(c.rows)
    lse = torch.empty((1, c.rows), dtype=torch.float32, device=q.device)
    table = torch.empty((2, 1), dtype=torch.int64, device=q.device)
    kv = descriptor(k, c.keys, head_dim)
    return attention_forward.warmup(
        descriptor(q, c.rows, head_dim), kv, kv, descriptor(o, c.rows, head_dim // 2 if c.split_o else head_dim),
        q, k, k, o, lse, lse, table, 1.0, 1, 1, c.rows, c.keys, 0,
        **_constants(c, causal, even), num_warps=4, maxnreg=c.launch_registers, grid=(1,),
    )  # fmt: skip


def _self_test(
    compiled: Any, dtype: torch.dtype, head_dim: int, causal: bool, even: bool, c: Config, device: int
) -> str:
    """Runs a small problem and compares it with plain attention.

    Of every 16 rows the first 8 move their max far at one key tile, the others at another one. So the lazy rescale,
    which looks at two of a thread's elements, must look at the right ones.
    """
    seqlen_q = 128 if even else 117
    seqlen_k = 4 * c.keys if even else 4 * c.keys - 29
    random = torch.Generator(f"cuda:{device}").manual_seed(seqlen_k)
    q, k, v = (
        torch.randn((2, h, n, head_dim), generator=random, device=random.device)
        for h, n in ((4, seqlen_q), (2, seqlen_k), (2, seqlen_k))
    )
    scale = head_dim**-0.5
    jump = (17 / scale) ** 0.5
    rows = torch.arange(seqlen_q, device=q.device)
    q[:, :, rows, rows % 16] += jump
    k[:, :, c.keys // 4 : c.keys // 2, :8] += jump
    k[:, :, 2 * c.keys : 2 * c.keys + c.keys // 2, 8:16] += jump
    q, k, v = (x.to(dtype) for x in (q, k, v))
    found = _fill_plan(compiled, c, q, k, v, causal).run(q, k, v, scale)
    assert found is not None
    o, lse = found
    s = q.double() @ k.double().repeat_interleave(2, 1).transpose(2, 3) * scale
    if causal:
        s.masked_fill_(~torch.ones_like(s, dtype=torch.bool).tril(seqlen_k - seqlen_q), -math.inf)
    exact = torch.softmax(s, 3) @ v.double().repeat_interleave(2, 1)
    o_error = (o.double() - exact).abs().max().item()
    lse_error = (lse.view(s.shape[:3]).double() - torch.logsumexp(s, 3) * math.log2(math.e)).abs().max().item()
    o_bound = 8e-3 if dtype == torch.float16 else 6e-2
    if o_error < o_bound and lse_error < 1e-3:
        return ""
    return f"the Hopper kernel failed its self test: o is off by {o_error:.1e}, lse by {lse_error:.1e}"
