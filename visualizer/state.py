"""Everything that a person can be looking at, as one frozen value; a session file is this value as JSON."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from kernel.plain_file import open_plain, shown_name, shown_path, write_whole
from kernel.problem import FIELDS, Problem, ProblemError, shown

FORMAT: Final = 1
MAX_BYTES: Final = 1 << 20
LSE_UNITS: Final = ("log2", "ln")
MATRICES: Final = ("auto", "s", "p")


class StateError(ValueError):
    """A session that cannot be opened; one sentence for the person."""


class NoSession(StateError):
    """The file is not a session at all, or of another format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The problem, the position on its tape, the selected row of the block, and the view options.

    `step` is an index of the tape: the step that has just run. `row` counts within the block. `matrix` is what the
    chip shows between q and acc: scores, probabilities, or whichever the step has just written. `bench` is
    the path of a saved benchmark, which the run panel shows instead of this machine's run.
    """

    problem: Problem = field(default_factory=Problem)
    step: int = 0
    row: int = 0
    lse_unit: str = "log2"
    matrix: str = "auto"
    bench: str | None = None

    def change(self, **values: Any) -> State:
        """This state with some fields changed; fields of Problem are named directly."""
        inner = {name: values.pop(name) for name in FIELDS if name in values}
        problem = values.pop("problem", self.problem)
        return replace(self, problem=problem.change(**inner) if inner else problem, **values)


OPENING: Final = State(step=0, row=17)


def to_json(state: State) -> str:
    """The session file's text; it names a benchmark only where there is one."""
    data = {"flashscope": FORMAT, **asdict(state)}
    if state.bench is None:
        del data["bench"]
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def from_json(text: str) -> State:
    """The state that a session file holds. Raises StateError, in one sentence, for anything that is not one."""
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise NoSession("The session is not valid JSON; it may be cut off. Open another, or save it again.") from error
    if not isinstance(data, dict) or "flashscope" not in data:
        raise NoSession(f'The file is not a FlashScope session (it lacks "flashscope": {FORMAT}).')
    found = data.pop("flashscope")
    if found != FORMAT or type(found) is not int:
        raise StateError(
            f"The session's format is {shown(found)}, and this FlashScope reads {FORMAT}; open it in a newer one."
        )
    problem = data.pop("problem", {})
    if not isinstance(problem, dict):
        raise StateError('"problem" in the session must be a group of fields, as in a saved session.')
    _known(problem, FIELDS, "problem field")
    _known(data, [f.name for f in fields(State)], "field")
    try:
        state = State(problem=Problem(**problem), **data)
    except ProblemError as error:
        raise StateError(f"The session's problem cannot be: {error}") from error
    for name in ("step", "row"):
        value = getattr(state, name)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 53:
            raise StateError(f"{name} in the session is {shown(value)}; it must be a whole number from 0.")
    if not isinstance(state.bench, str | None):
        raise StateError(f"bench in the session is {shown(state.bench)}; it must be a file's path, or null.")
    for name, choices in (("lse_unit", LSE_UNITS), ("matrix", MATRICES)):
        if getattr(state, name) not in choices:
            raise StateError(f"{name} in the session is {shown(getattr(state, name))}; choose {' or '.join(choices)}.")
    return state


def load(path: Path) -> State:
    """The state in a session file. Raises StateError; reads at most 1 MiB.

    A path of tensors or a benchmark in it that is not absolute is taken from the session's folder.
    """
    name = shown_name(path)
    try:
        with open_plain(path) as file:
            raw = file.read(MAX_BYTES + 1) or b""
    except OSError as error:
        raise StateError(f"{name} cannot be opened: {error.strerror or error}.") from error
    if len(raw) > MAX_BYTES:
        raise NoSession(f"{name} is larger than 1 MiB, so it is not a FlashScope session.")
    try:
        state = from_json(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise NoSession(f"{name} is not text, so it is not a FlashScope session.") from error
    except StateError as error:
        raise type(error)(f"{name}: {error}") from error
    folder, inputs, bench = os.path.abspath(path.parent), state.problem.inputs, state.bench
    if inputs is not None:
        state = state.change(inputs=os.path.join(folder, inputs))
    return state if bench is None else state.change(bench=os.path.join(folder, bench))


def save(state: State, path: Path) -> None:
    """Writes the session whole or not at all. Raises StateError.

    Tensors or a benchmark beside the session, or in a folder below, are named from there, so that both can be moved
    together.
    """
    folder = os.path.abspath(path.parent)
    if state.problem.inputs is not None:
        state = state.change(inputs=_named_from(folder, state.problem.inputs))
    if state.bench is not None:
        state = state.change(bench=_named_from(folder, state.bench))
    try:
        write_whole(path, to_json(state).encode("utf-8"))
    except OSError as error:
        raise StateError(f"{shown_path(path)} cannot be written: {error.strerror or error}.") from error


def _named_from(folder: str, path: str) -> str:
    whole = Path(os.path.abspath(path))
    return whole.relative_to(folder).as_posix() if whole.is_relative_to(folder) else str(whole)


def _known(data: dict[str, Any], names: tuple[str, ...] | list[str], what: str) -> None:
    unknown = sorted(set(data) - set(names))
    if unknown:
        raise StateError(f"The session has an unknown {what}, {unknown[0][:40]!r}; it may come from a newer version.")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
