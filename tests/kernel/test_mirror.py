"""Under Triton's interpreter kernel and mirror agree bit for bit: the proof that the steps shown are those that ran."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from kernel.attention import flash_attn_triton
from kernel.inputs import NUMPY_DTYPES, Inputs
from kernel.mirror import Mirror
from kernel.problem import Problem
from kernel.tiling import Tiling
from tests.strategies import problems

SPECIAL = st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-7, 3e-39, 6e4])


class Spoilt(Inputs):
    """Drawn inputs with some values replaced."""

    def __init__(self, problem, places):
        super().__init__(problem)
        self._file = {name: self.stacked(name).copy() for name in "qkv"}
        for name, at, value in places:
            flat = self._file[name].reshape(-1)
            if flat.size:
                flat[at % flat.size] = value


def kernel(p, inputs):
    """o (num_heads, seqlen_q, head_dim) in the problem's dtype and lse (num_heads, seqlen_q)."""
    q, k, v = (tensor(inputs.stacked(name)) for name in "qkv")
    with threadpool_limits(1, "blas"):
        o, lse = flash_attn_triton(q, k, v, p.causal, p.sm_scale, return_lse=True, block_m=p.block_m, block_n=p.block_n)
    o = o.view(torch.int16).numpy().view(NUMPY_DTYPES[p.dtype]) if p.dtype == "bfloat16" else o.numpy()
    return o.reshape(p.num_heads, p.seqlen_q, p.head_dim), lse.numpy()


def tensor(x):
    x = np.ascontiguousarray(x)
    return (
        torch.from_numpy(x.view(np.int16)).view(torch.bfloat16) if x.dtype.name == "bfloat16" else torch.from_numpy(x)
    )


def mirror(p, inputs, whole_runs):
    tiling = Tiling(p)
    run = Mirror(inputs, tiling)
    o = np.empty((p.num_heads, p.seqlen_q, p.head_dim), np.float32)
    lse = np.empty((p.num_heads, p.seqlen_q), np.float32)
    for head in range(p.num_heads):
        for block in range(tiling.num_q_blocks):
            start, end = tiling.rows(block)
            chip = run.run(head, block) if whole_runs else stepped(run, tiling, head, block)
            assert chip.o is not None and chip.lse is not None
            o[head, start:end] = chip.o[: end - start, : p.head_dim]
            lse[head, start:end] = chip.lse[: end - start]
    return o, lse


def stepped(run, tiling, head, block):
    """The program one named step at a time, as the window shows it."""
    from kernel.mirror import Chip

    chip = run.apply(Chip(), "load_q", head, block)
    for iteration in range(int(tiling.visited[block])):
        for step in tiling.steps_of(block, iteration):
            chip = run.apply(chip, step, head, block, tiling.tile(block, iteration))
    return run.apply(run.apply(chip, "normalise", head, block), "store", head, block)


def assert_same_bits(p, inputs, whole_runs):
    o, lse = kernel(p, inputs)
    with np.errstate(invalid="ignore"):
        mirror_o, mirror_lse = mirror(p, inputs, whole_runs)
    np.testing.assert_array_equal(o.astype(np.float32), mirror_o)
    np.testing.assert_array_equal(lse, mirror_lse)


@given(problems(max_seqlen=100, max_head_dim=72), st.sampled_from([0.1, 0.5, 3.0]), st.booleans())
@example(Problem(head_dim=256, heads=1, kv_heads=1, seqlen_q=40, seqlen_k=70), 0.5, False)
@settings(max_examples=25, deadline=None)
def test_kernel_and_mirror_agree_bit_for_bit(p, std, whole_runs):
    p = p.change(std=std)
    assert_same_bits(p, Inputs(p), whole_runs)


@given(
    problems(max_seqlen=60, max_head_dim=40),
    st.lists(st.tuples(st.sampled_from("qkv"), st.integers(0, 1 << 20), SPECIAL), min_size=1, max_size=4),
    st.booleans(),
)
# an infinity in q, and full tiles enough for two threads: what NumPy would warn of on the second one
@example(Problem(head_dim=7, seqlen_q=9, seqlen_k=48, causal=False, block_m=16, block_n=16), [("q", 0, np.inf)], True)
@settings(max_examples=20, deadline=None)
def test_they_agree_on_nan_infinity_and_subnormal_numbers(p, places, whole_runs):
    assert_same_bits(p, Spoilt(p, places), whole_runs)


@pytest.mark.parametrize("backend", ["triton", "hopper"])
@pytest.mark.parametrize("keys", [1, 200])
def test_large_and_equal_inputs_give_v_in_either_mirror(backend, keys):
    p = Problem(heads=1, kv_heads=1, seqlen_q=1, seqlen_k=keys, dtype="bfloat16", sm_scale=0.125, causal=False)
    p = p.change(backend=backend)
    inputs = Spoilt(p, [])
    for name in "qkv":
        inputs._file[name][:] = 133120
    for whole_runs in (True, False):
        o, lse = mirror(p, inputs, whole_runs)
        assert (o == 133120).all()
        assert np.isfinite(lse).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("causal", [True, False])
def test_they_agree_on_the_opening_problem(dtype, causal):
    p = Problem(dtype=dtype, causal=causal)
    assert_same_bits(p, Inputs(p), True)
