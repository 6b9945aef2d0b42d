"""`flashscope bench ui`: how quick the window is, measured in the real window without a display.

Each seqlen is measured in a process of its own, from its start; the mirror is measured against a plain NumPy loop that
records nothing, and against Triton's interpreter. Times move with what else the machine does: compare within one run.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np

from kernel.devices import cpu_name
from kernel.inputs import Inputs
from kernel.mirror import Mirror, blas_on_one_thread
from kernel.problem import LOG2E, Problem
from kernel.tiling import Tiling
from visualizer.state import State
from visualizer.worker_call import environment

SEQLENS: Final = (1024, 8192, 65536)
STARTED: Final = "FLASHSCOPE_BENCH_STARTED"
STEPS, SEEKS, SCRUBS = 300, 60, 120
FILL_SECONDS: Final = 90.0
PLAY_SECONDS: Final = 2.0
REPEATS: Final = 7


def bench_ui(seqlens: Iterable[int], head_dims: Iterable[int], say: Callable[[str], object]) -> dict[str, Any]:
    """All figures, as plain values; `say` hears what is being measured."""
    windows = []
    for seqlen in seqlens:
        for head_dim in head_dims:
            say(f"window at seqlen {seqlen:,}, head_dim {head_dim}")
            windows.append(_in_own_process(seqlen, head_dim))
    say("mirror")
    mirror: dict[str, float | None] = {**bench_mirror()}
    say("Triton's interpreter")
    mirror["interpreter_ms"] = interpreter_ms()
    return {"machine": machine(), "windows": windows, "mirror": mirror}


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    import platform

    return {
        "cpu": cpu_name(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def bench_mirror() -> dict[str, float]:
    """Milliseconds for all programs of the opening problem: the mirror, and a plain loop; medians of REPEATS."""
    problem = Problem()
    tiling, inputs = Tiling(problem), Inputs(problem)
    mirror = Mirror(inputs, tiling)
    programs = [(head, block) for head in range(problem.num_heads) for block in range(tiling.num_q_blocks)]
    ways: dict[str, Callable[[int, int], object]] = {
        "mirror_ms": mirror.run,
        "plain_ms": lambda head, block: plain_loop(problem, inputs, head, block),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(REPEATS + 1):
        for name, run in ways.items():
            start = time.perf_counter()
            with blas_on_one_thread():
                for head, block in programs:
                    run(head, block)
            if turn:
                times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def interpreter_ms() -> float | None:
    """Milliseconds of the kernel in Triton's interpreter on the opening problem; None where it does not run."""
    from visualizer.worker_call import WorkerError, call_worker

    try:
        result = call_worker(Problem())
    except WorkerError:
        return None
    return None if result.timed_on_gpu else result.times[0].ms


