"""What `bench ui` measures is the real thing; the figures themselves belong to no test."""

import re
from pathlib import Path

import numpy as np
from hypothesis import given, settings

from kernel.inputs import Inputs
from kernel.mirror import Mirror
from kernel.problem import Problem
from kernel.tiling import Tiling
from tests.strategies import problems
from visualizer import bench


@given(problems(min_rows=1))
@settings(max_examples=30)
def test_the_plain_loop_computes_what_the_mirror_does(drawn: Problem):
    p = drawn.change(dtype="float16", sm_scale=0.5, seqlen_k=max(drawn.seqlen_k, drawn.seqlen_q))
    inputs, tiling = Inputs(p), Tiling(p)
    block = tiling.num_q_blocks - 1
    start, end = tiling.rows(block)
    chip = Mirror(inputs, tiling).run(0, block)
    o, lse = bench.plain_loop(p, inputs, 0, block)
    np.testing.assert_allclose(o, chip.o[: end - start, : p.head_dim], atol=5e-3)
    np.testing.assert_allclose(lse, chip.lse[: end - start], atol=1e-3)


def test_a_window_is_measured_from_its_start_to_its_end():
    figures = bench._in_own_process(64, 16)
    assert (figures["seqlen"], figures["head_dim"], figures["filled"]) == (64, 16, 1.0)
    for name in ("step_ms", "seek_ms", "seek_filled_ms", "scrub_ms"):
        half, most = figures[name]
        assert 0 < half <= most
    for name in ("seek", "seek_filled", "scrub"):
        place, values = np.array(figures[f"{name}_place_ms"]), np.array(figures[f"{name}_ms"])
        assert (place > 0).all() and (place <= values).all()
    assert figures["first_values_ms"] >= figures["first_frame_ms"]
    assert figures["first_frame_ms"] > figures["step_ms"][0]
    assert figures["memory_mb"] > 50
    assert figures["play_fps"] > 0
    text = bench.table(
        {
            "machine": {"cpu": "test", "cpus": 2, "load": 0.0, "python": "3", "numpy": "2"},
            "windows": [figures],
            "mirror": {"mirror_ms": 30.0, "plain_ms": 20.0, "interpreter_ms": None},
        }
    )
    assert f"{figures['first_frame_ms']:,.0f} ms" in text
    assert "does not run here" in text
    named = {line[:22].strip() for line in text.splitlines()}
    readme = (Path(__file__).parents[2] / "README.md").read_text().partition("| seqlen, head_dim |")[2]
    rows = re.findall(r"^\| ([a-z].*?) \|", readme.partition("\n\n")[0], re.MULTILINE)
    assert len(rows) >= 7
    assert set(rows) <= named  # the README's table uses the command's words
