"""A process that draws panels on request, for the pytest plugin: Qt stays out of the tests' own process.

It reads one JSON request a line from stdin, writes the picture to the file that the request names, and answers with one
JSON line on stdout: {"qt": "6.11.3", "wrong": ""}, or {"error": "one sentence"}. `wrong`: what is wrong with outputs.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from visualizer.steady import enter

SHAPES: Final = ("batch", "heads", "kv_heads", "seqlen", "seqlen_q", "seqlen_k", "head_dim", "dtype")
LAYOUT: Final = "(batch, heads, seqlen, head_dim)"


class RequestError(ValueError):
    """A picture that cannot be made; one sentence."""


def main() -> None:
    scale = float(sys.argv[1])
    enter(scale)
    # answers alone go to the pipe; whatever a library prints joins the errors
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from visualizer.render import application

    app = application(scale)
    for line in sys.stdin:
        print(json.dumps(_answer(app, json.loads(line), scale)), file=answers, flush=True)
    answers.close()


def _answer(app: Any, request: dict[str, Any], scale: float) -> dict[str, str]:
    from PySide6.QtCore import qVersion

    from kernel.bench_saved import SavedError
    from kernel.problem import ProblemError
    from visualizer.options import UsageError
    from visualizer.render import RenderError
    from visualizer.state import StateError

    try:
        wrong = _draw(app, request, scale)
    except (RequestError, ProblemError, SavedError, StateError, UsageError, RenderError) as error:
        return {"error": str(error)}
    return {"qt": qVersion(), "wrong": wrong}


def _draw(app: Any, request: dict[str, Any], scale: float) -> str:
    """Writes the picture; returns what is wrong with the outputs in it, or ""."""
    from visualizer.frame import RunView
    from visualizer.render import WHAT, RenderError, natural_size, picture, write
    from visualizer.saved import saved_run

    what = request["panel"]
    if what not in WHAT:
        raise RenderError(f"There is no panel {what!r}; choose {', '.join(WHAT[:-1])} or {WHAT[-1]}.")
    state = _placed(_state(request), request)
    run, wrong = RunView(), ""
    if state.bench is not None and what in ("run", "window"):
        run = saved_run(state.bench, state.problem)
    if request["outputs"] is not None:
        result = _graded(state.problem, Path(request["outputs"]), request["lse_unit"])
        run = RunView(phase="done", message=result.sentence, worker="outputs of a test", result=result)
        wrong = "" if result.ok else result.sentence
    width, height = request["size"] or natural_size(what)
    size = (int(width), int(height))
    image = picture(app, what, state, size=size, scale=scale, theme=request["theme"], zoom=request["zoom"], run=run)
    write(image, Path(request["out"]))
    return wrong


def _state(request: dict[str, Any]):
    """The State of the request's session or preset, with its fields and tensors."""
    from kernel.inputs import file_problem
    from kernel.problem import FIELDS, Problem
    from visualizer.options import preset_state
    from visualizer.state import MATRICES, OPENING, State, load

    fields, inputs = dict(request["fields"]), request["inputs"]
    if request["session"] is not None and request["preset"] is not None:
        raise RequestError("Give a session or a preset, not both.")
    state = OPENING
    if request["session"] is not None:
        state = load(Path(request["session"]))
    elif request["preset"] is not None:
        state = preset_state(request["preset"])
    known = {*FIELDS, "seqlen", "row", "lse_unit", "matrix"} - {"inputs"}
    for name in fields:
        if name not in known:
            raise RequestError(f"There is no field {name!r}; choose from {', '.join(sorted(known))}.")
        if inputs is not None and name in SHAPES:
            raise RequestError(f"{name} is what the tensors q, k and v say; leave it out.")
    if "seqlen" in fields:
        fields["seqlen_q"] = fields.pop("seqlen")
    if "seqlen_q" in fields:
        fields.setdefault("seqlen_k", fields["seqlen_q"])
    if "heads" in fields:
        fields.setdefault("kv_heads", fields["heads"])
    if inputs is not None:
        # without a word on them causal and sm_scale are as in torch's scaled_dot_product_attention
        base = state.problem if state is not OPENING else Problem(causal=False, sm_scale=None)
        state = State(problem=file_problem(inputs, base), row=state.row)
    if "matrix" in fields and fields["matrix"] not in MATRICES:
        raise RequestError(f"matrix is {fields['matrix']!r:.40}; choose {', '.join(MATRICES)}.")
    row = fields.get("row", 0)
    if not isinstance(row, int) or isinstance(row, bool) or row < 0:
        raise RequestError(f"row is {row!r:.40}; it must be a whole number from 0, within the block.")
    return state.change(**fields)


def _placed(state, request: dict[str, Any]):
    """At the step that was asked for; with outputs and without a step, at the end of a head, so that its L is whole."""
    from kernel.tiling import Tiling

    tiling = Tiling(state.problem)
    step, head, steps = request["step"], request["head"], len(tiling)
    if step is None and (request["outputs"] is not None or head is not None):
        head = head or 0
        if not 0 <= head < max(1, state.problem.num_heads):
            raise RequestError(f"head is {head}; this problem has {state.problem.num_heads} (batch x heads), from 0.")
        step = max(0, (head + 1) * tiling.steps_per_head - 1)
    if step is None:
        return state
    if not -max(steps, 1) <= step < max(steps, 1):
        raise RequestError(f"step is {step:,}; this problem has {steps:,} steps, counted from 0.")
    return state.change(step=step % max(steps, 1))


def _graded(problem, path: Path, unit: str):
    """The RunResult of the o and lse in an .npz file."""
    import numpy as np

    from kernel.inputs import Inputs
    from kernel.outputs import grade
    from kernel.problem import LOG2E

    with np.load(path, allow_pickle=False) as file:
        o, lse = file["o"], file["lse"]
    p = problem
    for name, array, shape, layout in (
        ("o", o, (p.batch, p.heads, p.seqlen_q, p.head_dim), LAYOUT),
        ("lse", lse, (p.batch, p.heads, p.seqlen_q), "(batch, heads, seqlen)"),
    ):
        if array.shape not in (shape, (p.num_heads, *shape[2:])):
            raise RequestError(f"{name} has shape {array.shape}; this problem needs {shape}, which is {layout}.")
        if array.dtype.kind != "f":
            raise RequestError(f"{name} is {array.dtype}; it must hold floating-point numbers.")
    if unit == "ln":
        lse = (lse.astype(np.float64) * LOG2E).astype(np.float32)
    return grade(p, Inputs(p), o.reshape(p.num_heads, p.seqlen_q, p.head_dim), lse.reshape(p.num_heads, p.seqlen_q))


if __name__ == "__main__":
    main()
