"""`flashscope check`: the kernel against exact attention and its mirror, as a table or as JSON."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from typing import Any

from kernel.problem import Problem
from kernel.results import RunResult, Timing
from visualizer.waiting import Waiting
from visualizer.worker_call import WorkerError, call_worker


def check(problem: Problem, command: str | None, as_json: bool) -> int:
    """Runs the kernel, prints what came of it, and returns the exit status: 0 right, 1 wrong or not run."""
    try:
        with Waiting("check", problem) as waiting:
            result = call_worker(problem, command, waiting.progress, waiting.hello)
    except WorkerError as error:
        if as_json:
            print(json.dumps({"ok": False, "error": str(error), "problem": asdict(problem)}, indent=2))
        print(f"flashscope check: {error}", file=sys.stderr)
        return 1
    print(json.dumps(report(problem, result), indent=2, allow_nan=False) if as_json else table(problem, result))
    return 0 if result.ok else 1


def report(problem: Problem, result: RunResult) -> dict[str, Any]:
    """The result as JSON values; what is not finite is null."""
    whole = asdict(result)
    kept = ("ok", "backend", "device", "sentence", "o_error", "o_error_eager", "o_bound", "lse_error", "lse_bound")
    return _finite(
        {name: whole[name] for name in (*kept, "rows_checked", "first_bad")}
        | {
            "mirror": {
                "o_differing": result.mirror_o_differing,
                "lse_differing": result.mirror_lse_differing,
                "o_max": result.mirror_o_max,
                "lse_max": result.mirror_lse_max,
                "programs_compared": "all" if result.compared_programs < 0 else result.compared_programs,
                "first_differing": result.first_differing,
            },
            "gpu_times": result.timed_on_gpu,
            "times": whole["times"],
            "compiled": whole["compiled"],
            "problem": asdict(problem),
            "versions": result.versions,
        }
    )


def table(problem: Problem, result: RunResult) -> str:
    """The result for a person."""
    p, r = problem, result
    versions = [f"{name} {r.versions[name]}" for name in ("torch", "triton") if name in r.versions]
    how = "compiled" if r.timed_on_gpu else "interpreted on CPU: values are real, time is not"
    compared = "all programs" if r.compared_programs < 0 else f"{r.compared_programs:,} programs"
    differ = f"differs in {r.mirror_o_differing:,} elements of o, {r.mirror_lse_differing:,} of lse ({compared})"
    lines = [
        f"problem    {describe(p)}",
        f"device     {' · '.join([r.device, how, *versions])}",
        "",
        f"{'largest error':16} {'kernel':>10} {'eager':>10} {'allowed':>10}",
        _errors("o", r.o_error, r.o_error_eager, r.o_bound),
        _errors("lse (log2)", r.lse_error, None, r.lse_bound),
        f"  {'rows checked':14} {r.rows_checked:,} of {p.num_heads * p.seqlen_q:,}",
        "",
        f"{'mirror':16} {differ}",
    ]
    if r.first_differing:
        lines.append(f"  {'by up to':14} o {r.mirror_o_max:.2e}, lse {r.mirror_lse_max:.2e}; first {r.first_differing}")
    if r.times and not r.timed_on_gpu:
        lines += ["", f"{'time':16} {r.times[0].ms:,.0f} ms, {r.times[0].note}"]
    elif r.times:
        lines += ["", f"{'time':20} {'ms':>10} {'20 %':>10} {'80 %':>10} {'TFLOP/s':>10}"]
        lines += [_time(timing) for timing in r.times]
    if r.compiled is not None:
        c = r.compiled
        sizes = f"{c.registers} registers · {c.spill_bytes:,} bytes spilled · {c.shared_bytes:,} bytes shared"
        lines += ["", f"{'compiled':16} {sizes} · {c.num_warps} warps · {c.num_stages} stages"]
    return "\n".join([*lines, "", r.sentence])


def describe(problem: Problem) -> str:
    """The problem in one line."""
    p = problem
    parts = [
        f"batch {p.batch}",
        f"heads {p.heads}" + ("" if p.heads == p.kv_heads else f" over {p.kv_heads}"),
        f"seqlen {p.seqlen_q:,}" + ("" if p.seqlen_k == p.seqlen_q else f" × {p.seqlen_k:,}"),
        f"head_dim {p.head_dim}",
        p.dtype,
        "causal" if p.causal else "not causal",
        f"sm_scale {p.scale:.6g}",
        f"blocks {p.block_m} × {p.block_n}",
    ]
    return " · ".join(parts)


def _errors(name: str, kernel: float, eager: float | None, allowed: float) -> str:
    middle = "" if eager is None else f"{eager:.2e}"
    return f"  {name:14} {kernel:10.2e} {middle:>10} {allowed:10.2e}   {'ok' if kernel <= allowed else 'TOO LARGE'}"


def _time(t: Timing) -> str:
    if math.isnan(t.ms):
        return f"  {t.name:18} {'-':>10}   {t.note}"
    note = f"   {t.note}" if t.note else ""
    return f"  {t.name:18} {t.ms:10.4g} {t.low_ms:10.4g} {t.high_ms:10.4g} {t.tflops:10.4g}{note}"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
