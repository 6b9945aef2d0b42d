"""The run panel: every state says what it is, whole and without overlap, and the error map leads to its programs."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QToolTip

from kernel.problem import Problem
from kernel.results import Compiled, RunResult, Timing
from kernel.tiling import Tiling
from visualizer import theme
from visualizer.frame import Frame, RunView
from visualizer.panels.error_map import ErrorMap, picture, shrink
from visualizer.panels.run import RunPanel
from visualizer.panels.run_figures import device_forms, figures, milliseconds, sci, spread

NAN = float("nan")
PROBLEM = Problem()
TEST_GPU_TIMES = (
    Timing(name="this kernel", ms=0.0095, low_ms=0.0091, high_ms=0.011, tflops=452.1),
    Timing(name="SDPA cuDNN", ms=0.0083, low_ms=0.0081, high_ms=0.0086, tflops=519.0),
    Timing(name="SDPA FlashAttention", ms=0.0144, low_ms=0.0140, high_ms=0.0150, tflops=298.3),
    Timing(name="original kernel", ms=0.0110, low_ms=0.0107, high_ms=0.0120, tflops=391.0),
    Timing(name="FlexAttention", ms=NAN, low_ms=NAN, high_ms=NAN, tflops=NAN, note="does not take this scale"),
)


def made_up(problem: Problem = PROBLEM, **changes) -> RunResult:
    """A result with plausible numbers that nobody measured."""
    tiling = Tiling(problem)
    shape = (problem.num_heads, tiling.num_q_blocks)
    tiles = np.geomspace(1e-6, 1.6e-4, max(1, shape[0] * shape[1]), dtype=np.float32)[: shape[0] * shape[1]]
    values: dict = {
        "backend": "cuda",
        "device": "NVIDIA H200",
        "versions": {"python": "3.12.3", "torch": "2.11.0", "triton": "3.6.0", "numpy": "2.5.0", "cuda": "12.8"},
        "block_m": problem.block_m,
        "block_n": problem.block_n,
        "ok": True,
        "sentence": "The kernel is right: o within 0.00016 of exact (allowed: 0.00065), on all 2,048 rows.",
        "o_error": 1.6e-4,
        "o_error_eager": 3.2e-4,
        "o_bound": 6.5e-4,
        "lse_error": 4.8e-7,
        "lse_bound": 1e-3,
        "rows_checked": 2048,
        "first_bad": None,
        "lse": np.zeros((problem.num_heads, problem.seqlen_q), np.float32),
        "o_tiles": tiles.reshape(shape),
        "lse_tiles": (tiles / 300).reshape(shape),
        "mirror_o_differing": 1873,
        "mirror_lse_differing": 12,
        "mirror_o_max": 2.4e-4,
        "mirror_lse_max": 9.5e-7,
        "compared_programs": -1,
        "first_differing": "program 3 (head 0, block 2), row 300",
        "times": TEST_GPU_TIMES,
        "compiled": Compiled(registers=186, spill_bytes=0, shared_bytes=230400, num_warps=8, num_stages=3),
    }
    return RunResult(**(values | changes))


INTERPRETED = made_up(
    backend="interpreter",
    device="Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz",
    times=(Timing(name="this kernel", ms=312.4, low_ms=312.4, high_ms=312.4, tflops=0.0008),),
    compiled=None,
    mirror_o_differing=0,
    mirror_lse_differing=0,
    first_differing=None,
)
WRONG = made_up(
    ok=False,
    sentence="The kernel is wrong. O in program 13 (head 1, block 4), row 517: 0.3 from exact (allowed: 0.00065).",
    first_bad="O in program 13 (head 1, block 4), row 517: 0.3 from exact (allowed: 0.00065)",
    o_error=0.3,
    o_tiles=np.where(np.arange(16).reshape(2, 8) == 12, 0.3, 1e-4).astype(np.float32),
)
STATES = {
    "none": RunView(worker="worker ready"),
    "no triton": RunView(worker="triton is not installed, and there is no Triton for Darwin arm64; use --worker."),
    "running": RunView(phase="running", stage="comparing with the exact result", fraction=0.55),
    "starting": RunView(phase="running", stage="starting", fraction=None),
    "failed": RunView(phase="failed", message="The GPU is out of memory: 4 GiB more were asked. Make batch smaller."),
    "cancelled": RunView(phase="cancelled", message="The run was cancelled."),
    "gpu": RunView(phase="done", result=made_up()),
    "interpreter": RunView(phase="done", result=INTERPRETED),
    "wrong": RunView(phase="done", result=WRONG),
    "stale": RunView(phase="done", result=made_up(), stale=True),
    "untimed": RunView(phase="done", result=made_up(times=(), compiled=None)),
}
SIZES = ((900, 600), (430, 235), (400, 206), (440, 480), (640, 900))


@pytest.fixture
def panel(qtbot) -> RunPanel:
    theme.load_fonts()
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    theme.apply(app, theme.DARK)
    panel = RunPanel(theme.DARK)
    qtbot.addWidget(panel)
    panel.resize(430, 235)
    panel.show()
    qtbot.waitExposed(panel)
    return panel


def show(panel: RunPanel, run: RunView, problem: Problem = PROBLEM) -> str:
    """All texts that the panel then shows, one a line."""
    panel.show_frame(Frame(problem=problem, run=run))
    return "\n".join(item.text for item in panel.canvas.sheet.texts)


@pytest.mark.parametrize("zoom", [1, 1.5])
@pytest.mark.parametrize("state", STATES)
def test_nothing_is_cut_or_overlaps(panel, qtbot, state, zoom):
    panel.set_theme(theme.theme("light" if zoom > 1 else "dark", zoom))
    for width, height in SIZES:
        panel.resize(round(width * zoom), round(height * zoom))
        qtbot.wait(1)
        show(panel, STATES[state])
        sheet = panel.canvas.sheet
        assert sheet.texts and sheet.elided == [], (width, height)
        for item in sheet.texts:
            assert panel.canvas.rect().contains(item.rect), (item.text, width, height)
        for one, other in combinations(sheet.texts, 2):
            assert not one.rect.intersects(other.rect), (one.text, other.text, width, height)
        for found in panel.maps:
            assert panel.canvas.rect().contains(found.rect)
            assert not any(found.rect.intersects(item.rect) for item in sheet.texts)


@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        ("none", ""),
        ("running", "running"),
        ("failed", "✗ failed"),
        ("cancelled", "cancelled"),
        ("gpu", "✓ matches reference"),
        ("wrong", "✗ differs from reference"),
        ("stale", "from before the problem changed"),
    ],
)
def test_the_verdict_stands_at_the_top_right(panel, state, verdict):
    show(panel, STATES[state])
    assert panel.caption_label.text() == verdict
    sheet = panel.caption_label.styleSheet()
    assert (theme.DARK.good in sheet) is (state == "gpu") and (theme.DARK.bad in sheet) is (
        state in ("failed", "wrong")
    )


def test_a_kernel_that_only_the_mirror_contradicts_says_so(panel):
    show(panel, RunView(phase="done", result=replace(INTERPRETED, ok=False, mirror_o_differing=3)))
    assert panel.caption_label.text() == "✗ differs from mirror"


def test_before_a_run_it_says_what_a_run_does_and_why_it_cannot(panel):
    panel.resize(440, 480)
    assert "Triton" not in show(panel, STATES["none"]).splitlines()[0]
    text = show(panel, STATES["no triton"]).replace("\n", " ")
    assert "compares O and L of every row" in text and "Triton is not installed" in text


def test_a_run_shows_its_stage_and_how_far_it_is(panel):
    text = show(panel, STATES["running"])
    assert "comparing with the exact result" in text and "55%" in text
    track, done = panel.canvas.sheet.shapes[:2]
    assert done.rect.width() == pytest.approx(0.55 * track.rect.width())


def test_the_bars_are_as_long_as_the_speeds(panel):
    panel.resize(900, 600)
    text = show(panel, STATES["gpu"])
    colors = theme.DARK.color("o").name(), theme.DARK.done
    bars = [s for s in panel.canvas.sheet.shapes if not s.width and not s.image and s.color.name() in colors]
    assert [b.color.name() for b in bars] == [colors[0], *[colors[1]] * 3]
    lengths = np.array([b.rect.width() for b in bars])
    assert lengths / lengths[0] == pytest.approx([1, 519.0 / 452.1, 298.3 / 452.1, 391.0 / 452.1], rel=1e-6)
    for words in ("452", "519", "298", "391", "does not take this scale", "TFLOP/s, median and spread"):
        assert words in text
    whiskers = [s for s in panel.canvas.sheet.shapes if s.width and s.points[0].y() == s.points[1].y()]
    ends = sorted((w.points[0].x(), w.points[1].x()) for w in whiskers)
    assert all(a < b for a, b in ends)


def test_the_interpreter_shows_a_time_but_no_speed(panel):
    panel.resize(440, 480)
    text = show(panel, STATES["interpreter"])
    assert "312 ms, interpreted on CPU: values are real, time is not" in text.replace("\n", " ")
    assert "TFLOP" not in text and "0 elements of o and lse" in text


def test_small_panels_say_what_they_leave_out(panel):
    text = show(panel, STATES["gpu"])
    assert "1 more in a larger panel" in text and "O error by tile" in text and "= 0.50" in text


def test_a_stale_result_is_grey(panel):
    show(panel, STATES["stale"])
    names = {item.color.name() for item in panel.canvas.sheet.texts}
    assert names == {theme.DARK.muted}
    assert theme.DARK.color("o").name() not in {s.color.name() for s in panel.canvas.sheet.shapes}
    image = next(s.image for s in panel.canvas.sheet.shapes if s.image is not None)
    pixel = image.pixelColor(0, 0)
    assert pixel.red() == pixel.green() == pixel.blue()


@pytest.mark.parametrize("size", [(900, 600), (430, 235)])
def test_a_click_in_the_error_map_goes_to_the_first_step_of_that_program(panel, qtbot, size):
    panel.resize(*size)
    show(panel, STATES["wrong"])
    asked: list[dict] = []
    panel.change.connect(asked.append)
    for found in panel.maps:
        qtbot.mouseClick(panel.canvas, Qt.MouseButton.LeftButton, pos=found.cell(1, 4).center())
    qtbot.mouseClick(panel.canvas, Qt.MouseButton.LeftButton, pos=QPoint(1, 1))
    assert asked == [{"step": Tiling(PROBLEM).program_start(1, 4)}] * len(panel.maps) and panel.maps


def test_hovering_the_error_map_says_the_program_and_its_errors(panel):
    show(panel, STATES["wrong"])
    point = panel.maps[0].cell(1, 4).center()
    event = QHelpEvent(QHelpEvent.Type.ToolTip, point, panel.canvas.mapToGlobal(point))
    QApplication.sendEvent(panel.canvas, event)
    assert QToolTip.text().splitlines() == [
        "program 13 · head 1 · rows 512 … 639",
        f"O error 0.30 (bound 6.5e-4) · L error {sci(float(WRONG.lse_tiles[1, 4]))}",
        "Click: go to its first step.",
    ]
    QToolTip.hideText()


def test_the_map_of_another_problem_leads_nowhere(panel, qtbot):
    for run, problem in ((STATES["stale"], PROBLEM), (STATES["gpu"], Problem(seqlen_q=300))):
        show(panel, run, problem)
        asked: list[dict] = []
        panel.change.connect(asked.append)
        qtbot.mouseClick(panel.canvas, Qt.MouseButton.LeftButton, pos=panel.maps[0].cell(0, 1).center())
        assert asked == [] and "Click" not in panel.tip(0, 1)


def test_keys_walk_over_the_error_map(panel, qtbot):
    show(panel, STATES["gpu"])
    asked: list[dict] = []
    panel.change.connect(asked.append)
    panel.activateWindow()
    panel.canvas.setFocus(Qt.FocusReason.TabFocusReason)
    for key in (
        Qt.Key.Key_Right,
        Qt.Key.Key_Right,
        Qt.Key.Key_Down,
        Qt.Key.Key_Down,
        Qt.Key.Key_Left,
        Qt.Key.Key_Return,
    ):
        qtbot.keyClick(panel.canvas, key)
    assert asked == [{"step": Tiling(PROBLEM).program_start(1, 1)}]


def test_what_is_beyond_the_bound_is_framed_too(panel):
    for state, frames in (("gpu", 0), ("wrong", 1)):
        show(panel, STATES[state])
        framed = [s for s in panel.canvas.sheet.shapes if len(s.points) == 5]
        assert len(framed) == frames
        assert all(panel.maps[0].cell(1, 4).contains(shape.points[0].toPoint()) for shape in framed)


def test_the_picture_is_logarithmic_and_marks_what_is_beyond_the_bound_or_unchecked(panel):
    tiles = np.array([[1e-6, 1e-5, 1e-3, 1.1e-3, np.inf, np.nan, 0.0]], np.float32)
    image = picture(tiles, 1e-3, 3, (7, 1), theme.DARK, grey=False)
    colors = [image.pixelColor(x, 0).name() for x in range(7)]
    lut = ["#{:02x}{:02x}{:02x}".format(*rgb) for rgb in theme.DARK.heat_lut()]
    assert colors[0] == lut[0] and abs(lut.index(colors[1]) - 85) <= 1 and lut.index(colors[2]) >= 254
    assert colors[3] == colors[4] == theme.DARK.bad.lower()
    assert colors[5] == theme.DARK.skipped and colors[6] == lut[0]


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 12), st.integers(1, 12))
def test_a_shrunk_map_keeps_the_largest_error_of_every_row_and_column(heads, blocks, rows, cols):
    array = np.random.default_rng(heads * 41 + blocks).random((heads, blocks), np.float32)
    small = shrink(array, rows, cols)
    assert small.shape == (min(rows, heads), min(cols, blocks))
    assert small.max() == array.max() and np.isin(small, array).all()


@given(st.integers(1, 9), st.integers(1, 300), st.integers(4, 400), st.integers(4, 90))
def test_the_map_knows_which_program_is_under_each_point(heads, blocks, width, height):
    found = ErrorMap("O", QRect(7, 3, width, height), heads, blocks)
    for x in range(7, 7 + width, 3):
        for y in range(3, 3 + height, 5):
            cell = found.at(QPoint(x, y))
            assert cell is not None and 0 <= cell[0] < heads and 0 <= cell[1] < blocks
            if width >= blocks and height >= heads:
                assert found.cell(*cell).adjusted(-1, -1, 1, 1).contains(QPoint(x, y))
    assert found.at(QPoint(6, 3)) is None and found.at(QPoint(7 + width, 3)) is None


def test_a_map_of_many_programs_stays_one_small_image(panel):
    problem = Problem(heads=64, kv_heads=64, seqlen_q=65536, seqlen_k=65536, block_m=16)
    tiles = np.full((64, 4096), 1e-5, np.float32)
    tiles[63, 4095] = 1
    result = made_up(Problem(), o_tiles=tiles, lse_tiles=tiles, block_m=16)
    show(panel, RunView(phase="done", result=result), problem)
    image = next(s.image for s in panel.canvas.sheet.shapes if s.image is not None)
    assert image.width() <= panel.maps[0].rect.width() and image.height() <= panel.maps[0].rect.height()
    assert image.pixelColor(image.width() - 1, image.height() - 1).name() == theme.DARK.bad.lower()


@pytest.mark.parametrize("name", ["gpu", "interpreter", "wrong"])
def test_the_strip_of_errors_in_the_window_says_what_its_colours_are(panel, name):
    panel.resize(430, 235)
    show(panel, STATES[name])
    shown = [text.text for text in panel.canvas.sheet.texts]
    assert "bound 6.5e-4" in shown and "over it" in shown
    assert panel.maps[0].rect.height() >= 12


@pytest.mark.parametrize("size", [(278, 64), (278, 90), (430, 235), (900, 600)])
def test_the_invitation_is_a_whole_sentence(panel, size):
    panel.resize(*size)
    show(panel, RunView())
    shown = [text.text for text in panel.canvas.sheet.texts]
    assert shown[0].startswith("Run kernel to check ") and not any("…" in text for text in shown)


def test_an_empty_problem_still_shows_its_run(panel):
    empty = Problem(seqlen_q=0)
    run = RunView(phase="done", result=made_up(empty, times=(), sentence="There are no query rows."))
    panel.show_frame(Frame(problem=empty, run=run, empty="seqlen_q is 0."))
    assert not panel._nothing.isVisible() and panel.maps == [] and panel.canvas.sheet.texts


def test_the_same_run_is_not_laid_out_again(panel, monkeypatch):
    show(panel, STATES["gpu"])
    monkeypatch.setattr(panel.canvas, "refresh", lambda: pytest.fail("laid out again"))
    show(panel, STATES["gpu"])
    with pytest.raises(pytest.fail.Exception):
        show(panel, STATES["wrong"])


def test_the_words_of_the_figures():
    found = {f.name: f for f in figures(made_up())}
    assert found["O error / eager error"].forms[0] == "1.6e-4 / 3.2e-4 = 0.50 · bound 6.5e-4"
    assert found["registers · shared"].forms == ("186 · 225 KiB · no spills",)
    assert not any(f.bad for f in found.values())
    assert WRONG.compiled is not None
    spilled = replace(WRONG.compiled, spill_bytes=96)
    wrong = {f.name: f for f in figures(replace(WRONG, lse_error=NAN, compiled=spilled))}
    bad = {name for name, f in wrong.items() if f.bad}
    assert bad == {"O error / eager error", "L error", "registers · shared"}
    assert wrong["L error"].forms == ("not finite · bound 1.0e-3", "not finite")
    endless = {f.name: f for f in figures(replace(WRONG, o_error=math.inf, mirror_o_max=math.inf))}
    assert endless["O error"].forms[0] == "not finite · bound 6.5e-4" and endless["O error"].bad
    assert "(not all finite)" in endless["differs from mirror"].forms[0]
    assert "96 B spilled" in wrong["registers · shared"].forms[0]
    assert [f.bad for f in figures(replace(INTERPRETED, mirror_o_differing=1)) if "mirror" in f.name] == [True]
    part = figures(replace(INTERPRETED, compared_programs=40))
    assert "0 elements of o and lse in 40 programs" in [f.forms[0] for f in part]


def test_times_and_names_in_short():
    assert [milliseconds(x) for x in (0.0095, 3.2, 312.4, 4200, NAN)] == ["9.50 µs", "3.20 ms", "312 ms", "4.20 s", "?"]
    assert spread(TEST_GPU_TIMES[0]) == pytest.approx((390.45, 471.97), abs=0.01)
    assert device_forms("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz")[1] == "Intel Xeon Platinum 8481C"
    assert device_forms("AMD EPYC 9R14 96-Core Processor")[1] == "AMD EPYC 9R14"
