"""Times the kernels on FlashAttention-3's grid against what one would use instead; runs where torch and a GPU are.

    python -m kernel.bench --json result.json [--quick] [--original PATH]

The grid: batch x seqlen = 16,384, heads x head_dim = 2,048, head_dim 64, 128 and 256, seqlen 512 to 16,384, float16,
with and without the causal mask (Shah et al., FlashAttention-3, 2024); backward at head_dim 64 and 128 from 1,024.
Every result is compared with float64 attention before it is timed; what is wrong gets no time. The candidates of a cell
take turns in one process, in another order each round.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from kernel.bench_peers import Call, Peers, Shape
from kernel.bench_report import FORMAT, KIND, table
from kernel.measure import turns

HEAD_DIMS: Final = (64, 128, 256)
LENGTHS: Final = (512, 1024, 2048, 4096, 8192, 16384)
QUICK_LENGTHS: Final = (1024, 4096)
BACKWARD_HEAD_DIMS: Final = (64, 128)
FLEX_LENGTHS: Final = (4096,)  # FlexAttention compiles for every shape
ROUNDS: Final = 6
LSE_BOUND: Final = 1e-3
Progress = Callable[[float, str], None]


@dataclass(slots=True)
class Cell:
    """What one candidate did on one shape: milliseconds of a call (median, 20 and 80 %), each round's, or why not.

    error: greatest deviation of o, or greatest relative norm of the gradients' errors; bound: what is allowed.
    """

    direction: str
    head_dim: int
    causal: bool
    seqlen: int
    batch: int
    heads: int
    name: str
    ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    rounds_ms: list[float] = field(default_factory=list)
    tflops: float | None = None
    error: float | None = None
    bound: float | None = None
    note: str = ""


def grid(quick: bool) -> list[Shape]:
    """All shapes, forward first."""
    lengths = QUICK_LENGTHS if quick else LENGTHS
    shapes = [Shape("forward", d, c, n) for d in HEAD_DIMS for c in (False, True) for n in lengths]
    shapes += [
        Shape("backward", d, c, n) for d in BACKWARD_HEAD_DIMS for c in (False, True) for n in lengths if n >= 1024
    ]
    return shapes


def run(
    quick: bool = False,
    original: Path | None = None,
    progress: Progress = lambda done, what: None,
    flex: Sequence[int] = FLEX_LENGTHS,
) -> dict[str, Any]:
    """The whole benchmark as plain data for JSON. original: a file with `flash_attn_triton(q, k, v, causal, sm_scale)`.

    Raises RuntimeError where there is no GPU, or OSError when `original` cannot be read.
    """
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("flashscope bench kernel needs a CUDA GPU, and torch sees none.")
    start = time.perf_counter()
    machine = describe_machine()
    card = [card_state("before")]
    peers = Peers(original, flex)
    cells: list[Cell] = []
    shapes = grid(quick)
    for i, shape in enumerate(shapes):
        mask = "causal" if shape.causal else "full"
        progress(i / len(shapes), f"{shape.direction}, head_dim {shape.head_dim}, {mask}, seqlen {shape.seqlen}")
        cells += _measure(shape, peers)
        if i % 6 == 5:
            card.append(card_state(f"after shape {i + 1} of {len(shapes)}"))
        torch.cuda.empty_cache()
    progress(1.0, "done")
    return {
        "kind": KIND,
        "format": FORMAT,
        "machine": machine,
        "card": [*card, card_state("after")],
        "method": f"triton.testing.do_bench, {ROUNDS} rounds in drawn order, cold L2; 4·B·H·S²·D operations, half of "
        "that causal, 2.5 times that backward",
        "seconds": round(time.perf_counter() - start, 1),
        "host_us": host_times(),
        "cells": [asdict(cell) for cell in cells],
    }


# ---- measuring


def _measure(shape: Shape, peers: Peers) -> list[Cell]:
    import torch

    torch.manual_seed(shape.seqlen + shape.head_dim)
    size = (shape.batch, shape.heads, shape.seqlen, shape.head_dim)
    q, k, v, do = (torch.randn(size, device="cuda", dtype=torch.float16) for _ in range(4))
    ahead = shape.direction == "forward"
    if not ahead:
        q, k, v = (x.requires_grad_() for x in (q, k, v))
    check = _Check(shape, q, k, v, do)
    cells, calls = [], {}
    for name, call in peers.forward(shape, q, k, v) if ahead else peers.backward(shape, q, k, v, do):
        cell = Cell(**asdict(shape), batch=shape.batch, heads=shape.heads, name=name)
        cells.append(cell)
        if isinstance(call, str):
            cell.note = call
        else:
            cell.error, cell.bound, cell.note = check(call)
            if not cell.note:
                calls[name] = call
    times = interleave(calls)
    for cell in cells:
        if cell.name in times:
            rounds = times[cell.name]
            cell.rounds_ms = [round(r[0], 6) for r in rounds]
            cell.ms, cell.low_ms, cell.high_ms = (round(median(r[i] for r in rounds), 6) for i in range(3))
            cell.tflops = round(shape.flops / cell.ms / 1e9, 2) if cell.ms else None
    return cells


def interleave(calls: dict[str, Call]) -> dict[str, list[tuple[float, float, float]]]:
    """(median, 20 %, 80 %) in ms of each round of each call."""
    from triton.testing import do_bench

    bench: Any = do_bench
    times: dict[str, list[tuple[float, float, float]]] = {name: [] for name in calls}
    for turn in turns(list(calls), ROUNDS):
        for name in turn:
            times[name].append(tuple(bench(calls[name], warmup=6, rep=20, quantiles=[0.5, 0.2, 0.8])))
    return times


class _Check:
    """Compares a result with float64 attention on the first and the last head; eager float16 sets the bound.

    o: greatest deviation <= 2 x eager's + 1e-5, lse <= 1e-3. Gradients: relative norm <= 2 x eager's + 1e-5.
    """

    def __init__(self, shape: Shape, q: Any, k: Any, v: Any, do: Any) -> None:
        self.shape = shape
        self.heads = sorted({(0, 0), (shape.batch - 1, shape.heads - 1)})
        self.exact, self.bound = [], 0.0
        for at in self.heads:
            inputs = [x[at] for x in (q, k, v, do)]
            exact = attention([x.double() for x in inputs], shape.causal, shape.direction == "backward")
            eager = attention(inputs, shape.causal, shape.direction == "backward")
            self.exact.append(exact)
            self.bound = max(self.bound, 2 * self._error(eager[1:], exact[1:]) + 1e-5)

    def _error(self, found: Any, exact: Any) -> float:
        if self.shape.direction == "forward":
            off = [(found[0].double() - exact[0]).abs().max().item()]
        else:
            off = [((a.double() - b).norm() / b.norm()).item() for a, b in zip(found, exact, strict=True)]
        return max(math.inf if math.isnan(x) else x for x in off)

    def __call__(self, call: Call) -> tuple[float | None, float, str]:
        """The error, its bound, and what is wrong if anything is."""
        import warnings

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = call()
        except Exception as error:  # a peer may refuse in any way it likes; the table says how
            return None, self.bound, f"{type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}"
        worst, lse_off = 0.0, 0.0
        for at, exact in zip(self.heads, self.exact, strict=True):
            if self.shape.direction == "backward":
                worst = max(worst, self._error([g[at] for g in found], exact[1:]))
                continue
            o = found[0] if isinstance(found, tuple) else found
            worst = max(worst, self._error([o[at]], exact[1:]))
            if isinstance(found, tuple):
                lse = found[1].view(o.shape[:3])[at].double()
                lse_off = max(lse_off, (lse - exact[0] * math.log2(math.e)).abs().max().item())
        if not (worst <= self.bound and lse_off <= LSE_BOUND):
            return worst, self.bound, f"wrong: off by {worst:.1e}, allowed is {self.bound:.1e}; lse by {lse_off:.1e}"
        return worst, self.bound, ""


def attention(inputs: Any, causal: bool, gradients: bool) -> tuple[Any, ...]:
    """lse (natural log), then o, or dq, dk and dv, of one head (seqlen, head_dim), in the dtype of the inputs."""
    import torch

    q, k, v, do = (x.detach() for x in inputs)
    s = (q @ k.T) * q.shape[1] ** -0.5
    if causal:
        s.masked_fill_(~torch.ones_like(s, dtype=torch.bool).tril(), -math.inf)
    lse = torch.logsumexp(s, 1)
    p = torch.softmax(s, 1)
    o = p @ v
    if not gradients:
        return lse, o
    ds = p * (do @ v.T - (o * do).sum(1, keepdim=True)) * q.shape[1] ** -0.5
    return lse, ds @ k, ds.T @ q, p.T @ do


def host_times() -> dict[str, float]:
    """Median microseconds of Python for one call at (1, 8, 256, 64), by backend; "" where the tensors decide."""
    import torch

    from kernel.attention import flash_attn_triton

    found = {}
    q, k, v = (torch.randn(1, 8, 256, 64, device="cuda", dtype=torch.float16) for _ in range(3))
    for name, backend in (("chosen", None), ("hopper", "hopper"), ("portable", "triton")):
        try:
            flash_attn_triton(q, k, v, True, 0.125, backend=backend)
        except ValueError:
            continue
        spans = []
        for _ in range(500):
            torch.cuda.synchronize()
            start = time.perf_counter()
            flash_attn_triton(q, k, v, True, 0.125, backend=backend)
            spans.append(time.perf_counter() - start)
        found[name] = round(1e6 * median(spans), 1)
    return found


# ---- the machine


def describe_machine() -> dict[str, Any]:
    """The GPU, its driver, and the versions of what took part."""
    import torch

    properties = torch.cuda.get_device_properties(0)
    cudnn: Any = torch.backends.cudnn
    versions = {"python": platform.python_version(), "cudnn": str(cudnn.version()), "cuda": str(torch.version.cuda)}
    for name in ("torch", "triton", "flashscope"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "gpu": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "memory_gib": round(properties.total_memory / 2**30, 1),
        "date": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        "versions": versions,
    }


CARD: Final = ("driver_version", "clocks.sm", "clocks.mem", "power.draw", "power.limit", "temperature.gpu")


def card_state(when: str) -> dict[str, str]:
    """Clocks (MHz), power (W) and temperature (°C) now, as nvidia-smi tells them; only `when` where it cannot."""
    command = ["nvidia-smi", f"--query-gpu={','.join(CARD)}", "--format=csv,noheader,nounits", "--id=0"]
    try:
        line = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {"when": when}
    return {"when": when, **dict(zip(CARD, (part.strip() for part in line.split(",")), strict=False))}


def main(argv: list[str] | None = None) -> int:
    """Command line of `python -m kernel.bench`; 0 when every candidate that ran was right."""
    parser = argparse.ArgumentParser(prog="python -m kernel.bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="where to save the result")
    parser.add_argument("--svg", type=Path, help="where to save the plot")
    parser.add_argument("--quick", action="store_true", help="seqlen 1,024 and 4,096 only")
    parser.add_argument(
        "--flex", choices=("none", "some", "all"), default="some", help="FlexAttention's shapes: it compiles for each"
    )
    parser.add_argument("--original", type=Path, help="the original kernel's file, to time it too")
    options = parser.parse_args(argv)

    def progress(done: float, what: str) -> None:
        print(f"\r{100 * done:3.0f} % {what:<60}", end="", file=sys.stderr, flush=True)

    flex = {"none": (), "some": FLEX_LENGTHS, "all": LENGTHS}[options.flex]
    import torch

    if not torch.cuda.is_available():
        print("flashscope bench kernel: torch sees no CUDA GPU; run it where there is one.", file=sys.stderr)
        return 2
    result = run(options.quick, options.original, progress, flex)
    print(file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
    if options.svg:
        from kernel.bench_plot import svg

        options.svg.write_text(svg(result), encoding="utf-8")
    print(table(result))
    print("host microseconds a call:", result["host_us"])
    return 1 if any(cell["note"].startswith("wrong") for cell in result["cells"]) else 0


if __name__ == "__main__":
    raise SystemExit(main())
