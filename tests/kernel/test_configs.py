"""The table fits every common GPU, the arithmetic of shared memory is Triton's own, and the rest is refused."""

import json
import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.configs import (
    BLOCKS,
    HOPPER_TILES,
    INTERPRETER,
    SHARED_LIMITS,
    SHORT,
    Config,
    Gpu,
    backward,
    backward_bytes,
    forward,
    shared_bytes,
    shared_limit,
    tiled,
)
from kernel.problem import DTYPES

COMMON = {(7, 5): 64 * 1024, (8, 0): 163 * 1024, (8, 6): 99 * 1024, (8, 9): 99 * 1024, (9, 0): 227 * 1024}
HEAD_DIMS = (1, 16, 17, 32, 63, 64, 96, 128, 129, 192, 256)


def gpus():
    return [Gpu(f"sm_{major}{minor}", (major, minor)) for major, minor in SHARED_LIMITS]


def test_limits_of_common_gpus():
    assert {capability: SHARED_LIMITS[capability] for capability in COMMON} == COMMON


@pytest.mark.parametrize("gpu", gpus(), ids=lambda gpu: gpu.name)
def test_the_table_fits(gpu):
    for head_dim, dtype, causal, tf32 in product(HEAD_DIMS, DTYPES, (False, True), (False, True)):
        if dtype == "bfloat16" and gpu.capability < (8, 0):
            continue
        config = forward(gpu, head_dim, dtype, causal, tf32)
        assert shared_bytes(gpu, head_dim, dtype, config, tf32) <= shared_limit(gpu)
        assert config.block_m in BLOCKS and config.block_n in BLOCKS
        for need in backward_bytes(gpu, head_dim, dtype, backward(gpu, head_dim, dtype, causal)):
            assert 0 < need <= shared_limit(gpu)


def test_no_stage_of_the_table_is_lost_to_a_limit():
    """`forward` takes stages away until the blocks fit; for the table's own blocks it should not have to."""
    for gpu, head_dim in product(gpus(), HEAD_DIMS):
        config = forward(gpu, head_dim, "float16", False)
        assert config.num_stages == forward(Gpu("much room", gpu.capability), head_dim, "float16", False).num_stages
        assert forward(gpu, head_dim, "float16", False, num_stages=config.num_stages) == config


COMPILED = [
    ((9, 0), "forward", 64, "float16", True),
    ((9, 0), "forward", 128, "bfloat16", False),
    ((8, 9), "forward", 128, "float16", True),
    ((8, 6), "forward", 256, "bfloat16", False),
    ((8, 0), "forward", 64, "float32", False),
    ((7, 5), "forward", 64, "float16", False),
    ((9, 0), "backward", 64, "float16", True),
    ((8, 6), "backward", 128, "float16", False),
    ((7, 5), "backward", 256, "float32", False),
    ((9, 0), "tiled", 64, "float16", False),
    ((9, 0), "tiled", 128, "bfloat16", True),
    ((9, 0), "tiled", 256, "float16", True),
]
# programs that should share a multiprocessor, which has 228 KiB and takes 1 KiB of them for each
TOGETHER = {64: 3, 128: 2, 256: 1}
COMPILE = Path(__file__).with_name("compile_kernel.py")


