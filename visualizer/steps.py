"""The steps in words: what each makes, and how."""

from __future__ import annotations

from typing import Final

# step (kernel.tiling.STEPS) -> the quantity that it makes, and a sentence
SENTENCES: Final = {
    "load_q": ("q", "q tile to the chip; m = −∞, l = 0, acc = 0"),
    "load_k": ("k", "k tile to the chip"),
    "scores": ("s", "s = q·kᵀ"),
    "mask": ("s", "s = −∞ where the row does not see the key"),
    "row_max": ("m", "m_new = max(m, row max of s, scaled)"),
    "alpha": ("alpha", "α = 2^(m − m_new)"),
    "exponentiate": ("p", "p = 2^(s·scale − m_new)"),
    "denominator": ("l", "l = l·α + row sum of p"),
    "rescale": ("acc", "acc = acc·α"),
    "load_v": ("v", "v tile to the chip"),
    "accumulate": ("acc", "acc = acc + p·v"),
    "normalise": ("o", "o = acc / l"),
    "store": ("lse", "o to memory, and L = m + log₂ l"),
}
LAZY_MAX: Final = "m_new = the larger of m and row max of s, scaled; m where it would grow by less than 8"
