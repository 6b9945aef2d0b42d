"""The forward kernel's own text, read from its file, and the lines of each step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from kernel.tiling import STEPS

_STEP: Final = re.compile(rf"^(\s*)# ({'|'.join(STEPS)}): ")


@dataclass(frozen=True, slots=True)
class KernelSource:
    """lines: the file's text from `first_line` (1-based) on; step_lines: the file's line numbers of every step."""

    path: str
    first_line: int
    lines: tuple[str, ...]
    step_lines: dict[str, tuple[int, ...]]


@cache
def kernel_source() -> KernelSource:
    """The kernel from its first decorator on.

    A comment `# load_k: ...` opens a step; its lines follow up to the next such comment, a blank line, or a line that
    is indented less.
    """
    path = Path(__file__).with_name("forward.py")
    text = path.read_text(encoding="utf-8").splitlines()
    first = next(i for i, line in enumerate(text) if line.startswith("@triton.jit"))
    found: dict[str, list[int]] = {}
    step, indent = None, 0
    for number, line in enumerate(text[first:], first + 1):
        opened = _STEP.match(line)
        if opened:
            step, indent = opened[2], len(opened[1])
        elif not line.strip() or len(line) - len(line.lstrip()) < indent:
            step = None
        elif step:
            found.setdefault(step, []).append(number)
    return KernelSource(
        path=f"kernel/{path.name}",
        first_line=first + 1,
        lines=tuple(text[first:]),
        step_lines={name: tuple(found.get(name, ())) for name in STEPS},
    )