def test_the_arithmetic_is_tritons():
    """Compiles for GPUs that are not there, in a process in which Triton compiles."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    root = Path(__file__).parents[2]
    command = [sys.executable, str(COMPILE), json.dumps(COMPILED)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment | {"PYTHONPATH": str(root)})
    assert ran.returncode == 0, ran.stderr
    for (capability, which, head_dim, dtype, causal), found in zip(COMPILED, json.loads(ran.stdout), strict=True):
        gpu = Gpu("", capability)
        if which == "forward":
            config = forward(gpu, head_dim, dtype, causal)
            slack = 4 * config.block_m if dtype == "float32" else 0
            assert 0 <= shared_bytes(gpu, head_dim, dtype, config) - found[0] <= slack, (capability, head_dim, found)
        elif which == "tiled":
            assert max(found) <= 228 * 1024 // TOGETHER[head_dim] - 1024, (head_dim, found)
        else:
            need = backward_bytes(gpu, head_dim, dtype, backward(gpu, head_dim, dtype, causal))
            for bound, used in zip(need, found, strict=True):
                assert 0.75 * bound <= used <= bound, (capability, head_dim, need, found)


def test_descriptors_are_for_hopper_and_what_nobody_chose_otherwise():
    hopper = Gpu("NVIDIA H200", (9, 0))
    assert tiled(hopper, 64, "float16", 4096) == HOPPER_TILES[64][0]
    assert tiled(hopper, 64, "bfloat16", SHORT) == HOPPER_TILES[64][-1]
    assert tiled(hopper, 80, "float16", 4096) == tiled(hopper, 128, "float16", 1) == HOPPER_TILES[128][0]
    assert tiled(hopper, 64, "float16", 4096, block_m=128, block_n=64) == HOPPER_TILES[64][1]
    for head_dim, dtype, asked in ((32, "float16", {}), (64, "float32", {}), (64, "float16", {"block_m": 32})):
        assert tiled(hopper, head_dim, dtype, 4096, **asked) is None
    assert tiled(Gpu("NVIDIA A100", (8, 0)), 64, "float16", 4096) is None
    assert tiled(INTERPRETER, 64, "float16", 4096) is None
    for known in HOPPER_TILES.values():
        for config in known:  # Hopper's instructions take 64 rows
            assert config.block_m // config.parts >= 64 and config.num_warps % 4 == 0


def test_bfloat16_before_ampere_is_refused():
    for choose in (forward, backward):
        with pytest.raises(ValueError, match=r"Tesla T4 has no bfloat16.*float16 or float32\.$"):
            choose(Gpu("Tesla T4", (7, 5)), 64, "bfloat16", True)
        choose(Gpu("Tesla T4", (7, 5)), 64, "float16", True)


def test_blocks_too_large_are_refused_with_the_largest_that_fit():
    gpu = Gpu("NVIDIA GeForce RTX 4090", (8, 9))
    with pytest.raises(ValueError) as caught:
        forward(gpu, 256, "float16", True, block_m=128, block_n=128)
    sentence = str(caught.value)
    assert "128 x 128" in sentence
    assert "RTX 4090 has 101,376" in sentence
    assert f"{256 * 128 * 2 + 256 * 128 * 2 + 128 * 128 * 2:,} bytes" in sentence
    largest = re.search(r"largest blocks that fit are (\d+) x (\d+)\.$", sentence)
    assert largest is not None
    m, n = map(int, largest.groups())
    assert forward(gpu, 256, "float16", True, block_m=m, block_n=n).block_m == m
    for bigger in ((2 * m, n), (m, 2 * n)):
        with pytest.raises(ValueError):
            forward(gpu, 256, "float16", True, block_m=bigger[0], block_n=bigger[1])


@given(
    st.sampled_from(gpus()),
    st.integers(1, 256),
    st.sampled_from(["float16", "float32"]),
    st.sampled_from(BLOCKS),
    st.sampled_from(BLOCKS),
    st.integers(0, 4),
)
def test_what_is_asked_for_is_kept_or_refused(gpu, head_dim, dtype, block_m, block_n, num_stages):
    asked = {"block_m": block_m, "block_n": block_n, "num_stages": num_stages}
    stages = num_stages or 1
    # the least that these blocks can need: the fewest stages, and q's tile on the tensor cores or not as warps decide
    needs = [shared_bytes(gpu, head_dim, dtype, Config(block_m, block_n, warps, stages)) for warps in (4, 8)]
    if min(needs) > shared_limit(gpu):
        with pytest.raises(ValueError, match="bytes of shared memory"):
            forward(gpu, head_dim, dtype, True, **asked)
    elif max(needs) <= shared_limit(gpu):
        config = forward(gpu, head_dim, dtype, True, **asked)
        assert (config.block_m, config.block_n) == (block_m, block_n)
        assert num_stages in (0, config.num_stages)
        assert shared_bytes(gpu, head_dim, dtype, config) <= shared_limit(gpu)


@pytest.mark.parametrize(
    "asked", [{"block_m": 100}, {"block_n": 8}, {"block_m": 512}, {"num_warps": 3}, {"num_stages": 9}]
)
def test_numbers_that_cannot_be_are_refused(asked):
    ((name, value),) = asked.items()
    with pytest.raises(ValueError, match=rf"^{name} is {value}; it must be .*\.$"):
        forward(Gpu("", (9, 0)), 64, "float16", True, **asked)


def test_the_interpreter_takes_any_blocks():
    config = forward(INTERPRETER, 256, "float32", False, block_m=256, block_n=256)
    assert (config.block_m, config.block_n) == (256, 256)


def test_an_unknown_gpu_gets_what_fits_the_smallest():
    gpu = Gpu("tomorrow's", (13, 0))
    assert shared_bytes(gpu, 256, "float16", forward(gpu, 256, "float16", True)) <= 99 * 1024
