"""Operations are counted as the custom is; times come from a GPU only, and only for what computes the right thing."""

import sys
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel import machine, measure
from kernel.inputs import Inputs
from kernel.measure import flops, interpreted, tflops, turns
from kernel.problem import Problem
from kernel.results import Compiled

SMALL = Problem(heads=2, kv_heads=2, seqlen_q=300, seqlen_k=300, head_dim=64)


def pairs(problem: Problem) -> int:
    rows, keys = np.arange(problem.seqlen_q)[:, None], np.arange(problem.seqlen_k)[None, :]
    return int(((keys <= rows + problem.offset) | (not problem.causal)).sum())


@pytest.mark.parametrize("names", [list("ab"), list("abcdef")])
def test_no_candidate_always_follows_the_same_one(names: list[str]) -> None:
    rounds = turns(names, 6)
    assert len(rounds) == 6
    assert all(sorted(turn) == names for turn in rounds)
    before = {b: {a for turn in rounds for a, c in pairwise(turn) if c == b} for b in names}
    assert all(len(found) > min(1, len(names) - 2) for found in before.values())
    assert rounds == turns(names, 6)


@given(st.integers(0, 60), st.integers(0, 60), st.booleans(), st.integers(1, 3), st.integers(1, 256))
def test_operations_are_four_for_each_pair_and_number_of_a_row(
    seqlen_q: int, seqlen_k: int, causal: bool, heads: int, head_dim: int
) -> None:
    problem = Problem(
        batch=2,
        heads=heads,
        kv_heads=1,
        seqlen_q=seqlen_q,
        seqlen_k=seqlen_k,
        head_dim=head_dim,
        causal=causal,
    )
    if causal and seqlen_q == seqlen_k:
        assert flops(problem) == 2 * 2 * heads * seqlen_q * seqlen_k * head_dim
    else:
        assert flops(problem) == 4 * 2 * heads * pairs(problem) * head_dim


def test_the_table_of_the_papers() -> None:
    problem = Problem(batch=4, heads=16, kv_heads=16, seqlen_q=4096, seqlen_k=4096, head_dim=128, causal=False)
    assert tflops(problem, 1.0) == pytest.approx(4 * 4 * 16 * 4096**2 * 128 / 1e9)
    assert tflops(problem.change(causal=True), 1.0) == pytest.approx(tflops(problem, 1.0) / 2)
    assert tflops(problem, 0.0) == 0.0


def test_the_interpreters_time_says_what_it_is() -> None:
    (timing,) = interpreted(SMALL, 123.0)
    assert timing.name == measure.OURS
    assert timing.ms == timing.low_ms == timing.high_ms == 123.0
    assert "interpreted" in timing.note


def cuda_tensors(problem: Problem) -> list[Any]:
    inputs = Inputs(problem)
    return [machine.tensor(inputs.stacked(name), "cuda") for name in "qkv"]


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [True, False])
def test_times_of_the_kernel_and_its_peers(causal: bool) -> None:
    from kernel.run import attend

    problem = SMALL.change(causal=causal)
    q, k, v = cuda_tensors(problem)
    stages: list[str] = []
    times = measure.measure(
        problem, q, k, v, lambda: attend(problem, q, k, v)[0], 1e-3, lambda _, stage: stages.append(stage)
    )
    assert times[0].name == measure.OURS
    by_name = {t.name: t for t in times}
    assert set(by_name) == {measure.OURS, "SDPA cuDNN", "SDPA FlashAttention", "eager"}
    for timing in times:
        assert 0 < timing.low_ms <= timing.ms <= timing.high_ms, timing
        assert timing.tflops == pytest.approx(tflops(problem, timing.ms))
    assert set(stages) == {f"timing {name}" for name in by_name}


@pytest.mark.gpu
def test_what_cannot_take_the_problem_or_is_wrong_is_named_and_not_timed() -> None:
    problem = SMALL.change(seqlen_q=100, dtype="float32", kv_heads=1)
    q, k, v = cuda_tensors(problem)
    o = q.new_full(q.shape, 7.0)
    times = measure.measure(problem, q, k, v, lambda: o, 1e-3, lambda *_: None)
    notes = {t.name: t.note for t in times if np.isnan(t.ms)}
    assert notes["SDPA cuDNN"] == notes["SDPA FlashAttention"] == "takes no float32"
    assert notes["eager"].startswith("its result is off by")
    times = measure.measure(
        problem.change(dtype="float16"), q.half(), k.half(), v.half(), lambda: o, 1e-3, lambda *_: None
    )
    assert {t.note for t in times if t.name.startswith("SDPA")} == {"aligns unequal lengths at the top left"}


def form(function: int, registers: int, **constants: int) -> Any:
    """What Triton keeps of a compiled kernel, as far as it is read."""
    names = ["q_ptr", *constants]
    source = SimpleNamespace(
        fn=SimpleNamespace(arg_names=names), constants={(names.index(n),): x for n, x in constants.items()}
    )
    metadata = SimpleNamespace(shared=4096, num_warps=12, num_stages=3)
    return SimpleNamespace(src=source, metadata=metadata, function=function, n_regs=registers, n_spills=2)


def test_the_figures_are_those_of_the_last_forward_that_was_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    import triton

    hooks: Any = triton.knobs.runtime  # pyright: ignore[reportAttributeAccessIssue]
    before = hooks.launch_enter_hook

    def module(*forms: Any) -> Any:
        caches = {0: (dict(enumerate(forms)), None), 1: ({}, None)}
        return SimpleNamespace(attention_forward=SimpleNamespace(device_caches=caches))

    def launch(function: int) -> None:
        hooks.launch_enter_hook(SimpleNamespace(get=lambda: {"function": function}))

    monkeypatch.setitem(sys.modules, "kernel.forward", module(form(1, 100), form(2, 101)))
    monkeypatch.delitem(sys.modules, "kernel.hopper_kernel", raising=False)
    with measure.compiled_forward() as figures:
        assert figures() is None
        launch(7)  # another kernel
        assert figures() is None
        launch(2)
        launch(8)
        made = figures()
        assert made == Compiled(registers=101, spill_bytes=8, shared_bytes=4096, num_warps=12, num_stages=3)
        monkeypatch.setitem(sys.modules, "kernel.hopper_kernel", module(form(3, 168, STAGES=2)))  # at its first call
        launch(3)
        made = figures()
        assert made == Compiled(registers=168, spill_bytes=8, shared_bytes=4096, num_warps=12, num_stages=2)
    assert hooks.launch_enter_hook is before


@pytest.mark.gpu
@pytest.mark.parametrize("backend", ["triton", "hopper"])
def test_what_the_compiler_made_of_it(backend: str) -> None:
    from kernel.run import attend

    q, k, v = cuda_tensors(SMALL)
    if backend == "hopper":
        with measure.compiled_forward() as figures:
            attend(SMALL.change(backend="hopper"), q, k, v)
            made = figures()
        assert made is not None
        assert (made.num_warps, made.num_stages) == (20, 3)  # four consumers of four warps; the producer counts as four
        assert made.shared_bytes > 100_000
        return
    for block_m in (64, 128, 64):
        with measure.compiled_forward() as figures:
            assert figures() is None
            attend(SMALL.change(block_m=block_m), q, k, v)
            made = figures()
        assert made is not None
        assert 16 <= made.registers <= 255
        assert made.spill_bytes >= 0
        # at least the q tile and one of k and v
        assert made.shared_bytes >= 2 * 64 * SMALL.block_n
        assert made.num_warps in (1, 2, 4, 8)
        assert made.num_stages >= 1
