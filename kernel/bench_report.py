"""What a kernel benchmark says: means over the shapes, a table, and its file read back."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

FORMAT: Final = 1
KIND: Final = "flashscope kernel benchmark"


def summary(result: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Geometric mean and least of the time of every peer over that of each of our kernels, over the shapes both did."""
    found: dict[str, dict[str, float]] = {}
    for direction in ("forward", "backward"):
        times: dict[str, dict[tuple, float]] = {}
        for cell in result["cells"]:
            if cell["direction"] == direction and cell["ms"]:
                shape = (cell["head_dim"], cell["causal"], cell["seqlen"])
                times.setdefault(cell["name"], {})[shape] = cell["ms"]
        for ours in ("hopper", "hopper, fixed order", "portable"):
            for name, theirs in times.items():
                ratios = [ms / times[ours][s] for s, ms in theirs.items() if s in times.get(ours, {})]
                if ratios and name != ours:
                    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                    pair = {"mean": round(mean, 3), "least": round(min(ratios), 3), "shapes": len(ratios)}
                    found[f"{direction}: {ours} against {name}"] = pair
    return found


def table(result: dict[str, Any]) -> str:
    """TFLOP/s of every candidate by shape, then the means."""
    lines = []
    for direction in ("forward", "backward"):
        cells = [c for c in result["cells"] if c["direction"] == direction]
        names = list(dict.fromkeys(c["name"] for c in cells))
        lines.append(f"{direction}, TFLOP/s".ljust(24) + "".join(name.rjust(max(9, len(name) + 2)) for name in names))
        for shape in dict.fromkeys((c["head_dim"], c["causal"], c["seqlen"]) for c in cells):
            by_name = {c["name"]: c for c in cells if (c["head_dim"], c["causal"], c["seqlen"]) == shape}
            row = f"{shape[0]:>4} {'causal' if shape[1] else 'full':<7}{shape[2]:>7}".ljust(24)
            for name in names:
                value = by_name.get(name, {}).get("tflops")
                row += (f"{value:.0f}" if value else "-").rjust(max(9, len(name) + 2))
            lines.append(row)
        lines.append("")
    for what, pair in summary(result).items():
        lines.append(f"{what}: {pair['mean']:.3f} in the geometric mean, {pair['least']:.3f} at least")
    notes = dict.fromkeys(f"{c['name']}: {c['note']}" for c in result["cells"] if c["note"])
    return "\n".join([*lines, *notes])


def read(path: Path) -> dict[str, Any]:
    """A saved result; raises ValueError, in one sentence, when the file is none."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise ValueError(f"{path} is no JSON, so no saved benchmark.") from None
    if not isinstance(result, dict) or result.get("kind") != KIND:
        raise ValueError(f'{path} is no saved kernel benchmark: its "kind" is not "{KIND}".')
    if result.get("format") != FORMAT:
        raise ValueError(f"{path} has format {result.get('format')!r}, and this FlashScope reads {FORMAT}; update it.")
    return result


def version_words(name: str, text: str) -> str:
    """A package and its version; cuDNN gives its own as one number: 91900 is 9.19.0, 8902 is 8.9.2."""
    if name == "cudnn":
        name = "cuDNN"
        if text.isdecimal():
            major = 10_000 if int(text) >= 90_000 else 1_000
            text = f"{int(text) // major}.{int(text) % major // 100}.{int(text) % 100}"
    return f"{name} {text}"
