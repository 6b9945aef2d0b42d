"""The lse panel: three series told apart, texts that never overlap, clicks that go to a row's program, 65,536 rows."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from kernel.problem import Problem
from kernel.results import RunResult
from visualizer import theme
from visualizer.frame import Frame, RunView
from visualizer.panels.chart import Axes, outline
from visualizer.panels.lse import LsePanel
from visualizer.panels.lse_curves import differences
from visualizer.panels.lse_texts import figures, readout
from visualizer.presets import PRESETS
from visualizer.resolve import resolve
from visualizer.state import State
from visualizer.tape import Tape

OPENING = PRESETS[0].state.problem
BLIND = next(p.state.problem for p in PRESETS if "no key" in p.name)
SMALL = Problem(heads=2, kv_heads=1, seqlen_q=100, seqlen_k=120, block_m=32, block_n=16, head_dim=16)


@pytest.fixture(autouse=True)
def fonts(qapp: QApplication) -> None:
    theme.load_fonts()
    theme.apply(qapp, theme.theme("dark"))


def filled(problem: Problem) -> Tape:
    tape = Tape(problem)
    while tape.fill(1):
        pass
    return tape


def ran(lse: np.ndarray) -> RunView:
    """A finished run whose L is `lse`; everything else in the result is left empty."""
    empty: dict[str, Any] = {f.name: None for f in fields(RunResult)}
    return RunView(phase="done", result=RunResult(**(empty | {"lse": lse, "times": (), "backend": "interpreter"})))


def shown(qtbot: QtBot, frame: Frame, size=(430, 235), look=("dark", 1.0)) -> tuple[Any, list[dict]]:
    panel = LsePanel(theme.theme(*look))
    qtbot.addWidget(panel)
    panel.resize(*size)
    panel.show()
    panel.show_frame(frame)
    QApplication.processEvents()
    changes: list[dict] = []
    panel.change.connect(changes.append)
    return panel, changes


def half_way(tape: Tape, run: RunView | None = None, **options) -> Any:
    index = tape.tiling.program_start(0, tape.tiling.num_q_blocks // 2)
    return resolve(State(problem=tape.problem, step=index, row=3, **options), tape, run or RunView())


def words(panel: Any) -> list[str]:
    return [label.text for label in (*panel.canvas.legend, *panel.canvas.figures)]


def test_before_a_run_the_mirror_is_compared(qtbot):
    tape = filled(SMALL)
    frame = half_way(tape)
    panel, _ = shown(qtbot, frame)
    assert frame.lse is not None and frame.lse.max_mirror_exact is not None
    assert "max |mirror − exact|" in words(panel)
    assert "not run" in words(panel)
    assert "64 of 100" in words(panel)
    assert [name for name, _ in readout(frame.lse, 3)] == ["mirror", "exact"]


def test_after_a_run_the_kernel_is_compared_with_both(qtbot):
    tape = filled(SMALL)
    frame = half_way(tape, ran(tape.lse + np.float32(0.25)))
    panel, _ = shown(qtbot, frame)
    assert dict(figures(frame.lse)) == {
        "max |kernel − exact|": "0.25",
        "max |kernel − mirror|": "0.25",
        "rows stepped": "64 of 100",
    }
    assert [label.text for label in panel.canvas.legend if label.kind == "sample"] == ["kernel", "mirror", "exact"]


def test_a_kernel_that_gives_nan_is_not_said_to_agree(qtbot):
    tape = filled(SMALL)
    lse = tape.lse.copy()
    lse[:, 40] = np.nan
    frame = half_way(tape, ran(lse))
    assert frame.lse is not None
    assert dict(figures(frame.lse))["max |kernel − exact|"] == "NaN"
    assert dict(figures(frame.lse))["max |kernel − mirror|"] == "NaN"


@pytest.mark.parametrize("zoom", [1.0, 1.5])
@pytest.mark.parametrize("height", [150, 180, 235, 400])
def test_figures_leave_the_ticks_their_room(qtbot, height, zoom):
    tape = filled(SMALL)
    panel, _ = shown(qtbot, half_way(tape, ran(tape.lse)), (430, round(height * zoom)), ("light", zoom))
    lower = panel.canvas.axes()[1].rect
    assert lower.height() >= 10 and panel.canvas.axes()[0].rect.height() >= 20
    assert all(label.rect.top() >= lower.bottom() + panel.theme.px(14) for label in panel.canvas.figures)


def test_a_stale_run_is_not_shown(qtbot):
    tape = filled(SMALL)
    frame = half_way(tape, replace(ran(tape.lse), stale=True))
    assert frame.lse is not None
    assert frame.lse.kernel is None


def test_the_readout_follows_the_mouse_and_returns(qtbot):
    tape = filled(SMALL)
    panel, _ = shown(qtbot, half_way(tape))
    assert "row 67" in words(panel)
    axes = panel.canvas.axes()[0]
    qtbot.mouseMove(panel.canvas, QPoint(round(axes.to_x(20)), 60))
    assert "row 20" in words(panel)
    assert f"{tape.lse[0, 20]:.5g}" in words(panel)
    QApplication.sendEvent(panel.canvas, leave())
    assert "row 67" in words(panel)


def leave():
    from PySide6.QtCore import QEvent

    return QEvent(QEvent.Type.Leave)


def test_a_click_goes_to_the_first_step_of_the_rows_program(qtbot):
    tape = filled(SMALL)
    start = tape.tiling.program_start(1, 0)
    panel, changes = shown(qtbot, resolve(State(problem=SMALL, step=start), tape, RunView()))
    axes = panel.canvas.axes()[0]
    for row in (0, 50, 99):
        qtbot.mouseClick(panel.canvas, Qt.MouseButton.LeftButton, pos=QPoint(round(axes.to_x(row)), 60))
    assert changes == [
        {"step": tape.tiling.program_start(1, 0), "row": 0},
        {"step": tape.tiling.program_start(1, 1), "row": 18},
        {"step": tape.tiling.program_start(1, 3), "row": 3},
    ]


def test_the_switch_asks_for_the_unit_and_the_title_follows(qtbot):
    tape = filled(SMALL)
    panel, changes = shown(qtbot, half_way(tape))
    assert "log₂" in panel.title_label.text()
    qtbot.mouseClick(panel.switch.buttons["ln"], Qt.MouseButton.LeftButton)
    assert changes == [{"lse_unit": "ln"}]
    panel.show_frame(half_way(tape, lse_unit="ln"))
    assert panel.title_label.text() == "L per row  ln Σ exp"
    assert f"{tape.exact_lse[0, 67] * np.log(2):.5g}" in words(panel)


def test_rows_without_a_key_are_counted_and_have_no_line(qtbot):
    tape = filled(BLIND)
    frame = resolve(State(problem=BLIND, step=len(tape) - 1), tape, RunView())
    panel, _ = shown(qtbot, frame)
    view = frame.lse
    assert view is not None
    assert view.blind_rows == 172
    assert (view.mirror[:172] == -np.inf).all()
    axes = panel.canvas.axes()[0]
    line = outline(axes, np.arange(300), view.mirror)
    assert axes.rect.adjusted(-1, -1, 1, 1).contains(line.path().boundingRect())
    assert line.path().boundingRect().left() >= axes.to_x(172) - 1
    assert dict(readout(view, 0)) == {"mirror": "-∞", "exact": "-∞"}


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
@pytest.mark.parametrize(
    "size, look", [((430, 235), ("dark", 1.0)), ((900, 600), ("light", 1.0)), ((430, 300), ("dark", 1.5))]
)
def test_no_text_is_cut_or_overlaps(qtbot, preset, size, look):
    tape = filled(preset.state.problem)
    for run in (RunView(), ran(tape.lse)):
        panel, _ = shown(qtbot, half_way(tape, run), size, look)
        assert panel.size().toTuple() == size
        canvas = panel.canvas
        labels = [*canvas.legend, *canvas.figures]
        assert not any(a.rect.intersects(b.rect) for a, b in combinations(labels, 2))
        whole = QRectF(canvas.rect())
        for label in labels:
            assert whole.contains(label.rect), label
            if label.kind != "sample":
                font = canvas.texts.words if label.kind == "word" else canvas.texts.numbers
                assert QFontMetrics(font).horizontalAdvance(label.text) <= label.rect.width()
        upper, lower = canvas.axes()
        assert upper.rect.height() > 20 and lower.rect.height() > 12
        for label in labels:
            assert not label.rect.intersects(upper.rect) and not label.rect.intersects(lower.rect)


def test_the_picture_is_made_anew_only_when_a_curve_changes(qtbot):
    tape = filled(SMALL)
    start = tape.tiling.program_start(0, 2)
    panel, _ = shown(qtbot, resolve(State(problem=SMALL, step=start), tape, RunView()))
    canvas = panel.canvas
    first = canvas._picture(*canvas.axes())
    panel.show_frame(resolve(State(problem=SMALL, step=start + 1, row=9), tape, RunView()))
    assert canvas._picture(*canvas.axes()) is first
    panel.show_frame(resolve(State(problem=SMALL, step=tape.tiling.program_start(0, 3)), tape, RunView()))
    assert canvas._picture(*canvas.axes()) is not first


@given(
    arrays(np.float64, st.integers(1, 3000), elements=st.floats(-10, 10) | st.just(np.nan) | st.just(-np.inf)),
    st.integers(20, 500),
)
def test_outlines_keep_every_extreme_and_stay_small(y, width):
    axes = Axes(QRectF(0, 0, width, 200), (0.0, float(max(1, len(y) - 1))), (-10.0, 10.0))
    line = outline(axes, np.arange(len(y)), y)
    known = y[np.isfinite(y)]
    assert line.path().elementCount() <= 4 * width + 2
    assert (np.diff(line.x) >= 0).all()
    if len(known):
        assert np.nanmin(line.upper) == pytest.approx(axes.to_y(known.max()))
        assert np.nanmax(line.lower) == pytest.approx(axes.to_y(known.min()))
        assert line.path().elementCount() or line.dots() or line.dense
    else:
        assert np.isnan(line.upper).all()
        assert line.band(2).isEmpty()


def test_a_band_covers_the_curve(qtbot):
    axes = Axes(QRectF(0, 0, 100, 100), (0.0, 99.0), (0.0, 1.0))
    y = np.where(np.arange(100) == 50, np.nan, 0.5)
    band = outline(axes, np.arange(100), y).band(3)
    box = band.boundingRect()
    assert (box.top(), box.bottom()) == (47, 53)
    assert not band.contains(outline(axes, np.arange(100), np.full(100, 0.5)).path().pointAtPercent(0.505))


def test_long_heads_are_shown_whole(qtbot):
    n = 65536
    p = Problem(heads=1, kv_heads=1, seqlen_q=n, seqlen_k=n, head_dim=16, block_m=256, block_n=256)
    tape = Tape(p)
    tape.lse[0] = np.log2(np.arange(1, n + 1)) + 3
    tape.lse[0, 40000] = 30
    tape.exact_lse[0] = tape.lse[0, tape.exact_rows]
    frame = resolve(State(problem=p, step=tape.tiling.program_start(0, 200)), tape, RunView())
    view = frame.lse
    assert view is not None
    assert view.sampled
    assert view.stored_rows == 200 * 256
    panel, _ = shown(qtbot, frame)
    upper = panel.canvas.axes()[0]
    line = outline(upper, np.arange(n), view.mirror)
    assert line.path().elementCount() < 2000
    assert np.nanmin(line.upper) == pytest.approx(upper.to_y(30))
    assert "51,200 of 65,536" in words(panel)


def test_the_lower_plot_holds_both_differences(qtbot):
    tape = filled(SMALL)
    view = half_way(tape, ran(tape.lse + np.float32(0.25))).lse
    assert np.isnan(view.mirror_difference[64:]).all()
    np.testing.assert_allclose(view.mirror_difference[:64], 0.25, atol=1e-5)
    assert view.difference_range == 0.5
    assert [name for name, _ in differences(view, theme.theme("dark"))] == ["kernel − exact", "kernel − mirror"]
    assert [name for name, _ in differences(half_way(tape).lse, theme.theme("dark"))] == ["mirror − exact"]
