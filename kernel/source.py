"""The forward kernels' source as the source panel shows it: the lines of the file, and the step each belongs to."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Final

from kernel.tiling import STEPS

PATH: Final = Path(__file__).with_name("forward.py")
_OPENING: Final = re.compile(rf"( *)# ({'|'.join(STEPS)}): \S")
_FILES: Final = {"triton": (PATH.name, "@triton.jit"), "hopper": ("hopper_kernel.py", "@gluon.jit")}


@dataclass(frozen=True)
class KernelSource:
    """`lines` of the file from line `first_line` (counted from 1) to its end, without line ends.

    path: the file as a person names it, kernel/forward.py; step_lines: for each step of kernel.tiling.STEPS the
    numbers of its lines in the file, ascending; branches: the ifs in it.
    """

    path: str
    first_line: int
    lines: tuple[str, ...]
    step_lines: dict[str, tuple[int, ...]]
    branches: tuple["Branch", ...]

    def lines_run(self, step: str, known: Mapping[str, object]) -> tuple[int, ...]:
        """The step's lines that run where the compile-time names in `known` have these values.

        An if that they decide is gone from the compiled kernel: of it only what is inside the arm taken remains.
        """
        lines = set(self.step_lines[step])
        for branch in self.branches:
            if branch.names <= known.keys():
                taken = bool(eval(branch.test, {"__builtins__": {}}, dict(known)))
                lines -= {*branch.line_numbers} - {*(branch.then if taken else branch.otherwise)}
        return tuple(sorted(lines))

    def step_at(self, line: int) -> str | None:
        """The step that the file's line `line` belongs to, if any."""
        return next((step for step, lines in self.step_lines.items() if line in lines), None)


@dataclass(frozen=True)
class Branch:
    """An if of the source: its test, the names in it, and the numbers of all its lines and of those in its arms."""

    test: CodeType
    names: frozenset[str]
    line_numbers: range
    then: range
    otherwise: range


@cache
def kernel_source(backend: str = "triton") -> KernelSource:
    """Reads the kernel of a backend of Problem, from its first function on."""
    name, decorator = _FILES[backend]
    text = Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
    first = text.index(decorator)
    return KernelSource(f"kernel/{name}", first + 1, tuple(text[first:]), step_lines(text), branches("\n".join(text)))


def branches(text: str) -> tuple[Branch, ...]:
    """Every if of the text; what elif and else hold counts as the other arm."""

    def lines(block: list[ast.stmt]) -> range:
        return range(block[0].lineno, (block[-1].end_lineno or 0) + 1) if block else range(0)

    return tuple(
        Branch(
            compile(ast.Expression(node.test), "<test>", "eval"),
            frozenset(name.id for name in ast.walk(node.test) if isinstance(name, ast.Name)),
            lines([node]),
            lines(node.body),
            lines(node.orelse),
        )
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.If)
    )


def step_lines(text: list[str]) -> dict[str, tuple[int, ...]]:
    """The lines, counted from 1, of each step that a comment `# step: ...` opens.

    They follow the comment up to the next such comment, a blank line, or a line indented less than the comment.
    """
    found: dict[str, list[int]] = {}
    step, indent = None, 0
    for number, line in enumerate(text, 1):
        opening = _OPENING.match(line)
        if opening:
            step, indent = opening[2], len(opening[1])
        elif not line.strip() or len(line) - len(line.lstrip()) < indent:
            step = None
        elif step is not None:
            found.setdefault(step, []).append(number)
    return {step: tuple(found.get(step, ())) for step in STEPS}
