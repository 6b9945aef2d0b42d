"""The plot of a kernel benchmark as SVG: TFLOP/s over seqlen, a panel for each direction, head_dim and mask."""

from __future__ import annotations

import math
from typing import Any, Final
from xml.sax.saxutils import escape

from kernel.bench_report import version_words

# Okabe-Ito, so that every pair can be told apart
COLOURS: Final = {
    "hopper": "#0072B2",
    "hopper, fixed order": "#56B4E9",
    "portable": "#009E73",
    "SDPA cuDNN": "#D55E00",
    "SDPA FlashAttention": "#E69F00",
    "FlexAttention": "#CC79A7",
    "original": "#808080",
}
WIDTH, HEIGHT, LEFT, TOP, GAP, LEGEND = 300, 210, 46, 58, 54, 26


def svg(result: dict[str, Any]) -> str:
    """A picture of the cells that have times; a row for each direction and mask."""
    cells = [cell for cell in result["cells"] if cell["tflops"]]
    panels = list(dict.fromkeys((c["direction"], c["head_dim"], c["causal"]) for c in cells))
    rows = [
        sorted(panel for panel in panels if panel[::2] == row)
        for row in (("forward", False), ("forward", True), ("backward", False), ("backward", True))
    ]
    rows = [row for row in rows if row]
    names = [name for name in COLOURS if any(c["name"] == name for c in cells)]
    width, height = 3 * (WIDTH + LEFT) + 20, TOP + LEGEND + len(rows) * (HEIGHT + GAP)
    machine = result["machine"]
    versions = ", ".join(
        version_words(k, v) for k, v in machine["versions"].items() if k in ("torch", "triton", "cudnn")
    )
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            'font-family="Inter, sans-serif" font-size="12" fill="#222">'
        ),
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        (
            f'<text x="{LEFT}" y="22" font-size="15" font-weight="600">Attention on {escape(machine["gpu"])}, TFLOP/s, '
            "float16, batch × seqlen 16,384, heads × head_dim 2,048</text>"
        ),
        f'<text x="{LEFT}" y="40" fill="#666">{escape(versions)}, {escape(machine["date"][:10])}</text>',
    ]
    x = float(LEFT)
    for name in names:
        parts.append(f'<rect x="{x:.0f}" y="{TOP - 3}" width="16" height="4" fill="{COLOURS[name]}"/>')
        parts.append(f'<text x="{x + 21:.0f}" y="{TOP + 4}">{escape(name)}</text>')
        x += 40 + 6.6 * len(name)
    for i, row in enumerate(rows):
        for j, panel in enumerate(row):
            own = [c for c in cells if (c["direction"], c["head_dim"], c["causal"]) == panel]
            left, top = LEFT + j * (WIDTH + LEFT), TOP + LEGEND + i * (HEIGHT + GAP) + 16
            parts += _panel(panel, own, names, left, top)
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: tuple, cells: list[dict[str, Any]], names: list[str], left: int, top: int) -> list[str]:
    direction, head_dim, causal = panel
    lengths = sorted({c["seqlen"] for c in cells})
    step = 100 if max(c["tflops"] for c in cells) > 300 else 50
    limit = step * math.ceil(max(c["tflops"] for c in cells) / step)

    def x(seqlen: int) -> float:
        return left + WIDTH * (lengths.index(seqlen) / max(1, len(lengths) - 1))

    def y(tflops: float) -> float:
        return top + HEIGHT * (1 - tflops / limit)

    title = f"{direction}, head_dim {head_dim}{', causal' if causal else ''}"
    parts = [f'<text x="{left}" y="{top - 7}" font-weight="600">{title}</text>']
    for tick in range(0, limit + 1, step):
        parts.append(f'<path d="M{left} {y(tick):.1f}h{WIDTH}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end" fill="#666">{tick}</text>')
    for seqlen in lengths:
        label = f"{seqlen // 1024}k" if seqlen >= 1024 else str(seqlen)
        parts.append(
            f'<text x="{x(seqlen):.1f}" y="{top + HEIGHT + 16}" text-anchor="middle" fill="#666">{label}</text>'
        )
    for name in reversed(names):
        points = sorted((c["seqlen"], c["tflops"]) for c in cells if c["name"] == name)
        if not points:
            continue
        path = " ".join(f"{x(s):.1f},{y(t):.1f}" for s, t in points)
        wide = 2.6 if name.startswith("hopper") else 1.7
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="{wide}"/>')
        parts += [f'<circle cx="{x(s):.1f}" cy="{y(t):.1f}" r="2.6" fill="{COLOURS[name]}"/>' for s, t in points]
    return parts
