"""The lse panel: three series told apart, texts that never overlap, clicks, zoom and pan, 65,536 rows."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetrics, QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from kernel.problem import Problem
from kernel.results import RunResult
from visualizer import theme
from visualizer.frame import Frame, RunView
from visualizer.panels.chart import Axes
from visualizer.panels.lse import LsePanel
from visualizer.panels.lse_axes import row_ticks
from visualizer.panels.lse_marks import breadth, differences, points
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


def axes(panel: Any) -> tuple[Axes, Axes]:
    """Those of the two plots, in the canvas's pixels."""
    at = QPointF(panel.canvas.plots.pos())
    upper, lower = panel.canvas.plots.axes()
    return replace(upper, rect=upper.rect.translated(at)), replace(lower, rect=lower.rect.translated(at))


def at_row(panel: Any, row: float) -> QPoint:
    """A point over the row, in the plots' own pixels."""
    upper = panel.canvas.plots.axes()[0]
    return QPoint(round(float(upper.to_x(row))), round(upper.rect.center().y()))


def drawn(panel: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The points that a curve draws at this zoom; none where it is hidden."""
    plots = panel.canvas.plots
    x, y = (plots.curves | {"samples": plots.dots["samples"]})[name].getData()
    return (np.empty(0), np.empty(0)) if x is None else (x, y)


def given_to(panel: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """All points of a curve."""
    return panel.canvas.plots.curves[name].getOriginalDataset()


def rows_in_view(panel: Any) -> tuple[float, float]:
    return panel.canvas.plots.axes()[0].x


def wheel(panel: Any, row: float, notches: int) -> None:
    at, viewport = QPointF(at_row(panel, row)), panel.canvas.plots.viewport()
    away = QPointF(viewport.mapToGlobal(at.toPoint()))
    turn, none = QPoint(0, 120 * notches), Qt.MouseButton.NoButton
    plain = Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(viewport, QWheelEvent(at, away, QPoint(), turn, none, plain, Qt.ScrollPhase(0), False))
    QApplication.processEvents()


def mouse(
    panel: Any,
    kind: QEvent.Type,
    at: QPoint,
    button: Qt.MouseButton = Qt.MouseButton.NoButton,
    held: Qt.MouseButton = Qt.MouseButton.NoButton,
) -> None:
    """An event that reaches the plots whatever other window may lie under the pointer."""
    viewport = panel.canvas.plots.viewport()
    away = QPointF(viewport.mapToGlobal(at))
    event = QMouseEvent(kind, QPointF(at), away, button, held, Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(viewport, event)


def click(qtbot: QtBot, panel: Any, row: float) -> None:
    qtbot.mouseClick(panel.canvas.plots.viewport(), Qt.MouseButton.LeftButton, pos=at_row(panel, row))


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
    upper, lower = (a.rect for a in axes(panel))
    assert lower.height() >= 10 and upper.height() >= 20
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
    plots = panel.canvas.plots
    mouse(panel, QEvent.Type.MouseMove, at_row(panel, 20))
    assert "row 20" in words(panel)
    assert f"{tape.lse[0, 20]:.5g}" in words(panel)
    assert all(cross.isVisible() and cross.value() == 20 for cross in plots.crosses)
    QApplication.sendEvent(plots, QEvent(QEvent.Type.Leave))
    assert "row 67" in words(panel)
    assert not any(cross.isVisible() for cross in plots.crosses)


def test_a_click_goes_to_the_first_step_of_the_rows_program(qtbot):
    tape = filled(SMALL)
    start = tape.tiling.program_start(1, 0)
    panel, changes = shown(qtbot, resolve(State(problem=SMALL, step=start), tape, RunView()))
    for row in (0, 50, 99):
        click(qtbot, panel, row)
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
    x, y = drawn(panel, "mirror")
    assert x[np.isfinite(y)].min() == 172
    low, high = axes(panel)[0].y
    assert low <= np.nanmin(y) and np.nanmax(y) <= high
    assert dict(readout(view, 0)) == {"mirror": "−∞", "exact": "−∞"}


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
        upper, lower = axes(panel)
        assert upper.rect.height() > 20 and lower.rect.height() > 12
        for label in labels:
            assert not label.rect.intersects(upper.rect) and not label.rect.intersects(lower.rect)


def test_a_step_touches_only_what_it_changes(qtbot):
    tape = filled(SMALL)
    start = tape.tiling.program_start(0, 2)
    panel, _ = shown(qtbot, resolve(State(problem=SMALL, step=start), tape, RunView()))
    plots = panel.canvas.plots
    touched: list[str] = []
    for name, curve in plots.curves.items():
        curve.sigPlotChanged.connect(lambda _, name=name: touched.append(name))
    ranges = [a.y for a in axes(panel)]
    panel.show_frame(resolve(State(problem=SMALL, step=start + 1, row=9), tape, RunView()))
    assert touched == []
    assert [mark.value() for mark in plots.marks] == [73, 73]
    assert [block.getRegion() for block in plots.blocks] == [(63.5, 95.5)] * 2
    panel.show_frame(resolve(State(problem=SMALL, step=tape.tiling.program_start(0, 3)), tape, RunView()))
    assert sorted(touched) == ["difference", "mirror"]
    assert [block.getRegion() for block in plots.blocks] == [(95.5, 99.5)] * 2
    assert [a.y for a in axes(panel)] == ranges


def test_curves_hold_the_values(qtbot):
    tape = filled(SMALL)
    frame = half_way(tape, ran(tape.lse + np.float32(0.25)))
    panel, _ = shown(qtbot, frame)
    view = frame.lse
    assert view is not None
    for name, x, y in (
        ("exact", view.exact_rows, view.exact),
        ("mirror", np.arange(100), view.mirror),
        ("kernel", np.arange(100), view.kernel),
        ("difference", view.exact_rows, view.difference),
        ("between", np.arange(100), view.mirror_difference),
    ):
        at, values = given_to(panel, name)
        np.testing.assert_array_equal(at[: len(x)], x)
        np.testing.assert_allclose(values[: len(x)], y, rtol=1e-6)
    assert axes(panel)[0].y == pytest.approx(view.value_range)
    assert axes(panel)[1].y == pytest.approx((-0.5, 0.5))
    curves = [panel.canvas.plots.curves[name] for name in ("exact", "kernel", "mirror")]
    widths = [curve.opts["pen"].widthF() for curve in curves]
    assert widths[0] > widths[1] > widths[2] >= 1
    assert curves[0].zValue() < curves[1].zValue() < curves[2].zValue()


@given(
    arrays(np.float64, st.integers(1, 3000), elements=st.floats(-10, 10) | st.just(np.nan) | st.just(-np.inf)),
)
def test_points_keep_their_values_and_lone_ones_can_be_drawn(y):
    x, values = points(np.arange(len(y)), y)
    assert (np.diff(x) >= 0).all()
    assert len(x) == len(values)
    for row in np.flatnonzero(np.isfinite(y)):
        assert (values[x == row] == y[row]).all()
    known = np.isfinite(values)
    joined = known & (np.roll(known, 1) | np.roll(known, -1))
    assert (joined == known).all() or len(y) == 1
    assert known.any() == np.isfinite(y).any()


# zoom and pan


def test_the_wheel_zooms_the_rows_at_the_pointer_and_0_shows_all(qtbot):
    tape = filled(OPENING)
    frame = half_way(tape, ran(tape.lse))
    panel, changes = shown(qtbot, frame, (900, 600))
    wheel(panel, 700, 8)
    first, last = rows_in_view(panel)
    assert 5 < 1023 / (last - first) < 20
    assert first < 700 < last and (700 - first) / (last - first) == pytest.approx(700 / 1024, abs=0.01)
    upper, lower = axes(panel)
    assert lower.x == pytest.approx(upper.x)
    view = frame.lse
    assert view is not None
    inside = view.exact[int(first) : int(last) + 1]
    assert upper.y[0] <= inside.min() and inside.max() <= upper.y[1]
    assert upper.y[1] - upper.y[0] < view.value_range[1] - view.value_range[0]
    button = panel.canvas.fit_button
    assert button.isVisible() and upper.rect.contains(QRectF(button.geometry()))
    qtbot.keyClick(panel.canvas, Qt.Key.Key_0)
    assert rows_in_view(panel) == (-0.5, 1023.5) and not button.isVisible()
    assert axes(panel)[0].y == pytest.approx(view.value_range)
    qtbot.keyClick(panel.canvas, Qt.Key.Key_Plus)
    assert np.ptp(rows_in_view(panel)) == pytest.approx(1024 / 1.5)
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert rows_in_view(panel) == (-0.5, 1023.5)
    wheel(panel, 700, -3)
    assert rows_in_view(panel) == (-0.5, 1023.5)
    assert changes == []


def test_a_drag_pans_and_is_no_click(qtbot):
    panel, changes = shown(qtbot, half_way(filled(OPENING)), (900, 600))
    wheel(panel, 500, 6)
    first, last = rows_in_view(panel)
    start = at_row(panel, 500)
    left = Qt.MouseButton.LeftButton
    mouse(panel, QEvent.Type.MouseButtonPress, start, left, left)
    for x in (40, 80):
        mouse(panel, QEvent.Type.MouseMove, start + QPoint(x, 30), held=left)
    mouse(panel, QEvent.Type.MouseButtonRelease, start + QPoint(80, 30), left)
    width = axes(panel)[0].rect.width()
    assert rows_in_view(panel)[0] == pytest.approx(first - 80 * (last - first) / width, abs=1)
    assert np.ptp(rows_in_view(panel)) == pytest.approx(last - first)
    assert changes == []


def test_a_double_click_shows_all_and_goes_back(qtbot):
    tape = filled(OPENING)
    frame = half_way(tape)
    panel, changes = shown(qtbot, frame, (900, 600))
    panel.change.connect(
        lambda c: panel.show_frame(resolve(State(problem=OPENING, step=c["step"], row=c["row"]), tape, RunView()))
    )
    wheel(panel, 300, 6)
    click(qtbot, panel, 300)
    left = Qt.MouseButton.LeftButton
    mouse(panel, QEvent.Type.MouseButtonDblClick, at_row(panel, 300), left, left)
    mouse(panel, QEvent.Type.MouseButtonRelease, at_row(panel, 300), left)
    assert rows_in_view(panel) == (-0.5, 1023.5)
    assert changes[-1] == {"step": frame.transport.index, "row": 3} and len(changes) == 2


def test_a_zoomed_plot_follows_its_row_and_leaves_who_looks_elsewhere_in_peace(qtbot):
    tape = filled(OPENING)
    panel, _ = shown(qtbot, half_way(tape), (900, 600))  # row 515
    plots = panel.canvas.plots

    def go(block: int) -> None:
        step = tape.tiling.program_start(0, block)
        panel.show_frame(resolve(State(problem=OPENING, step=step, row=3), tape, RunView()))

    plots.top_plot.setXRange(500, 600, padding=0)
    go(5)
    assert rows_in_view(panel) == pytest.approx((643 - 50, 643 + 50))
    plots.top_plot.setXRange(100, 200, padding=0)
    go(6)
    assert rows_in_view(panel) == pytest.approx((100, 200))


@given(st.lists(st.tuples(st.floats(0.1, 9), st.integers(0, 99)), max_size=6))
def test_any_zooming_stays_on_the_rows(moves: list[tuple[float, int]]) -> None:
    panel = LsePanel(theme.theme("dark"))
    try:
        panel.resize(430, 235)
        panel.show_frame(half_way(Tape(SMALL)))
        for factor, row in moves:
            panel.canvas.plots.top_plot.vb.scaleBy((factor, 1), center=(row, 0))
            first, last = rows_in_view(panel)
            assert -0.5 - 1e-6 <= first < last <= 99.5 + 1e-6
            assert last - first > 7
    finally:
        panel.deleteLater()


@pytest.mark.parametrize("size", [(430, 235), (437, 251), (900, 600)])
def test_the_rows_are_numbered_evenly(size, qtbot):
    panel, _ = shown(qtbot, half_way(filled(OPENING)), size)
    lower = axes(panel)[1]
    assert lower.x == pytest.approx((-0.5, 1023.5))
    values = row_ticks(*lower.x, lower.rect.width(), panel.theme)
    assert values in ([0, 256, 512, 768], [0, 128, 256, 384, 512, 640, 768, 896])
    assert row_ticks(10.5, 20.5, 400, panel.theme) == [12, 14, 16, 18, 20]


def test_a_longer_problem_is_shown_whole(qtbot):
    panel, _ = shown(qtbot, half_way(filled(SMALL)))
    wheel(panel, 50, 5)
    panel.show_frame(half_way(Tape(OPENING)))
    assert rows_in_view(panel) == (-0.5, 1023.5)


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
    x, y = drawn(panel, "mirror")
    assert len(x) < 2000
    assert np.nanmax(y) == pytest.approx(30)
    assert x[np.nanargmax(y)] == pytest.approx(40000, abs=200)
    dots, _ = drawn(panel, "samples")
    assert 10 < len(dots) < 100
    assert panel.canvas.plots.dots["samples"].getViewBox() is panel.canvas.plots.top_plot.vb
    assert not len(drawn(panel, "exact")[0])
    panel.canvas.plots.top_plot.setXRange(39950, 40050, padding=0)
    x, y = drawn(panel, "mirror")
    np.testing.assert_allclose(y[(x >= 39950) & (x <= 40050)], view.mirror[39950:40051])
    assert "51,200 of 65,536" in words(panel)


def test_the_lower_plot_holds_both_differences(qtbot):
    tape = filled(SMALL)
    view = half_way(tape, ran(tape.lse + np.float32(0.25))).lse
    assert np.isnan(view.mirror_difference[64:]).all()
    np.testing.assert_allclose(view.mirror_difference[:64], 0.25, atol=1e-5)
    assert view.difference_range == 0.5
    assert [name for name, _ in differences(view, theme.theme("dark"))] == ["kernel − exact", "kernel − mirror"]
    assert [name for name, _ in differences(half_way(tape).lse, theme.theme("dark"))] == ["mirror − exact"]


def test_the_pointer_may_rest_on_the_plots_while_a_smaller_problem_comes(qtbot):
    panel, _ = shown(qtbot, half_way(filled(OPENING)))
    panel.canvas.plots.hovered.emit(900)
    assert panel.canvas.hovered == 900
    panel.show_frame(half_way(filled(SMALL)))
    assert panel.canvas.hovered is None
    assert SMALL.seqlen_q == 100
    assert any(label.kind == "number" for label in panel.canvas.legend)


def test_nothing_is_measured_before_there_is_a_value(qtbot):
    tape = Tape(SMALL)
    coming = resolve(State(problem=SMALL, step=0), tape, RunView())
    assert coming.lse is not None
    assert (coming.lse.value_range, coming.lse.difference_range, coming.lse.is_coming) == (None, None, True)
    panel, _ = shown(qtbot, coming)
    scales = [plot.getAxis("left") for plot in panel.canvas.plots.plots]
    assert [scale.is_blank for scale in scales] == [True, True]
    while tape.fill(1):
        pass
    panel.show_frame(resolve(State(problem=SMALL, step=0), tape, RunView()))
    assert panel.canvas.plots.view.is_coming is False
    assert [scale.is_blank for scale in scales] == [False, False]


def test_rows_that_all_see_no_key_are_not_awaited(qtbot):
    tape = filled(replace(SMALL, seqlen_k=0))
    view = resolve(State(problem=tape.problem, step=0), tape, RunView()).lse
    assert view is not None
    assert view.value_range is None and not view.is_coming and view.blind_rows == view.num_rows


def test_one_row_stands_in_the_middle_as_a_dot(qtbot):
    tape = filled(replace(SMALL, seqlen_q=1, seqlen_k=5))
    panel, _ = shown(qtbot, resolve(State(problem=tape.problem, step=len(tape) - 1), tape, ran(tape.lse)))
    plots = panel.canvas.plots
    assert rows_in_view(panel) == (-0.5, 0.5)
    assert row_ticks(*axes(panel)[1].x, 370, panel.theme) == [0]
    for name in ("exact", "mirror", "kernel", "difference"):
        x, y = plots.dots[name].getData()
        assert x.tolist() == [0] and np.isfinite(y).all()
    click(qtbot, panel, 0)


def test_curves_closer_than_pixels_are_thin(qtbot):
    tape = filled(OPENING)
    panel, _ = shown(qtbot, half_way(tape))
    pen = panel.canvas.plots.curves["exact"].opts["pen"]
    assert pen.widthF() == 1
    wheel(panel, 700, 30)
    assert panel.canvas.plots.curves["exact"].opts["pen"].widthF() == 6
    assert breadth("exact", panel.theme, panel.canvas.plots.apart) == 6


@pytest.mark.parametrize("look", [("dark", 1.0), ("light", 1.5)])
def test_numbers_of_the_two_plots_stand_apart_from_each_other_and_from_the_legend(qtbot, look):
    tape = filled(SMALL)
    panel, _ = shown(qtbot, half_way(tape, ran(tape.lse)), (round(430 * look[1]), round(235 * look[1])), look)
    upper, lower = (a.rect for a in axes(panel))
    high = QFontMetrics(panel.theme.code_font(10)).tightBoundingRect("0").height()
    assert upper.bottom() + high < lower.top() - high / 2
    assert panel.canvas.legend[0].rect.bottom() < upper.top() - high / 2
