"""One run of the kernel, whole: inputs to the device, launch, exact reference, mirror, times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from kernel import verify
from kernel.expected import EXACT_SECONDS, MIRROR_SECONDS, expected_seconds
from kernel.inputs import Inputs
from kernel.machine import array, tensor
from kernel.problem import Problem, ProblemError
from kernel.results import Compiled, Hello, RunResult, Timing
from kernel.tiling import Tiling
from kernel.yardstick import Yardstick

Report = Callable[[str, float], None]


class Stages:
    """One fraction, 0 to 1, over all stages of a run, by their expected times."""

    def __init__(self, seconds: dict[str, float], report: Report) -> None:
        self._report = report
        total = sum(seconds.values())
        self._share = {name: s / total for name, s in seconds.items()}
        self._start = 0.0
        self._stage = ""

    def begin(self, stage: str) -> Callable[[float], None]:
        """Opens a stage; the function that is returned tells how far it has come, 0 to 1."""
        names = list(self._share)
        self._start = sum(self._share[name] for name in names[: names.index(stage)])
        self._stage = stage
        self.at(0.0)
        return self.at

    def at(self, fraction: float, text: str = "") -> None:
        self._report(text or self._stage, self._start + self._share[self._stage] * min(1.0, fraction))


def run(problem: Problem, inputs: Inputs | None, where: Hello, report: Report, timing: bool = True) -> RunResult:
    """Runs the kernel on `problem` and says whether it is right and how fast it is.

    inputs None: drawn here from the problem's seed. `where` says on which backend; report(stage, fraction) is told how
    far the run has come. Without `timing` the GPU's peers are not timed and times are empty.
    """
    cuda = where.backend == "cuda"
    if problem.backend == "hopper" and not cuda:
        raise ProblemError("backend", "The Hopper kernel needs a Hopper GPU (H100, H200); choose the portable kernel.")
    stages = Stages(expected_seconds(problem, cuda, timing), report)
    inputs = inputs or Inputs(problem)
    progress = stages.begin("drawing inputs")
    tensors = []
    for i, name in enumerate("qkv"):
        tensors.append(tensor(inputs.stacked(name), "cuda" if cuda else "cpu"))
        progress((i + 1) / 3)
    q, k, v = tensors
    o, lse, ms, compiled = _launch(problem, q, k, v, cuda, stages)
    o_host = array(o).reshape(problem.num_heads, problem.seqlen_q, problem.head_dim)
    lse_host = np.asarray(array(lse), np.float32)

    progress = stages.begin("exact reference")
    yardstick = Yardstick(problem, inputs, q, k, v)
    chosen = verify.sample(problem, yardstick, EXACT_SECONDS)
    errors = verify.check(problem, o_host, lse_host, yardstick, chosen, progress)

    progress = stages.begin("mirror")
    differences = verify.compare(problem, o_host, lse_host, inputs, MIRROR_SECONDS, progress)
    ok, sentence = verify.verdict(problem, where.backend, errors, differences)
    times: tuple[Timing, ...] = ()
    if timing and problem.num_heads * problem.seqlen_q:
        stages.begin("timing")
        times = _times(problem, q, k, v, cuda, ms, errors.o_bound, ok, stages)
    return RunResult(
        backend=where.backend,
        device=where.device,
        versions=where.versions,
        block_m=problem.block_m,
        block_n=problem.block_n,
        ok=ok,
        sentence=sentence,
        lse=lse_host,
        **verify.figures(errors, differences),
        times=times,
        compiled=compiled,
    )


def attend(problem: Problem, q: Any, k: Any, v: Any) -> Any:
    """o and lse of the problem's kernel, with the problem's blocks."""
    from kernel.attention import flash_attn_triton

    p = problem
    blocks: dict[str, Any] = {} if p.backend == "hopper" else {"block_m": p.block_m, "block_n": p.block_n}
    return flash_attn_triton(q, k, v, p.causal, p.scale, return_lse=True, backend=p.backend, **blocks)


def _launch(
    problem: Problem, q: Any, k: Any, v: Any, cuda: bool, stages: Stages
) -> tuple[Any, Any, float, Compiled | None]:
    """o, lse, the milliseconds of the one interpreted run, and what was compiled on a GPU."""
    if not cuda:
        progress = stages.begin("running kernel")
        # one BLAS thread, as in the mirror: other counts add in other orders
        with threadpool_limits(1, "blas"), _counted(Tiling(problem), progress):
            start = time.perf_counter()
            o, lse = attend(problem, q, k, v)
            return o, lse, 1000 * (time.perf_counter() - start), None
    import torch

    from kernel.measure import compiled_forward

    stages.begin("compiling")
    with compiled_forward() as figures:
        attend(problem, q, k, v)
        torch.cuda.synchronize()
        compiled = figures()
    stages.begin("running kernel")
    o, lse = attend(problem, q, k, v)
    torch.cuda.synchronize()
    return o, lse, 0.0, compiled


def _times(
    problem: Problem, q: Any, k: Any, v: Any, cuda: bool, ms: float, o_bound: float, ok: bool, stages: Stages
) -> tuple[Timing, ...]:
    """Times of a kernel that was found right; a wrong one is not timed on a GPU."""
    from kernel import measure

    if not cuda:
        return measure.interpreted(problem, ms)
    if not ok:
        return ()
    return tuple(measure.measure(problem, q, k, v, lambda: attend(problem, q, k, v)[0], o_bound, stages.at))


@contextmanager
def _counted(tiling: Tiling, progress: Callable[[float], None]) -> Iterator[None]:
    """Tells `progress` what share of the tiles Triton's interpreter has done, as far as it lets itself be watched.

    It is seen to begin a program, and to multiply, twice a tile (again where a block is done again with care).
    """
    from triton.runtime import interpreter

    builder: Any = getattr(interpreter, "interpreter_builder", None)
    begin, multiply = (getattr(builder, name, None) for name in ("set_grid_idx", "create_dot"))
    if begin is None or multiply is None:
        yield
        return
    visited = np.append(np.tile(tiling.visited, tiling.problem.num_heads), 0)
    before = np.cumsum(visited) - visited
    total = max(1.0, float(before[-1]))
    program = products = 0

    def beginning(x: int, *others: int) -> None:
        nonlocal program, products
        program, products = x, 0
        progress(float(before[x]) / total)
        begin(x, *others)

    def multiplying(*tiles: Any) -> Any:
        nonlocal products
        products += 1
        progress((float(before[program]) + min(products / 2, float(visited[program]))) / total)
        return multiply(*tiles)

    builder.set_grid_idx, builder.create_dot = beginning, multiplying
    try:
        yield
    finally:
        del builder.set_grid_idx, builder.create_dot
