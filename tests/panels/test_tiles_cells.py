import numpy as np
import pytest
from PySide6.QtCore import QPointF

from kernel.inputs import Inputs
from kernel.problem import Problem
from visualizer import cells
from visualizer.frame import RunView
from visualizer.panels.tiles import TilesPanel
from visualizer.resolve import resolve
from visualizer.state import State
from visualizer.tape import Tape
from visualizer.theme import DARK


@pytest.fixture
def panel(qtbot):
    problem = Problem(heads=1, kv_heads=1, seqlen_q=300, seqlen_k=333, head_dim=16, block_m=64)
    tape = Tape(problem)
    shown = TilesPanel(DARK)
    qtbot.addWidget(shown)
    shown.resize(600, 500)
    shown.show_frame(resolve(State(problem=problem, step=tape.tiling.program_start(0, 2) + 5), tape, RunView()))
    shown.show()
    return shown


def zoom_to(panel, row, key, zoom):
    view = panel.map.view
    panel.map.set_range(zoom, (key / view.seqlen_k, row / view.seqlen_q))


def color_at(panel, row, key):
    place = panel.map.place
    x = place.keys.at(key) + place.cell_width * 0.1
    y = place.rows.at(row) + place.cell_height * 0.1
    return panel.map.grab().toImage().pixelColor(round(x), round(y)).getRgb()[:3]


def test_scores_are_those_of_the_inputs_with_the_sign_of_the_scale(panel):
    view, p = panel.map.view, panel.map.frame.problem
    inputs = Inputs(p)
    expected = inputs.q(0)[40:50].astype(np.float32) @ inputs.k(0)[60:90].astype(np.float32).T
    s, keep = cells.scores(p, view, range(40, 50), range(60, 90))
    np.testing.assert_allclose(s, expected, rtol=1e-6, atol=1e-6)
    # row 40 sees the keys up to 40 + 33
    assert list(keep[0]) == [True] * 14 + [False] * 16
    flipped, _ = cells.scores(p.change(sm_scale=-0.5), view, range(40, 50), range(60, 90))
    np.testing.assert_array_equal(flipped, -s)


def test_cells_appear_only_far_in_and_take_the_colour_of_their_score(panel):
    assert not panel.map.place.shows_cells
    zoom_to(panel, 20, 20, 12)
    assert panel.map.place.shows_cells
    s, _ = cells.scores(panel.map.frame.problem, panel.map.view, range(300), range(333))
    rows, keys = (range(int(axis.low) + 2, int(axis.high) - 2) for axis in (panel.map.place.rows, panel.map.place.keys))
    seen = [(s[r, k], sum(color_at(panel, r, k))) for r in rows[::3] for k in keys[::3] if k <= r]
    high = [brightness for value, brightness in seen if value > 1]
    low = [brightness for value, brightness in seen if abs(value) < 0.1]
    assert min(high) > max(low)


def test_tiles_to_come_are_faint_and_skipped_ones_show_no_cells(panel):
    view = panel.map.view
    assert view.done[0] == view.visited[0]
    zoom_to(panel, 150, 50, 12)
    assert view.block == 2
    zoom_to(panel, 10, 320, 12)
    skipped = {color_at(panel, 10, key) for key in (312, 320, 328)}
    assert len(skipped) == 1


def test_the_tooltip_tells_one_score(panel):
    zoom_to(panel, 20, 20, 30)
    place = panel.map.place
    at = QPointF(place.keys.at(21) + 3, place.rows.at(20) + 3)
    s, _ = cells.scores(panel.map.frame.problem, panel.map.view, range(20, 21), range(21, 22))
    text, _ = panel.map.words(at)
    assert text.startswith(f"s[20, 21] = q[20]·k[21] = {s[0, 0]:.4g}")
    at = QPointF(place.keys.at(22) + 3, place.rows.at(20) + 3)
    assert "q[20]·k[22]" in panel.map.words(at)[0]


def test_a_masked_score_says_why():
    p = Problem(heads=1, kv_heads=1, seqlen_q=64, seqlen_k=64)
    tape = Tape(p)
    view = resolve(State(problem=p), tape, RunView()).tiles
    assert cells.cell_words(p, view, 3, 9) == "s[3, 9] = −∞: row 3 does not see key 9, which comes after it"
