"""A run's result in words: the lines of numbers that the run panel shows, each in longer and shorter forms."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from kernel.results import RunResult, Timing
from visualizer.numbers import sci, three


@dataclass(frozen=True, slots=True)
class Figure:
    """One line: what it is, its value from the fullest form to the shortest, and whether it breaks a bound."""

    name: str
    forms: tuple[str, ...]
    bad: bool = False


def figures(result: RunResult) -> list[Figure]:
    """The numbers of a run, the most telling first."""
    lines: list[Figure] = []
    lines.append(_against_eager(result))
    lse, bad = _error(result.lse_error), not result.lse_error <= result.lse_bound
    lines.append(Figure("L error", (f"{lse} · bound {sci(result.lse_bound)}", lse), bad))
    if result.compiled is not None:
        c = result.compiled
        spills = "no spills" if c.spill_bytes == 0 else f"{c.spill_bytes:,} B spilled"
        value = f"{c.registers} · {c.shared_bytes / 1024:.0f} KiB · {spills}"
        lines.append(Figure("registers · shared", (value,), c.spill_bytes > 0))
    lines.append(_mirror(result))
    if result.first_differing:
        forms = (result.first_differing, result.first_differing.partition(" (")[0])
        lines.append(Figure("first differing", forms, result.backend == "interpreter"))
    lines.append(Figure("rows checked", (f"{result.rows_checked:,}",)))
    blocks = f"{result.block_m} × {result.block_n}"
    if result.compiled is not None:
        c = result.compiled
        lines.append(Figure("blocks · warps · stages", (f"{blocks} · {c.num_warps} · {c.num_stages}",)))
    else:
        lines.append(Figure("blocks", (blocks,)))
    if result.device:
        lines.append(Figure("device", device_forms(result.device)))
    names = sorted(result.versions, key=lambda name: ("torch", "triton", "cuda", name).index(name))
    versions = [f"{name} {result.versions[name]}" for name in names]
    if versions:
        lines.append(Figure("versions", tuple(" · ".join(versions[:n]) for n in range(len(versions), 0, -1))))
    return lines


def _against_eager(result: RunResult) -> Figure:
    """O's error beside that of eager attention, the ratio of the two, and the bound."""
    error, eager, bound = _error(result.o_error), sci(result.o_error_eager), f"bound {sci(result.o_bound)}"
    bad = not result.o_error <= result.o_bound
    if not math.isfinite(result.o_error) or result.o_error_eager == 0:
        return Figure("O error", (f"{error} · {bound}", error), bad)
    ratio = sci(result.o_error / result.o_error_eager)
    whole = f"{error} / {eager} = {ratio}"
    return Figure("O error / eager error", (f"{whole} · {bound}", whole, f"{ratio} ×"), bad)


def _error(x: float) -> str:
    """An error; where it is infinite a value is NaN or infinite that should not be."""
    return sci(x) if math.isfinite(x) else "not finite"


def _mirror(result: RunResult) -> Figure:
    """Elements that differ from the mirror: none may under the interpreter, some do on a GPU."""
    o, lse = result.mirror_o_differing, result.mirror_lse_differing
    where = "" if result.compared_programs < 0 else f" in {result.compared_programs:,} programs"
    short = f"o {o:,} · lse {lse:,}"
    if o == lse == 0:
        return Figure("differs from mirror", (f"0 elements of o and lse{where}", "in 0 elements", "0"))
    sizes = f"o {o:,} ({_at_most(result.mirror_o_max)}) · lse {lse:,} ({_at_most(result.mirror_lse_max)})"
    bad = result.backend == "interpreter"
    return Figure("differs from mirror", (f"{sizes}{where}", sizes, short), bad)


def _at_most(x: float) -> str:
    return f"≤ {sci(x)}" if math.isfinite(x) else "not all finite"


def device_forms(name: str) -> tuple[str, ...]:
    """A device's name, and what is left of it without marks and clock: "Intel Xeon Platinum 8481C"."""
    plain = re.sub(r"\((R|TM|r|tm)\)|\bCPU\b|@.*$|\b\d+-Core\b|\bProcessor\b", "", name)
    return name, " ".join(plain.split()) or name


def milliseconds(ms: float) -> str:
    """A time in three digits with its unit."""
    if not math.isfinite(ms):
        return "?"
    if ms >= 1000:
        return f"{three(ms / 1000)} s"
    return f"{three(ms)} ms" if ms >= 1 else f"{three(ms * 1000)} µs"


def measured(timing: Timing) -> bool:
    """Whether the contestant ran: those that are not installed come with a note and no time."""
    return math.isfinite(timing.ms) and timing.ms > 0 and math.isfinite(timing.tflops)


def spread(timing: Timing) -> tuple[float, float]:
    """The slow and the fast end in TFLOP/s."""
    work = timing.tflops * timing.ms
    slow = work / timing.high_ms if timing.high_ms > 0 else timing.tflops
    return slow, work / timing.low_ms if timing.low_ms > 0 else timing.tflops
