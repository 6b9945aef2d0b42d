"""The kernel benchmark: its grid, its references, what it says and saves; timing needs a GPU."""

import json
import math
import xml.etree.ElementTree as ElementTree
from itertools import chain, groupby

import pytest
import torch

from kernel import bench, bench_report
from kernel.bench_plot import COLOURS, svg
from kernel.measure import turns


def cell(name, ms, direction="forward", head_dim=64, causal=False, seqlen=1024, note=""):
    shape = bench.Shape(direction, head_dim, causal, seqlen)
    tflops = shape.flops / ms / 1e9 if ms else None
    return {
        "direction": direction, "head_dim": head_dim, "causal": causal, "seqlen": seqlen, "batch": shape.batch,
        "heads": shape.heads, "name": name, "ms": ms, "tflops": tflops, "note": note,
    }  # fmt: skip


@pytest.fixture
def result():
    cells = [
        cell("hopper", 1.0),
        cell("SDPA cuDNN", 2.0),
        cell("hopper", 1.0, seqlen=4096),
        cell("SDPA cuDNN", 0.5, seqlen=4096),
        cell("original", None, note="needs its file"),
        cell("hopper", 2.0, "backward"),
        cell("SDPA cuDNN", 3.0, "backward"),
    ]
    machine = {"gpu": "A <GPU> & more", "date": "2026-11-30 20:00:00 UTC", "versions": {"torch": "2.11.0"}}
    return {"kind": bench_report.KIND, "format": bench_report.FORMAT, "machine": machine, "cells": cells}


def test_grid():
    shapes = bench.grid(quick=False)
    ahead = [s for s in shapes if s.direction == "forward"]
    assert (len(ahead), len(shapes)) == (36, 56)
    assert len(set(shapes)) == len(shapes)
    for s in shapes:
        assert s.batch * s.seqlen == 16384
        assert s.heads * s.head_dim == 2048
    assert {s.seqlen for s in bench.grid(quick=True)} == {1024, 4096}


def test_flops():
    full = bench.Shape("forward", 64, False, 1024)
    assert full.flops == 4 * 16 * 32 * 1024 * 1024 * 64
    assert bench.Shape("forward", 64, True, 1024).flops == full.flops / 2
    assert bench.Shape("backward", 64, False, 1024).flops == full.flops * 2.5


@pytest.mark.parametrize("causal", [False, True])
def test_reference_agrees_with_autograd(causal):
    torch.manual_seed(0)
    q, k, v, do = (torch.randn(50, 24, dtype=torch.float64, requires_grad=True) for _ in range(4))
    want = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0]
    lse, o = bench.attention((q, k, v, do), causal, False)
    assert torch.allclose(o, want)
    if not causal:
        assert torch.allclose(lse, torch.logsumexp(q @ k.T / math.sqrt(24), 1))
    gradients = torch.autograd.grad(want, (q, k, v), do)
    for got, exact in zip(bench.attention((q, k, v, do), causal, True)[1:], gradients, strict=True):
        assert torch.allclose(got, exact)


def test_a_wrong_result_is_not_timed():
    shape = bench.Shape("forward", 64, True, 16384)
    small = [torch.randn(1, 32, 128, 64, dtype=torch.float16) for _ in range(4)]
    check = bench._Check(shape, *small)
    rights = [bench.attention([x[0, h].double() for x in small], True, False) for h in range(32)]
    o, lse = torch.stack([r[1] for r in rights])[None].half(), torch.stack([r[0] for r in rights]) * math.log2(math.e)
    error, bound, note = check(lambda: (o, lse))
    assert note == ""
    assert error is not None and 0 < error <= bound
    wrong = o.clone()
    wrong[0, 31, 70, 5] += 0.1
    assert check(lambda: (wrong, lse))[2].startswith("wrong: off by 1.0e-01")
    assert check(lambda: (o, lse + 0.01))[2].startswith("wrong")
    assert check(lambda: (o * math.nan, lse))[2].startswith("wrong")
    assert check(lambda: 1 / 0)[2].startswith("ZeroDivisionError")


def test_summary_and_table(result):
    found = bench_report.summary(result)
    assert found["forward: hopper against SDPA cuDNN"] == {"mean": 1.0, "least": 0.5, "shapes": 2}
    assert found["backward: hopper against SDPA cuDNN"] == {"mean": 1.5, "least": 1.5, "shapes": 1}
    text = bench_report.table(result)
    assert "original: needs its file" in text
    row = next(line for line in text.splitlines() if "full" in line and line.split()[2] == "1024")
    assert row.split() == ["64", "full", "1024", "137", "69", "-"]


def test_plot_is_well_formed_and_shows_every_candidate(result):
    root = ElementTree.fromstring(svg(result))
    drawn = [line.get("stroke") for line in root.iter("{http://www.w3.org/2000/svg}polyline")]
    assert sorted(drawn) == sorted([COLOURS["hopper"], COLOURS["SDPA cuDNN"]] * 2)
    assert any("A <GPU> & more" in (text.text or "") for text in root.iter("{http://www.w3.org/2000/svg}text"))


def test_saved_results_are_read_back_or_refused(result, tmp_path):
    path = tmp_path / "saved.json"
    path.write_text(json.dumps(result))
    assert bench_report.read(path) == result
    for text, why in (("{", "no JSON"), ("[1]", "no saved kernel benchmark"), ('{"kind": "x"}', '"kind" is not')):
        path.write_text(text)
        with pytest.raises(ValueError, match=why):
            bench_report.read(path)
    path.write_text(json.dumps(result | {"format": 99}))
    with pytest.raises(ValueError, match="format 99"):
        bench_report.read(path)


def test_card_state_without_nvidia_smi(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bench.card_state("now") == {"when": "now"}
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 580.1, 1980, 3201, 350.5, 700.0, 41\n")
    tool.chmod(0o755)
    state = bench.card_state("now")
    assert (state["clocks.sm"], state["power.draw"], state["temperature.gpu"]) == ("1980", "350.5", "41")


def test_no_gpu_is_said_in_one_sentence(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="needs a CUDA GPU"):
        bench.run()


@pytest.mark.gpu
def test_every_candidate_is_timed_in_every_round():
    called = []
    times = bench.interleave({name: lambda name=name: called.append(name) for name in "ab"})
    assert {name: len(rounds) for name, rounds in times.items()} == {"a": bench.ROUNDS, "b": bench.ROUNDS}
    assert [name for name, _ in groupby(called)] == [
        name for name, _ in groupby(chain.from_iterable(turns(["a", "b"], bench.ROUNDS)))
    ]
