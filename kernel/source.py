"""The forward kernels' source as the source panel shows it: the lines of the file, and the step each belongs to."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from kernel.tiling import STEPS

PATH: Final = Path(__file__).with_name("forward.py")
_OPENING: Final = re.compile(rf"( *)# ({'|'.join(STEPS)}): \S")
_FILES: Final = {"triton": (PATH.name, "@triton.jit"), "hopper": ("hopper_kernel.py", "@gluon.jit")}


@dataclass(frozen=True)
class KernelSource:
    """`lines` of the file from line `first_line` (counted from 1) to its end, without line ends.

    path: the file as a person names it, kernel/forward.py; step_lines: for each step of kernel.tiling.STEPS the
    numbers of its lines in the file, ascending.
    """

    path: str
    first_line: int
    lines: tuple[str, ...]
    step_lines: dict[str, tuple[int, ...]]

    def step_at(self, line: int) -> str | None:
        """The step that the file's line `line` belongs to, if any."""
        return next((step for step, lines in self.step_lines.items() if line in lines), None)


@cache
def kernel_source(backend: str = "triton") -> KernelSource:
    """Reads the kernel of a backend of Problem, from its first function on."""
    name, decorator = _FILES[backend]
    text = Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
    first = text.index(decorator)
    return KernelSource(f"kernel/{name}", first + 1, tuple(text[first:]), step_lines(text))


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
