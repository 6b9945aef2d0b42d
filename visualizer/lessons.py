"""Lessons: moments of one problem, each with a few sentences, in assets/lessons/*.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

import assets
from kernel.problem import Problem
from kernel.tiling import Position, Tiling
from visualizer.state import State


@dataclass(frozen=True, slots=True)
class Stop:
    """What to look at, and what to say about it."""

    state: State
    text: str


@dataclass(frozen=True, slots=True)
class Lesson:
    """A title and the stops, in order."""

    title: str
    stops: tuple[Stop, ...]


@cache
def lessons() -> tuple[Lesson, ...]:
    """The lessons that come with the program. A stop names its step as [head, block, iteration, step]."""
    found = []
    for path in sorted(assets.path("lessons").glob("*.json"), reverse=True):
        data = json.loads(path.read_text(encoding="utf-8"))
        problem = Problem(**data["problem"])
        tiling = Tiling(problem)
        stops = tuple(
            Stop(
                State(problem=problem, step=tiling.index(Position(*stop["at"])), row=stop.get("row", data["row"])),
                stop["text"],
            )
            for stop in data["stops"]
        )
        found.append(Lesson(data["title"], stops))
    return tuple(found)
