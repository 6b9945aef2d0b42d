import numpy as np
import pytest
from hypothesis import given, settings

from kernel.problem import Problem
from kernel.tiling import FULL_STEPS, PARTIAL_STEPS, Position, Tiling, Traffic
from tests.strategies import hopper_problems, problems


def seen(p: Problem) -> np.ndarray:
    """(seqlen_q, seqlen_k) bool, straight from the definition."""
    rows, cols = np.arange(p.seqlen_q)[:, None], np.arange(p.seqlen_k)[None, :]
    return (cols <= rows + p.seqlen_k - p.seqlen_q) if p.causal else np.ones((p.seqlen_q, p.seqlen_k), bool)


@given(problems())
@settings(max_examples=80, deadline=None)
def test_tiles_are_full_partial_or_skipped_as_the_mask_says(p):
    t, mask = Tiling(p), seen(p)
    for block in range(t.num_q_blocks):
        start, end = t.rows(block)
        for tile in range(t.num_k_blocks):
            first, last = t.cols(tile)
            part = mask[start:end, first:last]
            assert (t.iteration(block, tile) is not None) == part.any()
            if part.any():
                whole = last - first == p.block_n and part.all()
                assert t.is_partial(block, tile) or whole
                # a ragged last block counts its missing rows too, so partial may be said of a whole tile
                if end - start == p.block_m:
                    assert t.is_partial(block, tile) == (not whole)


@given(problems() | hopper_problems())
@settings(max_examples=60, deadline=None)
def test_every_step_has_one_index_and_programs_run_in_launch_order(p):
    t = Tiling(p)
    walked = []
    for head in range(p.num_heads):
        for block in range(t.num_q_blocks):
            assert t.program_start(head, block) == len(walked)
            walked.append(Position(head, block, -1, "load_q"))
            for i in range(int(t.visited[block])):
                assert t.iteration(block, t.tile(block, i)) == i
                assert t.is_partial(block, t.tile(block, i)) == (i in t.masked_iterations(block))
                names = PARTIAL_STEPS if t.is_partial(block, t.tile(block, i)) else FULL_STEPS
                walked += [Position(head, block, i, name) for name in names]
            walked += [Position(head, block, -1, name) for name in ("normalise", "store")]
            assert t.steps_of_program(block) == len(walked) - t.program_start(head, block)
    assert len(t) == len(walked)
    assert [t.locate(i) for i in range(len(t))] == walked
    assert [t.index(position) for position in walked] == list(range(len(walked)))
    assert list(t.bands[:-1]) == [i for i, position in enumerate(walked) if position.step == "load_q"]


@given(problems(max_seqlen=80) | hopper_problems(max_seqlen=200))
@settings(max_examples=40, deadline=None)
def test_traffic_adds_up_step_by_step(p):
    t = Tiling(p)
    read = written = flops = 0
    for i in range(len(t)):
        _, block, iteration, step = t.locate(i)
        rows = t.rows(block)[1] - t.rows(block)[0]
        if iteration >= 0:
            keys = t.cols(t.tile(block, iteration))[1] - t.cols(t.tile(block, iteration))[0]
            read += keys * p.head_dim * p.itemsize * (step in ("load_k", "load_v"))
            flops += 2 * rows * keys * p.head_dim * (step in ("scores", "accumulate"))
        read += rows * p.head_dim * p.itemsize * (step == "load_q")
        written += rows * (p.head_dim * p.itemsize + 4) * (step == "store")
        assert t.traffic(i) == Traffic(read, written, flops)


def test_opening_problem():
    t = Tiling(Problem())
    assert (t.num_q_blocks, t.num_k_blocks, t.num_programs) == (8, 16, 16)
    assert list(t.full) == [0, 2, 4, 6, 8, 10, 12, 14]
    assert list(t.visited) == [2, 4, 6, 8, 10, 12, 14, 16]
    # 56 of 128 tiles are full, 16 partial: (56·9 + 16·10 + 8·3) steps a head
    assert len(t) == 2 * (56 * 9 + 16 * 10 + 8 * 3)
    assert t.naive_traffic() == Traffic(9_175_040, 8_650_752, 536_870_912)


def test_more_queries_than_keys_leaves_blocks_without_tiles():
    t = Tiling(Problem(seqlen_q=300, seqlen_k=77, block_m=64, block_n=64))
    assert list(t.visited) == [0, 0, 0, 1, 2]
    assert t.locate(t.program_start(0, 0) + 1).step == "normalise"


def test_positions_outside_are_refused():
    t = Tiling(Problem())
    for index in (-1, len(t)):
        with pytest.raises(IndexError, match="outside"):
            t.locate(index)
    with pytest.raises(IndexError, match="2 iterations"):
        t.tile(0, 2)


def test_a_long_problem_is_located_without_walking_it():
    t = Tiling(Problem(heads=4, kv_heads=4, seqlen_q=65536, seqlen_k=65536))
    for index in (0, len(t) // 3, len(t) - 1):
        assert t.index(t.locate(index)) == index


@given(hopper_problems())
@settings(max_examples=40)
def test_the_hopper_kernel_goes_from_right_to_left_and_masks_its_first_tile_alone(p):
    t, mask = Tiling(p), seen(p)
    for block in range(t.num_q_blocks):
        start, end = t.rows(block)
        tiles = [t.tile(block, i) for i in range(int(t.visited[block]))]
        assert tiles == list(reversed(range(len(tiles))))
        for i, tile in enumerate(tiles):
            first, last = t.cols(tile)
            if i:
                assert last - first == p.block_n
                assert mask[start:end, first:last].all()
        assert not mask[start:end, len(tiles) * p.block_n :].any()


def test_the_hopper_kernel_prescribes_its_blocks():
    p = Problem(head_dim=128, seqlen_q=4096, seqlen_k=4096).change(backend="hopper")
    assert (p.block_m, p.block_n) == (64, 128)
    assert p.change(head_dim=256).block_n == 64
    assert p.change(block_m=128, block_n=16).block_n == 128
    assert p.change(backend="triton", block_n=32).block_n == 32
