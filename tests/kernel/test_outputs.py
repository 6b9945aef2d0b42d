"""Somebody's own outputs are graded as the kernel's own are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel import outputs
from kernel.inputs import Inputs
from kernel.machine import tensor
from kernel.outputs import NumpyYardstick, grade
from kernel.problem import Problem
from kernel.reference import exact_head
from kernel.yardstick import Yardstick

PROBLEMS = st.builds(
    Problem,
    batch=st.integers(1, 2), heads=st.just(2), kv_heads=st.sampled_from((1, 2)), seqlen_q=st.integers(1, 40),
    seqlen_k=st.integers(0, 40), head_dim=st.sampled_from((1, 16, 20)), causal=st.booleans(),
    dtype=st.sampled_from(("float16", "bfloat16", "float32")), sm_scale=st.sampled_from((None, -0.5, 0.0, 0.5)),
    block_m=st.sampled_from((16, 32)), block_n=st.just(16),
)  # fmt: skip


def exact(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    heads = [exact_head(Inputs(problem), problem, head) for head in range(problem.num_heads)]
    return np.stack([o for o, _ in heads]).astype(np.float32), np.stack([lse for _, lse in heads]).astype(np.float32)


@settings(max_examples=40)
@given(PROBLEMS)
def test_the_yardstick_is_the_kernels_own(problem: Problem) -> None:
    inputs = Inputs(problem)
    q, k, v = (tensor(inputs.stacked(name), "cpu") for name in "qkv")
    rows = np.arange(problem.seqlen_q)
    for head in range(problem.num_heads):
        ours = list(NumpyYardstick(problem, inputs).expect(head, rows))
        theirs = list(Yardstick(problem, inputs, q, k, v).expect(head, rows))
        for a, b in zip(ours, theirs, strict=True):
            for x, y in zip(a[:3], b[:3], strict=True):
                np.testing.assert_array_equal(x, y)
            # eager attention in two libraries: each rounds on its own
            step = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5}[problem.dtype]
            np.testing.assert_allclose(a[3], b[3], atol=step)
            np.testing.assert_allclose(a[4], b[4], atol=4 * step)


@settings(max_examples=40)
@given(PROBLEMS)
def test_exact_outputs_are_right(problem: Problem) -> None:
    o, lse = exact(problem)
    result = grade(problem, Inputs(problem), o, lse)
    assert result.ok, result.sentence
    assert result.backend == "own"
    assert result.rows_checked == problem.num_heads * problem.seqlen_q
    assert result.o_error < 1e-6
    assert result.times == ()
    assert not result.timed_on_gpu


@settings(max_examples=40)
@given(PROBLEMS.filter(lambda p: p.seqlen_k > 0), st.data())
def test_a_wrong_row_is_found_where_it_is(problem: Problem, data: st.DataObject) -> None:
    o, lse = exact(problem)
    head = data.draw(st.integers(0, problem.num_heads - 1))
    row = data.draw(st.integers(0, problem.seqlen_q - 1))
    wrong = data.draw(st.sampled_from((0.5, np.inf, np.nan)))
    if data.draw(st.booleans()):
        o[head, row, 0] += wrong
        tiles, other = "o_tiles", "lse_tiles"
    else:
        lse[head, row] = wrong if not np.isfinite(lse[head, row]) else lse[head, row] + wrong
        tiles, other = "lse_tiles", "o_tiles"
    result = grade(problem, Inputs(problem), o, lse)
    assert not result.ok
    assert f"head {head}" in result.sentence
    assert f"row {row}" in result.sentence
    errors = getattr(result, tiles)
    assert (head, row // problem.block_m) == np.unravel_index(np.argmax(errors), errors.shape)
    assert getattr(result, other).max() < 1e-5


def test_long_sequences_are_sampled_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "ALL_SCORES", 4000)
    monkeypatch.setattr(outputs, "MIRROR_SCORES", 4000)
    problem = Problem(heads=1, kv_heads=1, seqlen_q=96, seqlen_k=96, head_dim=16, block_m=16, block_n=16)
    o, lse = exact(problem)
    first, second = (grade(problem, Inputs(problem), o, lse) for _ in range(2))
    assert first.rows_checked == second.rows_checked == 4000 // 160
    assert first.compared_programs == second.compared_programs == 1
    assert first.ok


def test_no_rows_are_right() -> None:
    problem = Problem(seqlen_q=0)
    assert grade(problem, Inputs(problem), np.zeros((2, 0, 64), np.float16), np.zeros((2, 0), np.float32)).ok
