"""Where one value on the chip came from, with its numbers put in: the words of the chip panel's tooltips."""

from __future__ import annotations

import math

import numpy as np

from visualizer.frame import ChipView
from visualizer.numbers import MINUS, less, number

TERMS = 2


def explain(view: ChipView, quantity: str, i: int, j: int = 0) -> tuple[str, ...]:
    """Lines on element (i, j) of what the chip shows under `quantity`; empty when it holds no such thing.

    What was worked out has three: the formula, the numbers put in, the result. Else the value comes first.
    i counts rows of the block (for k and v: keys of the tile), j columns; lse, m, alpha and l have no j.
    """
    maker = {"q": _loaded, "k": _loaded, "v": _loaded, "s": _score, "p": _probability, "acc": _acc, "o": _o}.get(
        quantity
    )
    if maker is not None:
        return maker(view, quantity, i, j)
    return {"m": _m, "alpha": _alpha, "l": _l, "lse": _lse}[quantity](view, i)


def _loaded(view: ChipView, quantity: str, i: int, j: int) -> tuple[str, ...]:
    tile = {"q": view.q, "k": view.k, "v": view.v}[quantity]
    if tile is None:
        return ()
    first, word = (view.rows[0], "query row") if quantity == "q" else ((view.cols or (0, 0))[0], "key")
    return (f"{quantity}[{first + i}, {j}] = {number(tile[i, j])}", f"{word} {first + i:,}, column {j}, from HBM")


def _score(view: ChipView, quantity: str, i: int, j: int) -> tuple[str, ...]:
    if view.s is None or view.cols is None:
        return ()
    row, key = view.rows[0] + i, view.cols[0] + j
    if view.keep is not None and not view.keep[i, j]:
        return (f"s[{row}, {key}] = {MINUS}∞", f"masked: row {row:,} does not see key {key:,}")
    value = number(view.s[i, j])
    if view.q is None or view.k is None:
        return (f"s[{row}, {key}] = {value}",)
    products = [f"{number(a)}·{number(b)}" for a, b in zip(view.q[i, :TERMS], view.k[j, :TERMS], strict=True)]
    more = "" if view.head_dim <= TERMS else " + …"
    return (
        f"s[{row}, {key}] = q[{row}]·k[{key}]",
        f"= {' + '.join(products)}{more}  ({view.head_dim} products)",
        f"= {value}",
    )


def _probability(view: ChipView, quantity: str, i: int, j: int) -> tuple[str, ...]:
    if view.p is None or view.s is None or view.m is None or view.cols is None:
        return ()
    row, key = view.rows[0] + i, view.cols[0] + j
    value, m = number(view.p[i, j]), float(view.m[i])
    if view.keep is not None and not view.keep[i, j]:
        return (f"p[{row}, {key}] = {value}", f"masked: row {row:,} does not see key {key:,}, so 2^({MINUS}∞)")
    score, scale = number(view.s[i, j]), number(view.qk_scale)
    return (
        f"p[{row}, {key}] = 2^(s·scale − m)",
        f"= 2^({score}·{scale}{'' if m == -math.inf else less(m)})",
        f"= {value}",
    )


def _acc(view: ChipView, quantity: str, i: int, j: int) -> tuple[str, ...]:
    if view.sums is None:
        return ()
    name, value = f"acc[{view.rows[0] + i}, {j}]", float(view.sums[i, j])
    if "acc" in view.fresh and view.v is not None and view.p is not None:
        with np.errstate(invalid="ignore"):
            new = float(view.p[i] @ view.v[:, j])
        return (
            f"{name} = acc·α + p[{view.rows[0] + i}]·v[:, {j}]",
            f"= {number(value - new)} + {number(new)}  ({view.p.shape[1]} products)",
            f"= {number(value)}",
        )
    if "acc" in view.fresh and view.alpha is not None:
        return (f"{name} = acc·α = {number(value)}", f"α = {number(view.alpha[i])}")
    return (f"{name} = {number(value)}", "Σ p·v of the tiles so far, not divided by l yet")


def _o(view: ChipView, quantity: str, i: int, j: int) -> tuple[str, ...]:
    if view.acc is None or view.sums is None or view.l is None or view.acc_name != "o":
        return ()
    name, value, l = f"o[{view.rows[0] + i}, {j}]", number(view.acc[i, j]), float(view.l[i])
    if l == 0:
        return (f"{name} = {value}", "the row saw no key: l = 0, so o = 0")
    return (f"{name} = acc / l", f"= {number(view.sums[i, j])} / {number(l)}", f"= {value}")


def _m(view: ChipView, i: int) -> tuple[str, ...]:
    if view.m is None:
        return ()
    name, value = f"m[{view.rows[0] + i}]", float(view.m[i])
    if "m" in view.fresh and view.s is not None and view.m_old is not None:
        top = float(np.fmax.reduce(view.s[i])) * view.qk_scale
        return (
            f"{name} = max(m, max s·scale)",
            f"= max({number(view.m_old[i])}, {number(top)})",
            f"= {number(value)}",
        )
    if value == -math.inf:
        return (f"{name} = {MINUS}∞", "the row has seen no key yet")
    return (f"{name} = {number(value)}", "the largest s·scale of the row so far")


def _alpha(view: ChipView, i: int) -> tuple[str, ...]:
    if view.alpha is None or view.m is None:
        return ()
    name, value = f"α[{view.rows[0] + i}]", number(view.alpha[i])
    if view.m_old is None:
        return (f"{name} = {value}",)
    m = float(view.m[i])
    power = f"2^({number(view.m_old[i])}{'' if m == -math.inf else less(m)})"
    return (f"{name} = 2^(m before − m)", f"= {power}", f"= {value}")


def _l(view: ChipView, i: int) -> tuple[str, ...]:
    if view.l is None:
        return ()
    name, value = f"l[{view.rows[0] + i}]", number(view.l[i])
    if "l" in view.fresh and view.p is not None and view.l_old is not None and view.alpha is not None:
        parts = f"{number(view.l_old[i])}·{number(view.alpha[i])} + {number(view.p[i].sum())}"
        return (f"{name} = l·α + Σ p", f"= {parts}", f"= {value}")
    return (f"{name} = {value}", "Σ p of the row so far, relative to 2^m")


def _lse(view: ChipView, i: int) -> tuple[str, ...]:
    if view.lse is None or view.m is None or view.l is None:
        return ()
    m, l = number(view.m[i]), number(view.l[i])
    return (
        f"L[{view.rows[0] + i}] = m + log₂ l",
        f"= {m} + log₂ {l}",
        f"= {number(view.lse[i])}, kept for the backward pass",
    )
