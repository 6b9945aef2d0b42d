"""A saved kernel benchmark, checked where it is read: what was measured, where, and the shape nearest to a problem."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kernel.bench_report import FORMAT, KIND, version_words
from kernel.plain_file import open_plain, shown_name
from kernel.problem import Problem
from kernel.results import MAX_TIMES, Timing, words

MAX_BYTES: Final = 8 << 20
MAX_CELLS: Final = 20_000
MAX_FIELD: Final = 1 << 40
MARK: Final = re.compile(rb'"kind"\s*:\s*"' + KIND.encode() + rb'"')
SIZES: Final = ("seqlen", "batch", "heads")


class SavedError(ValueError):
    """A file that is no benchmark that can be shown; one sentence."""


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """A shape of the grid; all are float16 with as many keys as queries."""

    head_dim: int
    causal: bool
    seqlen: int
    batch: int
    heads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedBench:
    """Forward and backward times by shape, in the file's order, NaN where a candidate has none; the machine's words."""

    file: str
    gpu: str
    date: str
    versions: tuple[str, ...]
    card: str
    shapes: dict[Shape, tuple[Timing, ...]]
    backward: dict[Shape, tuple[Timing, ...]]

    def nearest(self, problem: Problem) -> tuple[Shape, bool]:
        """The shape most like the problem: by mask, then head_dim, then seqlen (as ratios); and whether all three fit.

        Fitting also needs float16 and as many keys as queries, which is what the grid measures; batch and heads are
        the grid's own, so they do not count.
        """
        lengths = max(problem.seqlen_q, 1)

        def far(shape: Shape) -> tuple[bool, float, float]:
            width = abs(math.log2(shape.head_dim / max(problem.head_dim, 1)))
            return shape.causal != problem.causal, width, abs(math.log2(shape.seqlen / lengths))

        found = min(sorted(self.shapes), key=far)
        square = problem.seqlen_q == problem.seqlen_k and problem.dtype == "float16"
        return found, square and far(found) == (False, 0.0, 0.0)


def read_saved(path: Path) -> SavedBench:
    """The benchmark in a file of `flashscope bench kernel --json`. Raises SavedError; reads at most 8 MiB."""
    name = shown_name(path)
    try:
        with open_plain(path) as file:
            raw = file.read(MAX_BYTES + 1) or b""
    except OSError as error:
        raise SavedError(f"{name} cannot be opened: {error.strerror or error}.") from error
    if len(raw) > MAX_BYTES:
        raise SavedError(f"{name} is larger than 8 MiB, so it is no result of flashscope bench kernel --json.")
    try:
        data = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise SavedError(
            f"{name} is not valid JSON; it may be cut off: give a whole result of flashscope bench kernel --json."
        ) from error
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise SavedError(f'{name} is not a saved kernel benchmark (its "kind" is not "{KIND}").')
    if data.get("format") != FORMAT:
        found = words(data.get("format"))[:40]
        raise SavedError(f"{name} has format {found}, and this FlashScope reads {FORMAT}; update FlashScope.")
    try:
        return _parsed(name, data)
    except KeyError as error:
        raise SavedError(f"{name} cannot be shown: it lacks {error}; save the benchmark again.") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise SavedError(f"{name} cannot be shown: {words(str(error))[:120]}; save the benchmark again.") from error


def says_it_is_saved(path: Path) -> bool:
    """Whether a file calls itself a saved benchmark, even if it cannot be read as one."""
    try:
        with open_plain(path) as file:
            return MARK.search(file.read(MAX_BYTES) or b"") is not None
    except OSError:
        return False


def _parsed(name: str, data: dict[str, Any]) -> SavedBench:
    machine, cells = data["machine"], data["cells"]
    if not isinstance(cells, list) or len(cells) > MAX_CELLS:
        raise ValueError(f'"cells" is no list of at most {MAX_CELLS:,} measurements')
    directions: dict[str, dict[Shape, tuple[Timing, ...]]] = {"forward": {}, "backward": {}}
    for cell in cells:
        shapes = directions.get(cell["direction"])
        if shapes is not None:
            shape = Shape(_count(cell, "head_dim"), cell["causal"] is True, *(_count(cell, key) for key in SIZES))
            if len(shapes.get(shape, ())) >= MAX_TIMES:
                raise ValueError(f"a shape has more than {MAX_TIMES} candidates")
            shapes[shape] = (*shapes.get(shape, ()), _timing(cell))
    forward = directions["forward"]
    if not any(math.isfinite(timing.ms) for timings in forward.values() for timing in timings):
        raise ValueError("it holds no forward time")
    named = machine["versions"]
    order = [key for key in ("torch", "triton", "cudnn", "cuda") if key in named]
    return SavedBench(
        file=name,
        gpu=words(machine["gpu"])[:60],
        date=words(machine["date"])[:10],
        versions=tuple(version_words(key, words(named[key])[:20]) for key in order),
        card=_card(data.get("card")),
        shapes=forward,
        backward=directions["backward"],
    )


def _timing(cell: dict[str, Any]) -> Timing:
    figures = [_figure(cell, key) for key in ("ms", "low_ms", "high_ms", "tflops")]
    return Timing(
        name=words(cell["name"])[:40],
        ms=figures[0],
        low_ms=figures[1],
        high_ms=figures[2],
        tflops=figures[3],
        note=words(cell.get("note", ""))[:120],
    )


def _figure(cell: dict[str, Any], key: str) -> float:
    """A positive number, or NaN for null."""
    value = cell.get(key)
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < MAX_FIELD:
        raise ValueError(f'"{key}" is {words(value)[:40]}, no positive number')
    return float(value)


def _count(cell: dict[str, Any], key: str) -> int:
    value = cell[key]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < MAX_FIELD:
        raise ValueError(f'"{key}" is {words(value)[:40]}, no whole number from 1')
    return value


def _card(card: object) -> str:
    """The clocks and power noted last, in one line; empty where none were."""
    last = card[-1] if isinstance(card, list) and card else None
    if not isinstance(last, dict):
        return ""
    parts = [("clocks.sm", "MHz"), ("power.draw", "W"), ("temperature.gpu", "°C")]
    return " · ".join(f"{_whole(words(last[key])[:12])} {unit}" for key, unit in parts if key in last)


def _whole(text: str) -> str:
    try:
        return f"{float(text):,.0f}"
    except ValueError:
        return text
