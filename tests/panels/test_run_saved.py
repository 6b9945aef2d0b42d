"""A saved benchmark: read whole, the nearest shape found, and what is none refused in one sentence."""

from __future__ import annotations

import json
import math
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QRect

import assets
from kernel.bench_saved import MAX_BYTES, SavedError, read_saved
from kernel.problem import Problem
from visualizer import theme as themes
from visualizer.frame import Frame, RunView
from visualizer.panels.canvas import Sheet
from visualizer.panels.run import RunPanel
from visualizer.panels.run_figures import measured
from visualizer.panels.run_saved import MORE, OURS, draw_saved
from visualizer.saved import saved_view

H200 = assets.path("benchmarks/h200.json")
DATA = json.loads(Path(H200).read_text(encoding="utf-8"))
BENCH = read_saved(Path(H200))
NAMES = {OURS.get(cell["name"], cell["name"]) for cell in DATA["cells"]}


@given(st.integers(0, len(DATA["cells"]) - 1))
def test_every_cell_is_what_the_file_says(at: int) -> None:
    cell = DATA["cells"][at]
    n = cell["seqlen"]
    problem = Problem(seqlen_q=n, seqlen_k=n, head_dim=cell["head_dim"], causal=cell["causal"], dtype="float16")
    view = saved_view(BENCH, problem)
    times = view.times if cell["direction"] == "forward" else view.backward
    timing = times[[t.name for t in times].index(cell["name"])]
    assert view.is_same and view.gpu == "NVIDIA H200" and f"batch {cell['batch']}, heads {cell['heads']}" in view.shape
    assert (timing.ms == cell["ms"]) if cell["ms"] else math.isnan(timing.ms)


def test_ratios_are_against_cudnn_and_the_nearest_shape_says_that_it_is_not_the_same() -> None:
    view = saved_view(BENCH, Problem(seqlen_q=3000, seqlen_k=3000, head_dim=100, causal=True, dtype="float16"))
    assert not view.is_same and view.shape.startswith(
        "head_dim 128, causal, seqlen 4,096"
    )  # as ratios, nearer than 2,048
    by_name = dict(zip([t.name for t in view.times], view.ratios, strict=True))
    times = {t.name: t.ms for t in view.times}
    assert by_name["SDPA cuDNN"] == 1.0
    assert by_name["hopper"] == pytest.approx(times["SDPA cuDNN"] / times["hopper"])


@pytest.mark.parametrize(("raw", "shown"), [("91900", "9.19.0"), ("8902", "8.9.2"), ("9.1", "9.1"), ("?", "?")])
def test_what_the_machine_says_is_written_for_people(raw: str, shown: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    machine = DATA["machine"] | {"versions": {"torch": "2.11.0", "cudnn": raw}}
    card = [{"clocks.sm": "1785", "power.draw": "683.14", "temperature.gpu": "[N/A]"}]
    path.write_text(json.dumps(DATA | {"machine": machine, "card": card}))
    bench = read_saved(path)
    assert bench.versions == ("torch 2.11.0", f"cuDNN {shown}")
    assert bench.card == "1,785 MHz · 683 W · [N/A] °C"


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "not valid JSON"),
        (Path(H200).read_bytes()[:5000], "cut off"),
        (b"[" * 100_000, "not valid JSON"),
        (b"\xff\xfe\x00", "not valid JSON"),
        (b"[]", "not a saved kernel benchmark"),
        (b'{"flashscope": 1}', "not a saved kernel benchmark"),
        (json.dumps(DATA | {"format": 2}).encode(), "update FlashScope"),
        (json.dumps({k: v for k, v in DATA.items() if k != "machine"}).encode(), "lacks 'machine'"),
        (json.dumps(DATA | {"cells": []}).encode(), "no forward time"),
        (json.dumps(DATA | {"cells": [1]}).encode(), "cannot be shown"),
        (json.dumps(DATA | {"cells": [DATA["cells"][0] | {"ms": -1}]}).encode(), '"ms" is -1'),
        (json.dumps(DATA | {"cells": [DATA["cells"][0] | {"ms": math.nan}]}).encode(), '"ms" is nan'),
        (json.dumps(DATA | {"cells": [DATA["cells"][0]] * 50}).encode(), "candidates"),
        (b" " * (MAX_BYTES + 1), "larger than 8 MiB"),
    ],
)
def test_what_is_no_benchmark_is_refused_in_one_sentence(raw: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(raw)
    with pytest.raises(SavedError) as refused:
        read_saved(path)
    text = str(refused.value)
    assert says in text and text.startswith("odd.json") and "\n" not in text and len(text) < 250


def test_a_file_that_is_not_there_or_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(SavedError, match="cannot be opened"):
            read_saved(path)


@pytest.mark.parametrize(("height", "backward"), [(205, False), (340, True)])
def test_backward_times_are_shown_or_said_to_be_there(qtbot, height: int, backward: bool) -> None:
    themes.load_fonts()
    problem = Problem(seqlen_q=4096, seqlen_k=4096, head_dim=128, causal=True, dtype="float16")
    sheet = Sheet()
    draw_saved(sheet, QRect(0, 0, 400, height), saved_view(BENCH, problem), themes.DARK)
    shown = [text.text for text in sheet.texts]
    assert ("backward" in shown, MORE in shown) == (backward, not backward)


@pytest.mark.parametrize("look", ["dark", "light"])
@pytest.mark.parametrize(("size", "zoom"), [((430, 235), 1), ((440, 480), 1), ((900, 600), 1), ((900, 600), 1.5)])
@pytest.mark.parametrize("length", [4096, 3000])
def test_the_panel_says_whose_the_times_are_and_nothing_overlaps(qtbot, look, size, zoom, length) -> None:
    themes.load_fonts()
    panel = RunPanel(themes.theme(look, zoom))
    qtbot.addWidget(panel)
    panel.resize(*size)
    panel.show()
    problem = Problem(seqlen_q=length, seqlen_k=length, head_dim=128, causal=True, dtype="float16")
    view = saved_view(BENCH, problem)
    panel.show_frame(Frame(problem=problem, run=RunView(saved=view)))
    texts = panel.canvas.sheet.texts
    shown = [t.text for t in texts]
    assert panel.caption_label.text() == "saved measurement"
    assert f"{BENCH.gpu}, {BENCH.date}: from a file, not a run made here" in shown
    assert panel.close_button.isVisible() and ("nearest to yours" in " ".join(shown)) is not view.is_same
    groups = [view.times, view.backward] if size[1] > 235 else [view.times]
    assert [text for text in shown if text in ("forward", "backward")] == ["forward", "backward"][: len(groups)]
    assert MORE not in shown or len(groups) == 1
    speeds = [[t for t in group if measured(t)] for group in groups]
    assert [text for text in shown if text in NAMES] == [OURS.get(t.name, t.name) for group in speeds for t in group]
    bars = [shape for shape in panel.canvas.sheet.shapes if not shape.width]
    assert len(bars) == sum(map(len, speeds))
    for group in speeds:
        widths = [bars.pop(0).rect.width() / t.tflops for t in group]
        assert widths == pytest.approx([widths[0]] * len(widths), rel=1e-3)
    assert shown.count("1.00") == len(groups), "cuDNN is as fast as itself"
    assert shown.count("TFLOP/s") == shown.count("× cuDNN") == len(groups)
    for one, other in combinations(texts, 2):
        assert not one.rect.intersects(other.rect), (one.text, other.text)
    assert all(t.text == t.whole for t in texts)
    assert all(panel.canvas.rect().contains(t.rect) for t in texts)
