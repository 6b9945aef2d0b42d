"""The row panel: the right series on steady axes, what is missing said and not drawn, clicks that select a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from kernel.problem import Problem
from kernel.tiling import Position
from visualizer import theme
from visualizer.frame import Frame, RunView
from visualizer.panels.chart import draw_x_ticks, outline, ticks
from visualizer.panels.rows import RowsPanel
from visualizer.panels.rows_canvas import compact
from visualizer.presets import PRESETS
from visualizer.resolve import resolve
from visualizer.state import State
from visualizer.tape import Tape

OPENING = PRESETS[0].state.problem
SMALL = Problem(heads=1, kv_heads=1, seqlen_q=64, seqlen_k=128, block_m=32, block_n=16, head_dim=16)
BLIND = next(p.state.problem for p in PRESETS if "no key" in p.name)


@pytest.fixture(autouse=True)
def fonts(qapp: QApplication) -> None:
    theme.load_fonts()
    theme.apply(qapp, theme.theme("dark"))


def frame_at(problem: Problem, step: str, iteration: int = 0, block: int = 1, row: int = 5) -> Any:
    tape = Tape(problem)
    inside = step not in ("load_q", "normalise", "store")
    index = tape.tiling.index(Position(0, block, iteration if inside else -1, step))
    return resolve(State(problem=problem, step=index, row=row), tape, RunView())


def shown(qtbot: QtBot, frame: Frame, size=(430, 235), look=("dark", 1.0)) -> tuple[Any, list[dict]]:
    panel = RowsPanel(theme.theme(*look))
    qtbot.addWidget(panel)
    panel.resize(*size)
    panel.show()
    panel.show_frame(frame)
    QApplication.processEvents()
    changes: list[dict] = []
    panel.change.connect(changes.append)
    return panel, changes


def test_series_are_the_views_rows_and_history(qtbot):
    frame = frame_at(SMALL, "accumulate", iteration=3)
    panel, _ = shown(qtbot, frame)
    view, series = frame.rows, panel.canvas.series
    assert view is not None
    assert np.array_equal(series["m"].over_rows, view.m)
    assert np.array_equal(series["alpha"].over_rows, view.alpha)
    assert np.array_equal(series["l"].history, view.history_l)
    assert len(series["m"].history) == 4
    assert panel.canvas.readouts["l"] == f"{view.l[5]:.4g}"


def test_the_rows_m_moved_in_are_counted(qtbot):
    frame = frame_at(SMALL, "row_max", iteration=2)
    panel, _ = shown(qtbot, frame, (900, 600))
    assert frame.rows is not None
    assert panel.caption_label.text() == f"m moved in {frame.rows.moved} of 32 · rows 32 … 63"


def test_what_is_not_known_is_said_and_nothing_is_drawn_for_it(qtbot):
    panel, _ = shown(qtbot, frame_at(SMALL, "load_q"))
    canvas = panel.canvas
    assert canvas.missing("m") == "all −∞: no key seen yet"
    assert canvas.missing("alpha") == "none yet"
    assert canvas.missing("l") == ""
    assert (canvas.readouts["m"], canvas.readouts["alpha"]) == ("−∞", "–")
    for quantity in ("m", "alpha"):
        line = outline(canvas.axes(quantity)[0], np.arange(32, 64), canvas.series[quantity].over_rows)
        assert line.path().isEmpty()
        assert line.dots() == []


def test_rows_that_never_see_a_key_are_not_said_to_wait_for_one(qtbot):
    for step in ("load_q", "store"):
        panel, _ = shown(qtbot, frame_at(BLIND, step, block=0))
        assert panel.canvas.missing("m") == "all −∞: no key seen"


def test_rows_that_see_no_key_leave_a_gap(qtbot):
    frame = frame_at(BLIND, "row_max", block=2)
    panel, _ = shown(qtbot, frame)
    m = panel.canvas.series["m"].over_rows
    assert (m[:44] == -np.inf).all()
    assert np.isfinite(m[44:]).all()
    line = outline(panel.canvas.axes("m")[0], np.arange(128, 192), m)
    box = line.path().boundingRect()
    assert panel.canvas.axes("m")[0].rect.adjusted(-1, -1, 1, 1).contains(box)
    assert box.left() > panel.canvas.axes("m")[0].to_x(128 + 43)


def test_alpha_of_the_tile_before_is_shown_until_its_own_is_there(qtbot):
    before = frame_at(SMALL, "scores", iteration=2).rows
    after = frame_at(SMALL, "alpha", iteration=2).rows
    done = frame_at(SMALL, "accumulate", iteration=1).rows
    assert before is not None and after is not None and done is not None
    assert (before.alpha_tile, after.alpha_tile) == (1, 2)
    assert np.array_equal(before.alpha, done.alpha)
    assert not np.array_equal(before.alpha, after.alpha)


def test_alpha_of_the_tile_before_is_called_so(qtbot):
    for step, iteration, expected in (
        ("load_q", 0, {}),
        ("load_k", 0, {}),
        ("alpha", 0, {}),
        ("scores", 2, {"alpha": "last tile"}),
        ("accumulate", 2, {}),
        ("normalise", 0, {"alpha": "last tile"}),
    ):
        panel, _ = shown(qtbot, frame_at(SMALL, step, iteration=iteration))
        assert panel.canvas.notes == expected, step
        assert ("(last tile)" in panel.canvas.accessibleDescription()) == bool(expected)
        room = panel.canvas.width() - panel.canvas.axes("alpha")[1].rect.right() - panel.theme.px(8 + 13)
        metrics = QFontMetrics(panel.theme.ui_font(10.5))
        assert all(metrics.horizontalAdvance(note) <= room for note in panel.canvas.notes.values())


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_axes_hold_all_values_and_only_widen_within_a_program(preset):
    tape = Tape(preset.state.problem)
    block = tape.tiling.num_q_blocks - 1
    start = tape.tiling.program_start(0, block)
    low, high, top = 0.0, 0.0, 0.0
    ranges = set()
    for index in range(start, start + tape.tiling.steps_of_program(block)):
        view = resolve(preset.state.change(step=index), tape, RunView()).rows
        assert view is not None
        for values, limits in ((view.m, view.m_range), (view.history_m, view.m_range), (view.l, view.l_range)):
            known = values[np.isfinite(values)]
            assert ((known >= limits[0]) & (known <= limits[1])).all()
        assert view.m_range[0] <= low and view.m_range[1] >= high and view.l_range[1] >= top
        (low, high), top = view.m_range, view.l_range[1]
        ranges.add(view.m_range)
    assert len(ranges) <= 3


def test_both_plots_of_a_quantity_share_a_scale(qtbot):
    panel, _ = shown(qtbot, frame_at(SMALL, "accumulate", iteration=3))
    for quantity in ("m", "alpha", "l"):
        left, right = panel.canvas.axes(quantity)
        assert left.y == right.y
        assert (left.rect.top(), left.rect.bottom()) == (right.rect.top(), right.rect.bottom())


@pytest.mark.parametrize("size, zoom", [((430, 235), 1.0), ((900, 600), 1.0), ((640, 350), 1.5), ((900, 600), 1.5)])
def test_plots_stand_apart_and_readouts_fit(qtbot, size, zoom):
    for frame in (frame_at(OPENING, "accumulate", iteration=3), frame_at(BLIND, "store", block=0)):
        panel, _ = shown(qtbot, frame, size, ("light", zoom))
        canvas = panel.canvas
        rects = [axes.rect for q in ("m", "alpha", "l") for axes in canvas.axes(q)]
        assert all(r.width() > 40 and r.height() > 15 for r in rects)
        assert not any(a.intersects(b) for i, a in enumerate(rects) for b in rects[:i])
        right = max(r.right() for r in rects) + panel.theme.px(8)
        metrics = QFontMetrics(panel.theme.code_font(12))
        assert all(
            right + metrics.horizontalAdvance(compact(x)) <= canvas.width() for x in (-0.1234, 1.234e-5, 123456.0)
        )
        assert all(right + metrics.horizontalAdvance(text) <= canvas.width() for text in canvas.readouts.values())


def test_a_click_selects_the_row_below_it(qtbot):
    panel, changes = shown(qtbot, frame_at(SMALL, "accumulate"))
    axes = panel.canvas.axes("alpha")[0]
    for row in (0, 12, 31):
        at = QPointF(axes.to_x(32 + row), axes.rect.center().y()).toPoint()
        qtbot.mouseClick(panel.canvas, Qt.MouseButton.LeftButton, pos=at)
    history = panel.canvas.axes("m")[1].rect.center().toPoint()
    qtbot.mouseClick(panel.canvas, Qt.MouseButton.LeftButton, pos=history)
    qtbot.mouseClick(panel.canvas, Qt.MouseButton.LeftButton, pos=QPoint(2, 20))
    assert changes == [{"row": 0}, {"row": 12}, {"row": 31}]


def test_keys_move_the_row(qtbot):
    panel, changes = shown(qtbot, frame_at(SMALL, "accumulate", row=30))
    for key in (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageDown, Qt.Key.Key_PageUp):
        qtbot.keyClick(panel.canvas, key)
    assert changes == [{"row": 29}, {"row": 31}, {"row": 31}, {"row": 14}]


def test_one_row_and_one_tile_can_be_shown(qtbot):
    one = Problem(heads=1, kv_heads=1, seqlen_q=1, seqlen_k=5, head_dim=3, block_m=16, block_n=16)
    panel, changes = shown(qtbot, frame_at(one, "accumulate", block=0))
    for axes, values in zip(panel.canvas.axes("m"), panel.canvas.series["m"][:2], strict=True):
        (dot,) = outline(axes, np.arange(1), values).dots()
        assert dot.x() == pytest.approx(axes.rect.center().x())
    qtbot.mouseClick(panel.canvas, Qt.MouseButton.LeftButton, pos=panel.canvas.axes("m")[0].rect.center().toPoint())
    assert changes == [{"row": 0}]


def test_the_title_names_the_quantities_in_their_colours(qtbot):
    panel, _ = shown(qtbot, frame_at(SMALL, "accumulate"))
    for quantity in ("m", "alpha", "l"):
        assert panel.theme.word(quantity).name() in panel.title_label.text()
    panel.set_theme(theme.theme("light"))
    assert theme.theme("light").word("m").name() in panel.title_label.text()


@pytest.mark.parametrize(
    "low, high, most, expected",
    [
        (0, 10, 5, [0, 5, 10]),
        (0, 1023, 4, [0, 500, 1000]),
        (-1, 1, 5, [-1, -0.5, 0, 0.5, 1]),
        (3, 3, 5, [3]),
        (0.1, 0.9, 3, [0.5]),
    ],
)
def test_ticks_are_round_and_few(low, high, most, expected):
    assert ticks(low, high, most) == pytest.approx(expected)


def test_tiles_are_numbered_from_1_and_rows_from_0(qtbot, monkeypatch):
    drawn: list[tuple[list[float], list[float]]] = []

    def record(painter, axes, values, *rest):
        drawn.append((values, [float(axes.to_x(v)) for v in values]))
        return draw_x_ticks(painter, axes, values, *rest)

    monkeypatch.setattr("visualizer.panels.rows_canvas.draw_x_ticks", record)
    panel, _ = shown(
        qtbot, frame_at(Problem(heads=1, kv_heads=1, seqlen_q=16, seqlen_k=48, block_n=16), "alpha", block=0)
    )
    panel.grab()
    (rows, _), (tiles, places) = drawn[:2]
    assert rows[0] == 0
    assert tiles == [1, 2, 3]
    assert places == pytest.approx(panel.canvas.axes("l")[1].to_x([0, 1, 2]))