def plain_loop(problem: Problem, inputs: Inputs, head: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    """One program as one would jot it down in NumPy: no steps, no padding, nothing kept. o and lse of its rows."""
    p = problem
    start, end = block * p.block_m, min((block + 1) * p.block_m, p.seqlen_q)
    q, k, v = (x.astype(np.float32) for x in (inputs.q(head)[start:end], inputs.k(head), inputs.v(head)))
    scale = np.float32(p.scale * LOG2E)
    m, l = np.full(end - start, -np.inf, np.float32), np.zeros(end - start, np.float32)
    acc = np.zeros((end - start, p.head_dim), np.float32)
    last = min(p.seqlen_k, end + p.offset) if p.causal else p.seqlen_k
    for first in range(0, last, p.block_n):
        s = q @ k[first : first + p.block_n].T * scale
        if p.causal and first + p.block_n > start + p.offset:
            cols = first + np.arange(s.shape[1])
            s[cols > np.arange(start, end)[:, None] + p.offset] = -np.inf
        m_new = np.maximum(m, s.max(axis=1))
        alpha = np.exp2(m - m_new)
        weights = np.exp2(s - m_new[:, None])
        l = l * alpha + weights.sum(axis=1)
        acc = acc * alpha[:, None] + weights.astype(np.float16).astype(np.float32) @ v[first : first + p.block_n]
        m = m_new
    return acc / l[:, None], m + np.log2(l)


def table(result: dict[str, Any]) -> str:
    """The figures for people."""
    m = result["machine"]
    lines = [f"{m['cpu']}, {m['cpus']} cores, load {m['load']}, Python {m['python']}, NumPy {m['numpy']}", ""]
    rows = [
        ("seqlen", lambda w: f"{w['seqlen']:,}"),
        ("head_dim", lambda w: str(w["head_dim"])),
        ("first painted frame", lambda w: f"{w['first_frame_ms']:,.0f} ms"),
        ("with all its values", lambda w: f"{w['first_values_ms']:,.0f} ms"),
        ("step", lambda w: _pair(w["step_ms"])),
        ("seek: place", lambda w: _pair(w["seek_filled_place_ms"])),
        ("seek: values", lambda w: _pair(w["seek_filled_ms"]) + ("" if w["filled"] == 1 else f" ({w['filled']:.0%})")),
        ("unfilled seek: place", lambda w: _pair(w["seek_place_ms"])),
        ("unfilled seek: values", lambda w: _pair(w["seek_ms"])),
        ("scrub: place", lambda w: _pair(w["scrub_place_ms"])),
        ("scrub: values", lambda w: _pair(w["scrub_ms"])),
        ("play at 60 steps/s", lambda w: f"{w['play_fps']:.0f} frames/s"),
        ("memory, highest", lambda w: f"{w['memory_mb']:,.0f} MB"),
    ]
    for name, text in rows:
        lines.append(f"{name:<22}" + "".join(f"{text(w):>22}" for w in result["windows"]))
    mirror = result["mirror"]
    lines += [
        "",
        f"mirror, 1 x 2 x 1024 x 64   {mirror['mirror_ms']:.0f} ms, a plain NumPy loop {mirror['plain_ms']:.0f} ms",
        f"Triton's interpreter        {_ms(mirror['interpreter_ms'])}",
        "step, seek, scrub: p50 / p95 in ms, from the wish until the window's picture is read back from the screen",
        "place: the first picture of the step, which may say that its values are being computed; values: all of them",
        "unfilled: where the background has not been yet",
    ]
    return "\n".join(lines)


def _ms(milliseconds: float | None) -> str:
    return "does not run here" if milliseconds is None else f"{milliseconds:,.0f} ms"


def _pair(quantiles: list[float]) -> str:
    return f"{quantiles[0]:.1f} / {quantiles[1]:.1f}"


def _in_own_process(seqlen: int, head_dim: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as home:
        places = {f"XDG_{name}_HOME": home for name in ("CONFIG", "DATA", "STATE", "CACHE")}
        env = {
            **environment(None),
            **places,
            "QT_QPA_PLATFORM": "offscreen",
            "QT_FONT_DPI": "96",
            STARTED: repr(time.time()),
        }
        done = subprocess.run(
            [sys.executable, "-P", "-m", "visualizer.bench", str(seqlen), str(head_dim)],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"The window at seqlen {seqlen:,} did not finish: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure_window(seqlen: int, head_dim: int) -> dict[str, Any]:
    """The figures of one window, in this process; its start is what STARTED in the environment says."""
    from visualizer import theme
    from visualizer.app import application, make_window
    from visualizer.settings import Settings

    app = application()
    settings = Settings()
    theme.apply(app, theme.theme(settings.theme, settings.zoom))
    heads = 2 if seqlen <= 8192 else 4
    problem = Problem(heads=heads, kv_heads=heads, seqlen_q=seqlen, seqlen_k=seqlen, head_dim=head_dim)
    window = make_window(settings, state=State(problem=problem, row=17))
    window.resize(1440, 900)
    painted: list[float] = []
    window.first_painted.connect(lambda: painted.append(time.time()))
    window.show()
    controller = window.controller
    while not painted:
        app.processEvents()
    if controller.is_coming:
        _wait_for_values(app, controller)
        painted.append(time.time())
    rng = random.Random(1)
    total = len(controller.tape)
    per_head = controller.tape.tiling.steps_per_head

    def screen() -> None:
        # what the screen holds, as a person sees it; QWidget.grab would paint everything a second time
        window.screen().grabWindow(window.winId()).toImage()

    def shown(step: int) -> tuple[float, float]:
        """Milliseconds until the screen shows the place of a step, and until it shows all its values."""
        start = time.perf_counter()
        controller.change(step=step)
        app.processEvents()
        screen()
        place = whole = time.perf_counter()
        if controller.is_coming:
            _wait_for_values(app, controller)
            screen()
            whole = time.perf_counter()
        return (place - start) * 1e3, (whole - start) * 1e3

    def figures(name: str, times: list[tuple[float, float]]) -> dict[str, list[float]]:
        """p50 and p95 of the place and of all the values."""
        place, whole = ([float(x) for x in np.quantile(column, [0.5, 0.95])] for column in zip(*times, strict=True))
        return {f"{name}_place_ms": place, f"{name}_ms": whole}

    settings.motion = False
    middle = controller.tape.tiling.program_start(0, controller.tape.tiling.num_q_blocks // 2)
    shown(middle)
    steps = [shown(middle + i)[1] for i in range(1, min(STEPS, total - middle - 1))]
    seeks = [shown(rng.randrange(per_head)) for _ in range(SEEKS)]
    scrubs = [shown(i * (per_head - 1) // SCRUBS) for i in range(SCRUBS)]
    controller.start_filling()
    end = time.perf_counter() + FILL_SECONDS
    blocks = controller.tape.tiling.num_q_blocks
    while controller.tape.programs_filled < blocks and time.perf_counter() < end:
        app.processEvents()
    filled = min(1.0, controller.tape.programs_filled / blocks)
    controller.stop_filling()
    seeks_filled = [shown(rng.randrange(per_head)) for _ in range(SEEKS)]
    fps = _play(app, window)
    window.close()
    return {
        "seqlen": seqlen,
        "head_dim": head_dim,
        "heads": heads,
        "first_frame_ms": (painted[0] - float(os.environ[STARTED])) * 1e3,
        "first_values_ms": (painted[-1] - float(os.environ[STARTED])) * 1e3,
        "step_ms": [float(x) for x in np.quantile(steps, [0.5, 0.95])],
        **figures("seek", seeks),
        **figures("seek_filled", seeks_filled),
        "filled": filled,
        **figures("scrub", scrubs),
        "play_fps": fps,
        "memory_mb": _highest_memory_mb(),
    }


def _wait_for_values(app, controller) -> None:
    while controller.is_coming:
        app.processEvents()
    app.processEvents()  # paints them


def _play(app, window) -> float:
    """Frames per second that reach the screen while 60 steps a second are asked for."""
    window.playback.speed = 60
    frames: list[float] = []
    window.controller.frame.connect(lambda _: frames.append(time.perf_counter()))
    window.controller.change(step=0)
    frames.clear()
    window.playback.play()
    end = time.perf_counter() + PLAY_SECONDS
    while time.perf_counter() < end:
        app.processEvents()
        time.sleep(0.0005)
    window.playback.pause()
    return len(frames) / PLAY_SECONDS


def _highest_memory_mb() -> float:
    status = Path("/proc/self/status")
    if status.exists():
        found = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(found.split()[1]) / 1e3
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    print(json.dumps(measure_window(int(sys.argv[1]), int(sys.argv[2]))))
