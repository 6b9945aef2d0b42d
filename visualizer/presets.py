"""Problems worth looking at, each with the reason; the opening one first."""

from __future__ import annotations

from typing import Final, NamedTuple

from kernel.problem import Problem
from visualizer.state import OPENING, State


class Preset(NamedTuple):
    name: str
    why: str
    state: State


PRESETS: Final = (
    Preset("Original test", "the first kernel's own test: two heads of 1,024 causal rows", OPENING),
    Preset(
        "Toy 4 x 4",
        "four by four tiles of 16, small enough to follow every number on a slide",
        State(problem=Problem(heads=1, kv_heads=1, seqlen_q=64, seqlen_k=64, head_dim=16, block_m=16, block_n=16)),
    ),
    Preset(
        "Not causal",
        "every row sees every key: no tile is masked or skipped",
        State(problem=Problem(causal=False, seqlen_q=512, seqlen_k=512), row=17),
    ),
    Preset(
        "Ragged tail",
        "lengths that no block divides: the last tiles are partly padding, on both sides",
        State(problem=Problem(seqlen_q=300, seqlen_k=333, head_dim=48, block_m=64), row=17),
    ),
    Preset(
        "Grouped heads",
        "eight query heads read two key heads, four each",
        State(problem=Problem(heads=8, kv_heads=2, seqlen_q=256, seqlen_k=256, dtype="bfloat16", block_m=64), row=17),
    ),
    Preset(
        "Max keeps moving",
        "scores grow along the keys: in the selected row every tile raises m and rescales l and acc",
        State(
            problem=Problem(
                heads=1, kv_heads=1, seqlen_q=128, seqlen_k=512, causal=False, distribution="rising", block_m=64
            ),
            row=5,
        ),
    ),
    Preset(
        "Rows that see no key",
        "more queries than keys: the first rows see nothing, so o = 0 and L = −∞",
        State(problem=Problem(heads=1, kv_heads=1, seqlen_q=300, seqlen_k=128, block_m=64), row=17),
    ),
)
