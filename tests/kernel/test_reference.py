import math

import numpy as np
from hypothesis import given, settings

from kernel.inputs import Inputs
from kernel.mirror import Mirror
from kernel.problem import Problem
from kernel.reference import exact, exact_head
from kernel.tiling import Tiling
from tests.strategies import hopper_problems, problems


def test_by_hand():
    q, k = np.array([[1.0, 0.0]]), np.array([[2.0, 5.0], [4.0, 7.0]])
    v = np.array([[1.0], [3.0]])
    o, lse = exact(q, k, v, 0.5, np.array([[True, True]]))
    a, b = math.exp(1.0), math.exp(2.0)
    np.testing.assert_allclose(o, [[(a * 1 + b * 3) / (a + b)]])
    np.testing.assert_allclose(lse, [math.log2(a + b)])
    o, lse = exact(q, k, v, 0.5, np.array([[True, False]]))
    np.testing.assert_allclose(o, [[1.0]])
    np.testing.assert_allclose(lse, [1.0 / math.log(2)])


def test_not_finite_values_reach_only_the_rows_that_see_them():
    q, k = np.zeros((3, 1)), np.zeros((3, 1))
    v = np.array([[1.0], [np.inf], [np.nan]])
    o, lse = exact(q, k, v, 1.0, np.tril(np.ones((3, 3), bool)))
    assert o[0] == 1.0
    assert o[1] == np.inf
    assert np.isnan(o[2])
    np.testing.assert_allclose(lse, np.log2([1, 2, 3]))


@given(problems(max_seqlen=100) | hopper_problems())
@settings(max_examples=40, deadline=None)
def test_the_mirror_stays_near_the_exact_values(p: Problem):
    inputs, tiling = Inputs(p), Tiling(p)
    mirror = Mirror(inputs, tiling)
    # p and o are rounded to the dtype; the sums of |v| up to 4 bound what that can do
    eps = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-20}[p.dtype]
    for head in range(p.num_heads):
        o, lse = exact_head(inputs, p, head)
        for block in range(tiling.num_q_blocks):
            start, end = tiling.rows(block)
            chip = mirror.run(head, block)
            assert chip.o is not None
            assert chip.lse is not None
            np.testing.assert_allclose(chip.o[: end - start, : p.head_dim], o[start:end], atol=8 * eps, rtol=0)
            # float32 scores of size 30 are good to 2e-6 each
            np.testing.assert_allclose(chip.lse[: end - start], lse[start:end], atol=1e-4, rtol=1e-5)


def test_rows_that_see_no_key_are_zero_and_minus_infinity():
    p = Problem(seqlen_q=30, seqlen_k=10, heads=1, kv_heads=1)
    o, lse = exact_head(Inputs(p), p, 0)
    assert (o[:20] == 0).all()
    assert (lse[:20] == -np.inf).all()
    assert np.isfinite(lse[20:]).all()
