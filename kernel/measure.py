"""How fast the kernel is on this GPU, beside what one would use instead; and what the compiler made of it."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import contextmanager
from itertools import chain
from statistics import median
from typing import Any, Final

from kernel.problem import Problem
from kernel.results import Compiled, Timing

ROUNDS: Final = 3
QUANTILES: Final = (0.5, 0.2, 0.8)
# of the kernel's own bound; a peer with another mask or scale is off by a hundred times as much
PEER_BOUNDS: Final = 8
OURS: Final = "this kernel"
FORWARD_MODULES: Final = ("kernel.forward", "kernel.hopper_kernel")
Progress = Callable[[float, str], None]
Call = Callable[[], Any]


def flops(problem: Problem) -> int:
    """Floating-point operations of the two products: 4 · head_dim for each query and key that it sees, all heads.

    4 B H Sq Sk D without a mask. Causal with equal lengths it is half of that, as is the custom; with unequal lengths
    the seen pairs are counted one by one.
    """
    p = problem
    pairs2 = 2 * p.seqlen_q * p.seqlen_k
    if p.causal and p.seqlen_q == p.seqlen_k:
        pairs2 //= 2
    elif p.causal:
        blind = max(0, -p.offset)
        first, last = max(1, p.offset + 1), p.seqlen_k
        pairs2 = (first + last) * (p.seqlen_q - blind) if p.seqlen_k else 0
    return 2 * p.num_heads * p.head_dim * pairs2


def tflops(problem: Problem, ms: float) -> float:
    """10^12 operations a second."""
    return flops(problem) / ms / 1e9 if ms > 0 else 0.0


def interpreted(problem: Problem, ms: float) -> tuple[Timing, ...]:
    """The one run of the interpreter, marked as what it is."""
    note = "interpreted on CPU: values are real, time is not"
    return (Timing(name=OURS, ms=ms, low_ms=ms, high_ms=ms, tflops=tflops(problem, ms), note=note),)


def turns(names: list[str], rounds: int) -> list[list[str]]:
    """The order of the candidates in each round: drawn, the same in every run.

    On a card at its power limit a kernel that follows a hot one loses up to a tenth, so none may always be that one.
    """
    draw = random.Random(1)
    return [draw.sample(names, len(names)) for _ in range(rounds)]


def measure(problem: Problem, q: Any, k: Any, v: Any, kernel: Call, o_bound: float, progress: Progress) -> list[Timing]:
    """Median times of the kernel and its peers on a GPU, in interleaved rounds of triton.testing.do_bench.

    kernel() computes o (batch, heads, seqlen_q, head_dim). A peer whose result is further than PEER_BOUNDS x o_bound
    from the kernel's is not timed; the note says why a peer is missing. Times in ms, one launch, cold L2.
    """
    from triton.testing import do_bench

    calls: dict[str, Call] = {OURS: kernel}
    missing: list[Timing] = []
    o = kernel()
    for name, call in _peers(problem, q, k, v).items():
        note = call if isinstance(call, str) else _unfit(call, o, o_bound)
        if isinstance(call, str) or note:
            nan = float("nan")
            missing.append(Timing(name=name, ms=nan, low_ms=nan, high_ms=nan, tflops=nan, note=str(note)))
        else:
            calls[name] = call
    times: dict[str, list[Any]] = {name: [] for name in calls}
    for i, name in enumerate(chain.from_iterable(turns(list(calls), ROUNDS))):
        progress(i / (ROUNDS * len(calls)), f"timing {name}")
        times[name].append(do_bench(calls[name], quantiles=list(QUANTILES)))
    found = []
    for name, rounds in times.items():
        ms, low, high = (median(r[i] for r in rounds) for i in range(len(QUANTILES)))
        found.append(Timing(name=name, ms=ms, low_ms=low, high_ms=high, tflops=tflops(problem, ms)))
    return found + missing


def _peers(problem: Problem, q: Any, k: Any, v: Any) -> dict[str, Call | str]:
    """The peers by name: a call, or the reason why this one cannot take the problem."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    p = problem

    def sdpa(backend: SDPBackend) -> Call:
        def call() -> Any:
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(
                    q, k, v, is_causal=p.causal, scale=p.scale, enable_gqa=p.heads != p.kv_heads
                )

        return call

    keep = None
    if p.causal:
        rows = torch.arange(p.seqlen_q, device=q.device)
        keep = torch.arange(p.seqlen_k, device=q.device)[None, :] <= rows[:, None] + p.offset

    def eager() -> Any:
        group = p.heads // p.kv_heads
        kk, vv = (x.repeat_interleave(group, 1) if group > 1 else x for x in (k, v))
        s = (q @ kk.transpose(2, 3)) * p.scale
        if keep is not None:
            s = s.masked_fill(~keep, float("-inf"))
        return s.softmax(3).nan_to_num(0.0) @ vv

    peers: dict[str, Call | str] = {}
    for name, backend in (
        ("SDPA cuDNN", SDPBackend.CUDNN_ATTENTION),
        ("SDPA FlashAttention", SDPBackend.FLASH_ATTENTION),
    ):
        if p.dtype == "float32":
            peers[name] = "takes no float32"
        elif p.causal and p.offset:
            peers[name] = "aligns unequal lengths at the top left"
        else:
            peers[name] = sdpa(backend)
    scores = 3 * p.num_heads * p.seqlen_q * p.seqlen_k * p.itemsize
    free = torch.cuda.mem_get_info(q.device)[0]
    peers["eager"] = eager if scores < free else f"needs {scores / 2**30:,.0f} GiB for its scores"
    return peers


def _unfit(call: Call, o: Any, o_bound: float) -> str:
    """Why a peer is not timed: it refuses, or computes something else; else nothing."""
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other = call()
    except RuntimeError as error:
        if "out of memory" in str(error):
            return "runs out of memory"
        return "does not take this problem"
    off = float((other.float() - o.float()).abs().nan_to_num(0.0).max()) if o.numel() else 0.0
    return "" if off <= PEER_BOUNDS * o_bound else f"its result is off by {off:.2g}"


@contextmanager
def compiled_forward():
    """Notes which compiled form of a forward kernel, portable or Hopper's, is launched; yields what gives its figures.

    The figures are Compiled or None. Launches made by other means than Triton's are not seen.
    """
    import triton

    launched: list[Any] = []
    hooks: Any = triton.knobs.runtime  # pyright: ignore[reportAttributeAccessIssue]
    before = hooks.launch_enter_hook
    hooks.launch_enter_hook = lambda metadata: launched.append(metadata.get()["function"])

    def figures() -> Compiled | None:
        # a module that is not loaded has launched nothing
        kernels = [sys.modules[name].attention_forward for name in FORWARD_MODULES if name in sys.modules]
        forms = [form for kernel in kernels for cache in kernel.device_caches.values() for form in cache[0].values()]
        for function in reversed(launched):
            for form in forms:
                if getattr(form, "function", None) == function:
                    return _figures(form)
        return None

    try:
        yield figures
    finally:
        hooks.launch_enter_hook = before


def _figures(form: Any) -> Compiled:
    names = form.src.fn.arg_names
    constants = {names[at[0]]: value for at, value in form.src.constants.items()}
    return Compiled(
        registers=int(form.n_regs),
        spill_bytes=4 * int(form.n_spills),
        shared_bytes=int(form.metadata.shared),
        num_warps=int(form.metadata.num_warps),
        num_stages=int(constants.get("STAGES", form.metadata.num_stages)),  # Hopper's kernel has its own pipeline
    )
