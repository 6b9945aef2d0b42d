"""Where values came from: the words' numbers are the tape's own, and add up."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.problem import Problem
from kernel.tiling import STEPS, Position
from tests.strategies import problems
from visualizer.explain import explain
from visualizer.frame import RunView
from visualizer.numbers import less, number
from visualizer.presets import PRESETS
from visualizer.resolve import resolve
from visualizer.state import State
from visualizer.tape import Tape

TOY = next(p.state.problem for p in PRESETS if p.name.startswith("Toy"))


def chip_at(step: str, iteration: int = 1, block: int = 2, problem: Problem = TOY, row: int = 3) -> Any:
    tape = Tape(problem)
    inside = step not in ("load_q", "normalise", "store")
    index = tape.tiling.index(Position(0, block, iteration if inside else -1, step))
    view = resolve(State(problem=problem, step=index, row=row), tape, RunView()).chip
    assert view is not None
    return view


def numbers(text: str) -> list[float]:
    return [float(x) for x in re.findall(r"-?\d+\.?\d*(?:e[+-]\d+)?", text)]


def test_a_score_is_a_product_of_a_query_and_a_key():
    view = chip_at("scores")
    first, second, third = explain(view, "s", 3, 5)
    assert (first, third) == ("s[35, 21] = q[35]·k[21]", f"= {number(view.q[3] @ view.k[5])}")
    assert second.startswith(f"= {number(view.q[3, 0])}·{number(view.k[5, 0])} + ")
    assert "(16 products)" in second


def test_a_probability_is_a_power_of_two():
    view = chip_at("exponentiate")
    first, second, third = explain(view, "p", 3, 5)
    assert (first, third) == ("p[35, 21] = 2^(s·scale − m)", f"= {number(view.p[3, 5])}")
    assert 2 ** (view.s[3, 5] * view.qk_scale - view.m[3]) == pytest.approx(float(view.p[3, 5]), rel=1e-5)
    assert second == f"= 2^({number(view.s[3, 5])}·{number(view.qk_scale)}{less(float(view.m[3]))})"


def test_a_masked_element_says_that_the_row_does_not_see_the_key():
    view = chip_at("exponentiate", iteration=2)
    assert explain(view, "s", 3, 9) == ("s[35, 41] = −∞", "masked: row 35 does not see key 41")
    assert explain(view, "p", 3, 9)[0] == "p[35, 41] = 0"


def test_acc_is_the_rescaled_acc_and_the_new_products():
    before, view = chip_at("rescale"), chip_at("accumulate")
    first, second, third = explain(view, "acc", 3, 7)
    assert (first, third) == ("acc[35, 7] = acc·α + p[35]·v[:, 7]", f"= {number(view.acc[3, 7])}")
    old, new, count = numbers(second)[:3]
    assert old == pytest.approx(float(before.acc[3, 7]), abs=2e-3)
    assert new == pytest.approx(float(view.p[3] @ view.v[:, 7]), abs=1e-3)
    assert count == 16


def test_m_alpha_and_l_are_told_with_the_values_of_before():
    start, view = chip_at("load_k"), chip_at("row_max")
    assert explain(view, "m", 3)[1] == f"= max({number(start.m[3])}, {number(view.s[3].max() * view.qk_scale)})"
    for step in ("alpha", "accumulate"):
        view = chip_at(step)
        assert explain(view, "alpha", 3)[1] == f"= 2^({number(start.m[3])}{less(float(view.m[3]))})"
    view = chip_at("denominator")
    old, alpha, total = numbers(explain(view, "l", 3)[1])
    assert old == pytest.approx(float(start.l[3]), rel=1e-3)
    assert old * alpha + total == pytest.approx(float(view.l[3]), rel=1e-3)


def test_o_and_lse_end_the_program():
    view = chip_at("store")
    assert explain(view, "o", 3, 2)[1] == f"= {number(view.sums[3, 2])} / {number(view.l[3])}"
    assert explain(view, "lse", 3)[::2] == (
        "L[35] = m + log₂ l",
        f"= {number(view.lse[3])}, kept for the backward pass",
    )


def test_rows_without_a_key_are_explained():
    problem = next(p.state.problem for p in PRESETS if "no key" in p.name)
    view = chip_at("store", block=0, problem=problem)
    assert explain(view, "o", 3, 0) == ("o[3, 0] = 0", "the row saw no key: l = 0, so o = 0")
    assert explain(chip_at("load_q", block=0, problem=problem), "m", 3)[1] == "the row has seen no key yet"


@settings(max_examples=40, deadline=None)
@given(problems(min_rows=1), st.data())
def test_every_held_value_of_every_step_is_explained_with_its_own_number(problem, data):
    tape = Tape(problem)
    if not len(tape):
        return
    index = data.draw(st.integers(0, len(tape) - 1))
    view: Any = resolve(State(problem=problem, step=index, row=1), tape, RunView()).chip
    shown = {"q": view.q, "k": view.k, "v": view.v, view.matrix_name: view.matrix, view.acc_name: view.acc}
    for quantity, values in shown.items():
        if values is None or not values.size:
            assert explain(view, quantity, 0, 0) == () or values is not None
            continue
        i, j = data.draw(st.integers(0, values.shape[0] - 1)), data.draw(st.integers(0, values.shape[1] - 1))
        lines = explain(view, quantity, i, j)
        assert f"= {number(values[i, j])}" in lines[2 if len(lines) == 3 else 0]
        assert "[" in lines[0]
    for quantity, column in (("m", view.m), ("alpha", view.alpha), ("l", view.l), ("lse", view.lse)):
        lines = explain(view, quantity, 0)
        assert lines == () if column is None else f"= {number(column[0])}" in lines[2 if len(lines) == 3 else 0]


@pytest.mark.parametrize("step", STEPS)
def test_equations_of_every_step_end_with_the_value_it_wrote(step):
    view = chip_at(step, iteration=2)
    last = view.equations[-1]
    wrote = {
        "load_k": view.l,
        "scores": None,
        "mask": None,
        "row_max": view.m,
        "alpha": view.alpha,
        "exponentiate": None,
        "denominator": view.l,
        "rescale": view.acc,
        "load_v": view.acc,
        "accumulate": view.acc,
        "store": view.lse,
        "normalise": view.acc,
    }.get(step)
    if step == "load_q":
        assert last.text == "acc = 0"
    elif step == "exponentiate":
        assert last.text.endswith(f"= {number(view.p[3].sum())}")
    elif wrote is None:
        assert last.text.endswith(f"= {number(view.s[3].max())}")
    else:
        value = wrote[3] if wrote.ndim == 1 else wrote[3, 0]
        assert last.text.endswith(f"= {number(value)}")


def test_equations_keep_the_old_m_and_l_when_the_iteration_is_over():
    start, end = chip_at("load_k"), chip_at("accumulate")
    by_quantity = {e.quantity: e.text for e in end.equations}
    assert f"max({number(start.m[3])}, " in by_quantity["m"]
    assert by_quantity["alpha"] == f"α = 2^({number(start.m[3])}{less(float(end.m[3]))}) = {number(end.alpha[3])}"
    assert by_quantity["l"].startswith(f"l ← l·α + Σ p = {number(start.l[3])}·{number(end.alpha[3])} + ")
