"""Verification finds what is wrong, says where, and finds nothing where nothing is."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel import machine, run, verify
from kernel.inputs import NUMPY_DTYPES, Inputs
from kernel.mirror import Mirror
from kernel.problem import DTYPES, Problem
from kernel.reference import exact_head
from kernel.results import RunResult
from kernel.tiling import Tiling
from kernel.yardstick import Yardstick
from tests.strategies import problems
from visualizer.presets import PRESETS

PROBLEM = Problem(
    batch=2, heads=2, kv_heads=1, seqlen_q=70, seqlen_k=90, head_dim=24, sm_scale=None, block_m=32, block_n=16
)


def quiet(*_: object) -> None:
    pass


def yardstick(problem: Problem, device: str = "cpu") -> tuple[Yardstick, Inputs]:
    inputs = Inputs(problem)
    return Yardstick(problem, inputs, *(machine.tensor(inputs.stacked(name), device) for name in "qkv")), inputs


def exact(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """The exact o and lse, rounded as a kernel without any error would."""
    heads = [exact_head(Inputs(problem), problem, head) for head in range(problem.num_heads)]
    return np.stack([o for o, _ in heads]).astype(NUMPY_DTYPES[problem.dtype]), np.stack(
        [lse for _, lse in heads]
    ).astype(np.float32)


def mirrored(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """o and lse as the mirror has them."""
    tiling = Tiling(problem)
    mirror = Mirror(Inputs(problem), tiling)
    o = np.zeros((problem.num_heads, problem.seqlen_q, problem.head_dim), NUMPY_DTYPES[problem.dtype])
    lse = np.zeros((problem.num_heads, problem.seqlen_q), np.float32)
    for head in range(problem.num_heads):
        for block in range(tiling.num_q_blocks):
            chip = mirror.run(head, block)
            start, end = tiling.rows(block)
            assert chip.o is not None and chip.lse is not None
            o[head, start:end] = chip.o[: end - start, : problem.head_dim]
            lse[head, start:end] = chip.lse[: end - start]
    return o, lse


def checked(problem: Problem, o: np.ndarray, lse: np.ndarray, chosen: verify.Sample | None = None) -> verify.Errors:
    measure, _ = yardstick(problem)
    rows = chosen or verify.Sample(np.arange(problem.num_heads), np.arange(problem.seqlen_q))
    return verify.check(problem, o, lse, measure, rows, quiet)


def compared(problem: Problem, o: np.ndarray, lse: np.ndarray, seconds: float = 60) -> verify.Differences:
    return verify.compare(problem, o, lse, Inputs(problem), seconds, quiet)


def test_error_of_values_that_are_not_finite() -> None:
    nan, inf = np.nan, np.inf
    exact = np.array([nan, 1.0, inf, -inf, inf, -inf, nan, 1.0, 1.0])
    values = np.array([nan, nan, inf, -inf, -inf, 0.0, 1.0, inf, 1.5], np.float32)
    assert verify.error(values, exact).tolist() == [0, inf, 0, 0, inf, inf, inf, inf, 0.5]


def test_exact_values_are_right_and_rounding_is_the_only_error() -> None:
    errors = checked(PROBLEM, *exact(PROBLEM))
    assert errors.first_bad is None
    assert 0 < errors.o_error < errors.o_error_eager
    assert errors.o_bound == 2 * errors.o_error_eager + 1e-5
    assert errors.lse_error < 1e-6
    assert errors.lse_bound == 1e-3
    assert errors.all_rows
    assert errors.rows_checked == 4 * 70
    assert errors.o_tiles.shape == errors.lse_tiles.shape == (4, 3)
    assert errors.o_tiles.max() == np.float32(errors.o_error)


def test_float32_is_held_to_more() -> None:
    problem = PROBLEM.change(dtype="float32")
    errors = checked(problem, *exact(problem))
    assert errors.first_bad is None
    assert errors.lse_bound < 5e-5
    assert errors.o_bound < 2e-5


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.25, r"off by 0.25 \(allowed: \d.\de-4\)"),
        (np.nan, r"NaN where it should be −?0\.\d+"),
        (-np.inf, "−∞ where it .*"),
    ],
)
def test_a_wrong_element_of_o_is_named(value: float, words: str) -> None:
    o, lse = exact(PROBLEM)
    o[2, 40, 7] = value + o[2, 40, 7]
    errors = checked(PROBLEM, o, lse)
    assert errors.first_bad is not None
    where = r"first in row 40 of head 2 \(program 8, rows 32 … 63\)"
    assert re.fullmatch(f"o is {words}, {where}; 1 of 280 rows are wrong", errors.first_bad), errors.first_bad
    assert np.argwhere(errors.o_tiles > errors.o_bound).tolist() == [[2, 1]]
    assert not (errors.lse_tiles > errors.lse_bound).any()
    ok, sentence = verify.verdict(PROBLEM, "interpreter", errors, compared(PROBLEM, *mirrored(PROBLEM)))
    assert not ok
    assert sentence == f"The kernel is wrong: {errors.first_bad}."


def test_a_wrong_lse_is_named() -> None:
    o, lse = exact(PROBLEM)
    lse[1, 69] += 0.002
    lse[3, 0] += 0.002
    errors = checked(PROBLEM, o, lse)
    assert errors.first_bad is not None
    where = "row 69 of head 1 (program 6, rows 64 … 69)"
    assert errors.first_bad.startswith(f"L is off by 2.0e-3 (allowed: 1.0e-3), first in {where}; 2 of 280 rows")
    assert np.argwhere(errors.lse_tiles > errors.lse_bound).tolist() == [[1, 2], [3, 0]]


def test_rows_that_see_no_key_must_say_so() -> None:
    problem = PROBLEM.change(seqlen_q=90, seqlen_k=70)
    o, lse = exact(problem)
    assert np.isneginf(lse[:, :20]).all()
    assert checked(problem, o, lse).first_bad is None
    lse[0, 3] = -100.0
    first = checked(problem, o, lse).first_bad
    assert first is not None
    assert first.startswith("L is −100 where it should be −∞, first in row 3 of head 0 (program 1, rows 0 … 31)")


def test_values_that_are_not_finite_where_exact_ones_are_not() -> None:
    rng = np.random.default_rng(3)
    tensors = {name: rng.standard_normal((1, 1, 40, 16)).astype(np.float16) for name in "qkv"}
    tensors["v"][0, 0, 11, 2] = np.inf
    tensors["k"][0, 0, 20, 0] = np.nan
    problem = Problem(heads=1, kv_heads=1, seqlen_q=40, seqlen_k=40, head_dim=16, block_m=16, block_n=16)
    inputs = Inputs(problem, tensors)
    o, lse = exact_head(inputs, problem, 0)
    measure = Yardstick(problem, inputs, *(machine.tensor(tensors[name], "cpu") for name in "qkv"))
    rows = verify.Sample(np.arange(1), np.arange(40))
    o16, lse32 = o[None].astype(np.float16), lse[None].astype(np.float32)
    assert np.isinf(o16).any() and np.isnan(o16).any()
    errors = verify.check(problem, o16, lse32, measure, rows, quiet)
    assert errors.first_bad is None
    assert np.isfinite(errors.o_bound)
    o16[0, 10, 2] = np.inf  # row 10 does not see key 11
    first = verify.check(problem, o16, lse32, measure, rows, quiet).first_bad
    assert first is not None and "row 10" in first


def test_the_mirror_differs_from_itself_in_nothing() -> None:
    found = compared(PROBLEM, *mirrored(PROBLEM))
    assert (found.o_differing, found.lse_differing, found.o_max, found.first) == (0, 0, 0, None)
    assert found.all_programs
    assert found.o_compared == 4 * 70 * 24


def test_the_first_element_that_differs_from_the_mirror_is_named() -> None:
    o, lse = mirrored(PROBLEM)
    o[3, 69, 0] = np.nextafter(o[3, 69, 0], np.float16(9))
    o[1, 33, 23] = np.nextafter(o[1, 33, 23], np.float16(9))
    lse[1, 35] += np.float32(0.5)
    found = compared(PROBLEM, o, lse)
    assert (found.o_differing, found.lse_differing) == (2, 1)
    assert found.lse_max == pytest.approx(0.5, abs=1e-4)
    assert 0 < found.o_max < 1e-2
    assert found.first == "row 33 of head 1 (program 5, rows 32 … 63)"
    errors = checked(PROBLEM, *exact(PROBLEM))
    ok, sentence = verify.verdict(PROBLEM, "interpreter", errors, found)
    assert not ok
    assert "not what the mirror shows" in sentence and "row 33" in sentence


def test_the_sign_of_zero_and_any_nan() -> None:
    problem = PROBLEM.change(seqlen_q=90, seqlen_k=70)
    o, lse = mirrored(problem)
    assert o[0, 0, 0] == 0
    o[0, 0, 0] = -0.0
    assert compared(problem, o, lse).o_differing == 1
    assert not verify._differs(np.array([np.nan], np.float32), -np.array([np.nan], np.float32)).any()


def test_a_gpu_may_add_in_another_order_but_not_be_elsewhere() -> None:
    errors = checked(PROBLEM, *exact(PROBLEM))
    o, lse = mirrored(PROBLEM)
    lse += np.float32(1e-5)
    ok, sentence = verify.verdict(PROBLEM, "cuda", errors, compared(PROBLEM, o, lse))
    assert ok
    assert "which adds in another order" in sentence
    o[0, 0, 0] += 0.1
    ok, sentence = verify.verdict(PROBLEM, "cuda", errors, compared(PROBLEM, o, lse))
    assert not ok


def test_comparing_stops_when_time_is_over_and_says_so() -> None:
    o, lse = mirrored(PROBLEM)
    found = compared(PROBLEM, o, lse, seconds=0)
    assert found.programs == 1
    assert not found.all_programs
    errors = checked(PROBLEM, *exact(PROBLEM))
    assert verify.verdict(PROBLEM, "interpreter", errors, found)[1].endswith("as far as compared (1 of 12 programs).")


@given(st.integers(1, 3000))
def test_programs_are_scattered_each_once(count: int) -> None:
    order = list(verify._scattered(count))
    assert sorted(order) == list(range(count))
    first = sorted(order[: max(1, count // 4)])
    assert max(np.diff([0, *first, count])) <= 20 + count // 20


def test_a_sample_of_rows_is_even_and_leaves_tiles_unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    measure, _ = yardstick(PROBLEM)
    assert verify.sample(PROBLEM, measure, 5).rows.tolist() == list(range(70))
    monkeypatch.setattr(verify, "ALL_SCORES", 0)
    few = verify.sample(PROBLEM, measure, 0.0)
    assert few.heads.tolist() == [0] and few.rows.tolist() == [69]
    errors = checked(PROBLEM, *exact(PROBLEM), few)
    assert errors.rows_checked == 1 and not errors.all_rows
    assert np.isfinite(errors.o_tiles).tolist() == [[False, False, True]] + [[False] * 3] * 3
    many = verify.sample(PROBLEM, measure, 1000.0)
    assert len(many.heads) * len(many.rows) == 280
    some = verify.Sample(np.array([0, 3]), np.array([0, 30, 31, 69]))
    errors = checked(PROBLEM, *exact(PROBLEM), some)
    assert np.isfinite(errors.o_tiles[3]).tolist() == [True, False, True]
    assert "8 of 280 rows" in verify.verdict(PROBLEM, "cuda", errors, compared(PROBLEM, *mirrored(PROBLEM)))[1]


def test_eager_attention_that_hits_a_single_number_by_luck_makes_no_kernel_wrong() -> None:
    problem = PROBLEM.change(
        batch=1, heads=1, kv_heads=1, seqlen_q=1, seqlen_k=8, head_dim=1, dtype="bfloat16", causal=False, seed=0
    )
    o, lse = mirrored(problem)
    errors = checked(problem, o, lse)
    assert errors.o_error > 2 * errors.o_error_eager + 1e-5
    assert errors.first_bad is None
    assert checked(problem, (o.astype(np.float32) + 0.01).astype(o.dtype), lse).first_bad is not None


@settings(max_examples=30, deadline=None)
@given(problems(max_seqlen=60, max_head_dim=40))
def test_the_mirror_is_right_over_the_legal_range(problem: Problem) -> None:
    errors = checked(problem, *mirrored(problem))
    assert errors.first_bad is None
    assert errors.rows_checked == problem.num_heads * problem.seqlen_q


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_values_on_the_gpu_are_those_of_numpy(dtype: str) -> None:
    problem = PROBLEM.change(dtype=dtype, seqlen_q=90, seqlen_k=70)
    inputs = Inputs(problem)
    tensors = {name: inputs.stacked(name) for name in "qkv"}
    tensors["v"][1, 0, 30, 3] = np.inf
    tensors["v"][0, 0, 40, 5] = np.nan
    inputs = Inputs(problem, tensors)
    measure = Yardstick(problem, inputs, *(machine.tensor(tensors[name], "cuda") for name in "qkv"))
    for head in range(problem.num_heads):
        o, lse = exact_head(inputs, problem, head)
        (got,) = measure.expect(head, np.arange(90))
        np.testing.assert_allclose(got.o, o, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(got.lse, lse, rtol=1e-12, atol=1e-13)


@pytest.fixture(scope="module")
def where() -> Any:
    return machine.hello()


def ran(problem: Problem, where: Any) -> RunResult:
    return run.run(problem, None, where, quiet)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_kernel_and_mirror_agree_bit_for_bit_in_every_preset(preset: Any, dtype: str, where: Any) -> None:
    result = ran(preset.state.problem.change(dtype=dtype), where)
    assert result.backend == "interpreter"
    assert (result.mirror_o_differing, result.mirror_lse_differing) == (0, 0), result.first_differing
    assert result.compared_programs == -1
    assert result.first_bad is None
    assert result.ok
    assert result.o_error <= 2 * result.o_error_eager + 1e-5
    assert result.lse_error <= 1e-3


@pytest.mark.parametrize("preset", PRESETS[1:], ids=lambda preset: preset.name)
def test_and_with_the_other_mask(preset: Any, where: Any) -> None:
    problem = preset.state.problem
    result = ran(problem.change(causal=not problem.causal, sm_scale=None), where)
    assert result.ok, result.sentence
    assert (result.mirror_o_differing, result.mirror_lse_differing) == (0, 0)


def test_a_kernel_that_is_wrong_is_found(where: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right = run.attend

    def wrong(problem: Problem, q: Any, k: Any, v: Any) -> Any:
        o, lse = right(problem, q, k, v)
        o[1, 1, 50] += 0.01
        return o, lse

    monkeypatch.setattr(run, "attend", wrong)
    result = ran(PROBLEM, where)
    assert not result.ok
    assert result.first_bad is not None and "row 50 of head 3 (program 11, rows 32 … 63)" in result.first_bad
    assert result.mirror_o_differing == PROBLEM.head_dim
    assert RunResult.from_message(result.to_message(), PROBLEM).sentence == result.sentence


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_opening_problem_on_a_gpu(dtype: str, where: Any) -> None:
    result = ran(PRESETS[0].state.problem.change(dtype=dtype), where)
    assert result.backend == "cuda"
    assert result.ok, result.sentence
    assert result.rows_checked == 2048
    assert result.compared_programs == -1
    assert result.mirror_o_max <= 2 * result.o_bound
    assert result.compiled is not None and result.compiled.registers > 0
    assert result.times[0].name == "this kernel" and result.times[0].ms > 0


@pytest.mark.gpu
def test_a_large_problem_on_a_gpu_is_sampled(where: Any) -> None:
    problem = Problem(batch=2, heads=16, kv_heads=16, seqlen_q=65536, seqlen_k=65536, head_dim=128, sm_scale=None)
    result = run.run(problem, None, where, quiet, timing=False)
    assert result.ok, result.sentence
    assert 0 < result.rows_checked < 32 * 65536
    assert 0 < result.compared_programs < 32 * 512


@pytest.mark.parametrize("fields", [{"seqlen_q": 0}, {"batch": 0}, {"seqlen_k": 0}, {"seqlen_k": 0, "causal": False}])
def test_problems_with_nothing_in_them(fields: dict[str, Any], where: Any) -> None:
    problem = PROBLEM.change(**fields)
    result = ran(problem, where)
    assert result.ok, result.sentence
    assert result.lse.shape == (problem.num_heads, problem.seqlen_q)
    assert np.isneginf(result.lse).all()


def test_progress_grows_and_names_the_stages(where: Any) -> None:
    told: list[tuple[str, float]] = []
    run.run(PROBLEM, None, where, lambda stage, fraction: told.append((stage, fraction)))
    assert list(dict.fromkeys(stage for stage, _ in told)) == [
        "drawing inputs",
        "running kernel",
        "exact reference",
        "mirror",
        "timing",
    ]
    fractions = [fraction for _, fraction in told]
    assert fractions == sorted(fractions)
    assert fractions[0] >= 0 and fractions[-1] <= 1
