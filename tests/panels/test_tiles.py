"""The score map: what each pixel shows, what stands where, and what a person's clicks, wheel and keys ask for."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QImage, QPainter, QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from kernel.problem import Problem
from kernel.tiling import Position, Tiling
from visualizer import theme
from visualizer.frame import Frame, RunView
from visualizer.numbers import span
from visualizer.panels.tiles import TilesPanel
from visualizer.panels.tiles_paint import code_lut, tile_colors
from visualizer.panels.tiles_picture import GAP, HATCH, LEVELS, Axis, done_runs, tile_codes, tile_words
from visualizer.presets import PRESETS
from visualizer.resolve import resolve
from visualizer.state import State
from visualizer.tape import Tape

OPENING = PRESETS[0].state.problem
GROUPED = next(p.state.problem for p in PRESETS if p.name == "Grouped heads")
TOY = next(p.state.problem for p in PRESETS if p.name.startswith("Toy"))
LOOKS = [("dark", 1.0), ("light", 1.0), ("dark", 1.5)]
FULL, PARTIAL, SKIPPED = LEVELS * (LEVELS + 1) + LEVELS, LEVELS, 0


@pytest.fixture(autouse=True)
def fonts(qapp: QApplication) -> None:
    theme.load_fonts()
    theme.apply(qapp, theme.theme("dark"))


def frame_at(problem: Problem, position: Position | int) -> Frame:
    tape = Tape(problem)
    step = position if isinstance(position, int) else tape.tiling.index(position)
    return resolve(State(problem=problem, step=step % len(tape)), tape, RunView())


def shown(
    qtbot: QtBot, frame: Frame, size: tuple[int, int] = (440, 480), look: tuple = ("dark", 1.0)
) -> tuple[TilesPanel, list[dict]]:
    panel = TilesPanel(theme.theme(*look))
    qtbot.addWidget(panel)
    panel.resize(*size)
    panel.show()
    panel.show_frame(frame)
    QApplication.processEvents()
    changes: list[dict] = []
    panel.change.connect(changes.append)
    return panel, changes


def place_of(panel: TilesPanel):
    assert panel.map.place is not None
    return panel.map.place


def click(qtbot: QtBot, panel: TilesPanel, at: QPointF) -> None:
    qtbot.mouseClick(panel.map, Qt.MouseButton.LeftButton, pos=at.toPoint())


def texts(panel: TilesPanel) -> list[str]:
    return [label.text for label in panel.map.labels]


def wheel(panel: TilesPanel, at: QPointF, notches: int) -> None:
    event = QWheelEvent(
        at,
        QPointF(panel.map.mapToGlobal(at.toPoint())),
        QPoint(),
        QPoint(0, 120 * notches),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(panel.map, event)


# the picture


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    return Problem(
        seqlen_q=draw(st.integers(1, 300)),
        seqlen_k=draw(st.integers(1, 300)),
        block_m=draw(st.sampled_from([16, 32, 64])),
        block_n=draw(st.sampled_from([16, 32, 64])),
        causal=draw(st.booleans()),
    )


@given(problems(), st.sampled_from([1.0, 2.0]), st.integers(150, 260), st.integers(150, 260))
@settings(max_examples=60, deadline=None)
def test_each_pixel_shows_the_tile_that_lies_there(p: Problem, dpr: float, width: int, height: int) -> None:
    tiling = Tiling(p)
    keys = Axis(p.seqlen_k, p.block_n, 10, width, 0, p.seqlen_k, dpr)
    rows = Axis(p.seqlen_q, p.block_m, 20, height, 0, p.seqlen_q, dpr)
    codes = tile_codes(rows, keys, tiling.full, tiling.visited)
    assert codes.shape == (round(height * dpr), round(width * dpr))
    for block in range(tiling.num_q_blocks):
        for tile in range(tiling.num_k_blocks):
            (x0, x1), (y0, y1) = keys.span(tile), rows.span(block)
            if min(x1 - x0, y1 - y0) < 3:
                continue
            x, y = round(((x0 + x1) / 2 - 10) * dpr), round(((y0 + y1) / 2 - 20) * dpr)
            code = int(codes[y, x])
            expected = {"full": {FULL}, "skipped": {SKIPPED}, "partly masked": {PARTIAL, HATCH}}
            assert code in expected[tile_words(p, block, tile)[0]]


@given(problems(), st.data())
@settings(max_examples=80, deadline=None)
def test_words_agree_with_the_tiling(p: Problem, data: st.DataObject) -> None:
    tiling = Tiling(p)
    block = data.draw(st.integers(0, tiling.num_q_blocks - 1))
    tile = data.draw(st.integers(0, tiling.num_k_blocks - 1))
    kind, where, why = tile_words(p, block, tile)
    expected = "full" if tile < tiling.full[block] else "partly masked" if tile < tiling.visited[block] else "skipped"
    assert kind == expected
    assert why
    first, end = tiling.rows(block)
    assert where.startswith(f"{span('row', first, end)} × key")


def test_small_tiles_are_averaged_and_the_whole_stays_right() -> None:
    p = Problem(seqlen_q=65536, seqlen_k=65536, block_m=16, block_n=16)
    tiling = Tiling(p)
    keys, rows = Axis(65536, 16, 0, 300, 0, 65536), Axis(65536, 16, 0, 310, 0, 65536)
    codes = tile_codes(rows, keys, tiling.full, tiling.visited)
    visited, full = codes % (LEVELS + 1) / LEVELS, codes // (LEVELS + 1) / LEVELS
    assert not np.isin(codes, [GAP, HATCH]).any()
    tiles = tiling.num_q_blocks * tiling.num_k_blocks
    assert visited.mean() == pytest.approx(tiling.visited.sum() / tiles, abs=2e-3)
    assert full.mean() == pytest.approx(tiling.full.sum() / tiles, abs=2e-3)


def test_hatching_survives_in_done_tiles() -> None:
    for name in ("dark", "light"):
        look = theme.theme(name)
        for done in (False, True):
            colors = code_lut(look, done=done)
            assert len({int(colors[code]) for code in (FULL, PARTIAL, HATCH, SKIPPED, GAP)}) == 5


def test_done_runs_cover_what_is_done() -> None:
    visited, done = np.array([2, 0, 3, 4, 4]), np.array([2, 0, 3, 1, 0])
    assert done_runs(visited, done) == ([(0, 3)], [3])
    assert done_runs(visited, visited) == ([(0, 5)], [])
    assert done_runs(np.array([4, 4, 4]), np.array([0, 0, 4])) == ([(2, 3)], [])


@pytest.mark.parametrize("causal", [True, False])
def test_painted_colours_are_done_to_come_and_skipped(qtbot: QtBot, causal: bool) -> None:
    problem = OPENING.change(causal=causal)
    frame = frame_at(problem, Position(0, 5, 3, "scores"))
    panel, _ = shown(qtbot, frame, (600, 600))
    place, look = place_of(panel), panel.theme
    picture = panel.map.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    done, to_come = tile_colors(look, done=True), tile_colors(look, done=False)
    assert frame.tiles is not None
    for (block, tile), expected in {
        (1, 0): done["full"],
        (5, 2): done["full"],
        (5, 5): to_come["full"],
        (7, 0): to_come["full"],
        (0, 15): to_come["skipped"] if causal else done["full"],
    }.items():
        at = place.tile_rect(block, tile).center().toPoint()
        assert picture.pixelColor(at) == expected, (block, tile)
    hand = place.hand_rect(frame.tiles).center().toPoint()
    assert picture.pixelColor(hand).name() == look.text


# what stands where


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
@pytest.mark.parametrize("look", LOOKS, ids=str)
@pytest.mark.parametrize("size", [(440, 480), (900, 600)], ids=str)
def test_texts_neither_overlap_nor_leave_the_panel(qtbot: QtBot, preset, look: tuple, size: tuple[int, int]) -> None:
    tape = Tape(preset.state.problem)
    panel, _ = shown(qtbot, resolve(preset.state, tape, RunView()), size, look)
    for step in np.linspace(0, len(tape) - 1, 9).astype(int):
        panel.show_frame(resolve(State(problem=tape.problem, step=int(step)), tape, RunView()))
        QApplication.processEvents()
        area = panel.map.rect().toRectF()
        for label in panel.map.labels:
            assert area.contains(label.rect), label.text
        for a, b in combinations(panel.map.labels, 2):
            assert not a.rect.intersects(b.rect), (a.text, b.text)
        for swatch in place_of(panel).legend:
            assert not any(swatch.rect.intersects(label.rect) for label in panel.map.labels)
        strips = [place_of(panel).strip_area(quantity) for quantity in ("q", "k", "v")]
        reach = panel.theme.px(3)  # by which a loaded tile stands out of its strip
        strips = [strip.adjusted(-reach, -reach, reach, reach) for strip in strips]
        assert not any(strip.intersects(label.rect) for strip in strips for label in panel.map.labels)
        caption = panel.caption_label
        assert caption.fontMetrics().horizontalAdvance(caption.text()) <= caption.width()
        assert "…" not in caption.text() and caption.text()


def test_first_row_and_key_of_the_tile_at_hand_are_labelled(qtbot: QtBot) -> None:
    panel, _ = shown(qtbot, frame_at(OPENING, Position(0, 5, 9, "row_max")))
    assert {"640", "576", "0", "1,023"} <= set(texts(panel))
    legend = {"now", "done", "to come", "partly masked", "skipped 56 of 128: 44 %"}
    assert {"Q", "Kᵀ", "V"} | legend <= set(texts(panel))
    assert panel.caption_label.text() == "program 6 of 16 · tile 10 of 12"


def test_the_legend_says_only_what_is_there(qtbot: QtBot) -> None:
    panel, _ = shown(qtbot, frame_at(OPENING.change(causal=False), 40))
    assert "skipped 0 of 128" in texts(panel)
    assert "partly masked" not in texts(panel) and not any("%" in text for text in texts(panel))
    large = Problem(seqlen_q=65536, seqlen_k=65536, heads=1, kv_heads=1)
    panel, _ = shown(qtbot, frame_at(large, 40))
    assert "to come" in texts(panel) and "partly masked" not in texts(panel)  # no hatch is drawn at this size
    panel, _ = shown(qtbot, frame_at(TOY, 40), (900, 600))
    assert {swatch.kind for swatch in place_of(panel).legend} == {
        "hand", "cells", "to come", "partial", "masked", "skipped"
    }  # fmt: skip
    assert {"scores", "masked", "masked to come"} <= set(texts(panel)) and "done" not in texts(panel)


def test_scores_are_shown_where_they_have_been_computed(qtbot: QtBot) -> None:
    tiles = ((1, 0), (2, 0), (2, 1))  # done, at hand, to come
    for step, scored in (("load_k", [True, False, False]), ("scores", [True, True, False])):
        panel, _ = shown(qtbot, frame_at(TOY, Position(0, 2, 0, step)), (900, 600))
        picture, place = panel.map.grab().toImage(), place_of(panel)
        colors = []
        for tile in tiles:
            rect = place.tile_rect(*tile).adjusted(8, 40, -8, -8).toRect()
            points = [(x, y) for x in range(rect.left(), rect.right(), 9) for y in range(rect.top(), rect.bottom(), 9)]
            colors.append(len({picture.pixelColor(x, y).name() for x, y in points}) > 5)
        assert colors == scored


def test_grouped_heads_are_named_on_the_strips(qtbot: QtBot) -> None:
    panel, _ = shown(qtbot, frame_at(GROUPED, Position(5, 1, 0, "scores")))
    assert {"Q₅", "K₁ᵀ", "V₁"} <= set(texts(panel))
    assert panel.head_box.currentText() == "head 5 · kv head 1"


def test_a_problem_with_other_key_heads_renames_the_strips(qtbot: QtBot) -> None:
    panel, _ = shown(qtbot, frame_at(GROUPED, Position(5, 1, 0, "scores")))
    panel.show_frame(frame_at(GROUPED.change(kv_heads=8), Position(5, 1, 0, "scores")))
    assert {"Q", "Kᵀ", "V"} <= set(texts(panel))
    assert panel.head_box.currentText() == "head 5"


def test_ragged_last_tiles_have_their_true_width(qtbot: QtBot) -> None:
    p = next(p.state.problem for p in PRESETS if p.name == "Ragged tail")
    panel, _ = shown(qtbot, frame_at(p, 3))
    place, tiling = place_of(panel), Tiling(p)
    last, whole = place.tile_rect(0, tiling.num_k_blocks - 1), place.tile_rect(0, 0)
    assert last.width() / whole.width() == pytest.approx((333 - 5 * 64) / 64, abs=0.04)
    assert last.right() == pytest.approx(place.map_rect.right())


@pytest.mark.parametrize("q, k", [(128, 65536), (4096, 128), (1, 4096), (1024, 1), (1024, 0)])
def test_unequal_lengths_stay_usable(qtbot: QtBot, q: int, k: int) -> None:
    panel, _ = shown(qtbot, frame_at(Problem(seqlen_q=q, seqlen_k=k, causal=False, heads=1, kv_heads=1), 1))
    area = place_of(panel).map_rect
    assert 0.4 <= area.width() / area.height() <= 2.5
    assert max(area.width(), area.height()) > 250


def test_no_queries_says_why(qtbot: QtBot) -> None:
    panel, changes = shown(qtbot, resolve(State(problem=Problem(seqlen_q=0)), Tape(Problem(seqlen_q=0)), RunView()))
    assert "seqlen_q is 0" in panel._nothing.text()
    assert panel.strip_rect("q").isEmpty() and panel.output_rect().isEmpty() and not changes


def test_the_caption_comes_back_after_an_empty_frame(qtbot: QtBot) -> None:
    frame, nothing = frame_at(OPENING, 437), Problem(seqlen_q=0)
    panel, _ = shown(qtbot, frame)
    panel.show_frame(resolve(State(problem=nothing), Tape(nothing), RunView()))
    assert panel.caption_label.text() == ""
    panel.show_frame(frame)
    assert panel.caption_label.text() == "program 7 of 16 · tile 4 of 14"


# the strips and the way out


def test_strip_rects_lie_beside_the_tile_at_hand(qtbot: QtBot) -> None:
    frame = frame_at(OPENING, Position(1, 5, 9, "load_v"))
    panel, _ = shown(qtbot, frame)
    place = place_of(panel)
    hand = place.tile_rect(5, 9).toAlignedRect().translated(panel.map.mapTo(panel, QPoint()))
    q, k, v = (panel.strip_rect(name) for name in "qkv")
    assert (q.top(), q.bottom()) == (hand.top(), hand.bottom()) and q.right() < hand.left()
    assert (k.left(), k.right()) == (hand.left(), hand.right()) and k.bottom() < hand.top()
    assert (v.left(), v.right()) == (hand.left(), hand.right()) and v.top() > hand.bottom()
    assert panel.rect().contains(q) and panel.rect().contains(k) and panel.rect().contains(v)


def test_outside_the_loop_only_q_is_at_hand(qtbot: QtBot) -> None:
    panel, _ = shown(qtbot, frame_at(OPENING, Position(0, 3, -1, "store")))
    assert panel.strip_rect("k").isEmpty() and panel.strip_rect("v").isEmpty()
    q, out = panel.strip_rect("q"), panel.output_rect()
    assert (out.top(), out.bottom()) == (q.top(), q.bottom()) and out.left() > q.right()
    assert panel.rect().contains(out)


@pytest.mark.parametrize("step, quantity", [("load_k", "k"), ("load_v", "v")])
def test_a_loaded_strip_tile_stands_out(qtbot: QtBot, step: str, quantity: str) -> None:
    panel, _ = shown(qtbot, frame_at(OPENING, Position(0, 5, 4, step)))
    rect = panel.strip_rect(quantity)
    loading = panel.grab().toImage()
    panel.show_frame(frame_at(OPENING, Position(0, 5, 4, "scores")))
    still = panel.grab().toImage()
    frame = QPoint(rect.center().x(), rect.top() - 2)
    assert loading.pixelColor(frame).name() == panel.theme.text
    assert still.pixelColor(frame).name() == panel.theme.panel
    assert still.pixelColor(rect.center()) == panel.theme.color(quantity)


def test_o_leaves_at_the_store_only(qtbot: QtBot) -> None:
    panel, _ = shown(qtbot, frame_at(OPENING, Position(0, 3, -1, "store")))
    at = panel.output_rect().topLeft() + QPoint(3, 3)
    assert panel.grab().toImage().pixelColor(at) == panel.theme.color("o")
    panel.show_frame(frame_at(OPENING, Position(0, 3, -1, "normalise")))
    assert panel.grab().toImage().pixelColor(at).name() == panel.theme.panel


# clicks


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_a_click_goes_to_the_first_step_of_the_tile(qtbot: QtBot, preset) -> None:
    p = preset.state.problem
    tiling, head = Tiling(p), p.num_heads - 1
    panel, changes = shown(qtbot, frame_at(p, Position(head, tiling.num_q_blocks - 1, -1, "store")))
    for block in {tiling.num_q_blocks - 1, tiling.num_q_blocks // 2}:
        for tile in {0, int(tiling.visited[block]) - 1} - {-1}:
            changes.clear()
            click(qtbot, panel, place_of(panel).tile_rect(block, tile).center())
            assert changes == [{"step": tiling.index(Position(head, block, tile, "load_k"))}]


def test_a_click_on_a_skipped_tile_says_why(qtbot: QtBot) -> None:
    panel, changes = shown(qtbot, frame_at(OPENING, Position(0, 5, 9, "scores")), (900, 600))
    at = place_of(panel).tile_rect(1, 9).center()
    click(qtbot, panel, at)
    assert not changes
    why = "row 255, the last of the block, sees keys up to 255"
    assert panel.caption_label.text() == f"skipped: every key comes after every row: {why}"
    panel.resize(440, 480)
    assert panel.caption_label.text() == "skipped: every key after every row"
    at = place_of(panel).tile_rect(1, 9).center()
    text, rect = panel.map.words(at)
    assert "skipped: every key comes after every row" in text and "sees keys up to 255" in text
    assert rect == place_of(panel).tile_rect(1, 9).toAlignedRect()


def test_clicks_on_the_strips_go_to_the_loads(qtbot: QtBot) -> None:
    tiling = Tiling(OPENING)
    panel, changes = shown(qtbot, frame_at(OPENING, Position(1, 5, 9, "scores")))
    place = place_of(panel)
    click(qtbot, panel, place.strip_tile("q", 2).center())
    click(qtbot, panel, place.strip_tile("k", 3).center())
    click(qtbot, panel, place.strip_tile("v", 4).center())
    click(qtbot, panel, place.strip_tile("k", 15).center())
    assert changes == [
        {"step": tiling.index(Position(1, 2, -1, "load_q"))},
        {"step": tiling.index(Position(1, 5, 3, "load_k"))},
        {"step": tiling.index(Position(1, 5, 4, "load_v"))},
    ]


def test_tooltips_tell_what_a_tile_is(qtbot: QtBot) -> None:
    panel, _ = shown(qtbot, frame_at(OPENING, Position(0, 5, 9, "scores")))
    place = place_of(panel)

    def words(block: int, tile: int) -> str:
        return panel.map.words(place.tile_rect(block, tile).center())[0]

    assert words(5, 9) == "rows 640 … 767 × keys 576 … 639\nfull, at hand: every row sees every key"
    assert words(5, 3).splitlines()[1].startswith("full, done")
    assert words(5, 11) == "rows 640 … 767 × keys 704 … 767\npartly masked, to come: row 640 sees keys up to 640"
    assert panel.map.words(place.strip_tile("v", 2).center())[0] == "v tile: keys 128 … 191 of kv head 0"
    assert panel.map.words(QPointF(1, 1)) == ("", panel.map.words(QPointF(1, 1))[1])


def test_another_head_shows_the_same_block_and_tile(qtbot: QtBot) -> None:
    tiling = Tiling(GROUPED)
    here = Position(2, 3, 1, "row_max")
    panel, changes = shown(qtbot, frame_at(GROUPED, here))
    assert panel.head_box.isVisibleTo(panel) and panel.head_box.count() == 8
    panel.head_box.activated.emit(7)
    panel.head_box.activated.emit(2)
    assert changes == [{"step": tiling.index(here._replace(head=7))}]


def test_a_single_head_has_no_selector(qtbot: QtBot) -> None:
    panel, _ = shown(qtbot, frame_at(PRESETS[1].state.problem, 5))
    assert not panel.head_box.isVisibleTo(panel)


# the map


def test_the_wheel_zooms_at_the_pointer_and_0_shows_all(qtbot: QtBot) -> None:
    panel, changes = shown(qtbot, frame_at(OPENING, 100))
    whole = place_of(panel)
    at = whole.tile_rect(5, 3).center()
    key, row = whole.keys.element(at.x()), whole.rows.element(at.y())
    wheel(panel, at, 4)
    near = place_of(panel)
    assert near.zoom == pytest.approx(1.2**4)
    assert near.keys.element(at.x()) == pytest.approx(key) and near.rows.element(at.y()) == pytest.approx(row)
    assert panel.map.fit_button.isVisible()
    qtbot.keyClick(panel.map, Qt.Key.Key_0)
    assert place_of(panel).keys == whole.keys and not panel.map.fit_button.isVisible()
    wheel(panel, at, -3)
    assert place_of(panel).keys == whole.keys
    assert not changes


def test_a_drag_pans_and_is_no_click(qtbot: QtBot) -> None:
    panel, changes = shown(qtbot, frame_at(OPENING, 100))
    middle = place_of(panel).map_rect.center()
    wheel(panel, middle, 6)
    before = place_of(panel)
    start = middle.toPoint()
    qtbot.mousePress(panel.map, Qt.MouseButton.LeftButton, pos=start)
    qtbot.mouseMove(panel.map, start + QPoint(40, -30))
    qtbot.mouseRelease(panel.map, Qt.MouseButton.LeftButton, pos=start + QPoint(40, -30))
    after = place_of(panel)
    assert after.keys.element(start.x() + 40) == pytest.approx(before.keys.element(start.x()))
    assert after.rows.element(start.y() - 30) == pytest.approx(before.rows.element(start.y()))
    assert not changes


def test_a_double_click_shows_all_and_goes_back(qtbot: QtBot) -> None:
    frame = frame_at(OPENING, Position(0, 5, 9, "scores"))
    panel, changes = shown(qtbot, frame)
    panel.change.connect(lambda change: panel.show_frame(frame_at(OPENING, change["step"])))
    place = place_of(panel)
    wheel(panel, place.tile_rect(2, 1).center(), 4)
    at = place_of(panel).tile_rect(2, 1).center()
    click(qtbot, panel, at)
    qtbot.mouseDClick(panel.map, Qt.MouseButton.LeftButton, pos=at.toPoint())
    assert panel.map.zoom == 1
    assert frame.transport is not None
    assert changes[-1] == {"step": frame.transport.index} and len(changes) == 2


@given(st.lists(st.tuples(st.floats(0.3, 3), st.floats(-50, 500), st.floats(-50, 500)), max_size=8))
@settings(max_examples=25, deadline=None)
def test_any_zooming_stays_on_the_matrix(moves: list[tuple[float, float, float]]) -> None:
    panel = TilesPanel(theme.theme("dark"))
    try:
        panel.resize(440, 480)
        panel.show_frame(frame_at(OPENING, 437))
        for factor, x, y in moves:
            panel.map.zoom_at(factor, QPointF(x, y))
            place = place_of(panel)
            assert 1 <= place.zoom <= place.max_zoom
            for axis in (place.keys, place.rows):
                assert -1e-6 <= axis.low < axis.high <= axis.length + 1e-6
    finally:
        panel.deleteLater()


def test_a_zoomed_map_follows_the_tile_that_was_in_view(qtbot: QtBot) -> None:
    tape = Tape(OPENING)

    def at(position: Position) -> Frame:
        return resolve(State(problem=OPENING, step=tape.tiling.index(position)), tape, RunView())

    panel, _ = shown(qtbot, at(Position(0, 2, 0, "scores")))
    panel.map.set_range(4.0, (0.1, 0.3))
    panel.show_frame(at(Position(0, 6, 12, "scores")))
    place = place_of(panel)
    assert place.map_rect.contains(place.tile_rect(6, 12).center())
    panel.map.set_range(4.0, (0.9, 0.1))
    panel.show_frame(at(Position(0, 6, 13, "scores")))
    assert place_of(panel).center == pytest.approx((0.875, 0.125))


def test_another_shape_shows_the_whole_matrix_again(qtbot: QtBot) -> None:
    panel, _ = shown(qtbot, frame_at(OPENING, 100))
    panel.map.set_range(4.0, (0.5, 0.5))
    panel.show_frame(frame_at(OPENING.change(seed=3), 100))
    assert panel.map.zoom == 4
    panel.show_frame(frame_at(OPENING.change(seqlen_k=512), 100))
    assert panel.map.zoom == 1


@pytest.mark.parametrize("block_m, block_n", [(128, 64), (16, 16)])
def test_the_tile_at_hand_is_seen_at_65536(qtbot: QtBot, block_m: int, block_n: int) -> None:
    p = Problem(seqlen_q=65536, seqlen_k=65536, heads=1, kv_heads=1, block_m=block_m, block_n=block_n)
    tape = Tape(p)
    position = Position(0, len(tape.tiling.full) * 2 // 3, 3, "load_k")
    panel, changes = shown(qtbot, frame_at(p, position))
    place = place_of(panel)
    assert panel.frame is not None and panel.frame.tiles is not None
    hand = place.hand_rect(panel.frame.tiles)
    assert min(hand.width(), hand.height()) >= 5
    picture = panel.map.grab().toImage()
    assert picture.pixelColor(hand.center().toPoint()).name() == panel.theme.text
    # zoomed in, single tiles can be hit
    panel.map.zoom_at(300, place.tile_rect(position.block, 3).center())
    click(qtbot, panel, place_of(panel).tile_rect(position.block, 3).center())
    assert changes == [{"step": tape.tiling.index(position)}]


def test_stepping_makes_no_new_picture(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    tape = Tape(OPENING)
    panel, _ = shown(qtbot, resolve(State(problem=OPENING, step=400), tape, RunView()))
    calls = []
    monkeypatch.setattr("visualizer.panels.tiles_paint.tile_codes", lambda *a: calls.append(a))
    for step in range(401, 440):
        panel.show_frame(resolve(State(problem=OPENING, step=step), tape, RunView()))
        panel.map.repaint()
    assert not calls


def test_keys_that_belong_to_the_window_are_left_alone(qtbot: QtBot) -> None:
    panel, changes = shown(qtbot, frame_at(OPENING, 100))
    panel.map.setFocus()
    before = panel.map._range
    for key in (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Space, Qt.Key.Key_Home, Qt.Key.Key_End):
        qtbot.keyClick(panel.map, key)
    assert panel.map._range == before and not changes


def test_another_theme_and_zoom_are_taken_over(qtbot: QtBot) -> None:
    panel, _ = shown(qtbot, frame_at(OPENING, 437))
    small = place_of(panel).strip
    panel.set_theme(theme.theme("light", 1.5))
    assert place_of(panel).strip > small
    assert panel.map.grab().toImage().pixelColor(1, 1).name() == panel.theme.panel


def test_controls_can_be_found_and_reached(qtbot: QtBot) -> None:
    panel, _ = shown(qtbot, frame_at(OPENING, 437))
    for widget in (panel.map, panel.head_box, panel.map.fit_button):
        assert widget.accessibleName()
        assert widget.focusPolicy() & Qt.FocusPolicy.TabFocus


def test_tiles_in_view_lie_one_after_another() -> None:
    axis = Axis(333, 64, 10, 200, 20.5, 250.25, 2.0)
    starts = axis.edges(np.array(axis.tiles()))
    assert all(a < b for a, b in pairwise(starts))
    assert [axis.tile_at(sum(axis.span(t)) / 2) for t in list(axis.tiles())[1:-1]] == list(axis.tiles())[1:-1]


def test_a_narrow_tile_at_hand_carries_no_words(qtbot, monkeypatch):
    problem = Problem(heads=1, kv_heads=1, seqlen_q=300, seqlen_k=333, head_dim=16, block_m=64)
    tape = Tape(problem)
    said = []

    class Painter(QPainter):
        def drawText(self, *args):
            said.extend(args[-1].split("\n"))
            super().drawText(*args)

    monkeypatch.setattr("visualizer.panels.tiles_map.QPainter", Painter)
    panel = TilesPanel(theme.DARK)
    qtbot.addWidget(panel)
    panel.resize(600, 500)
    for iteration, words in ((4, True), (5, False)):
        step = tape.tiling.index(Position(0, 4, iteration, "load_k"))
        panel.show_frame(resolve(State(problem=problem, step=step), tape, RunView()))
        said.clear()
        panel.map.grab()
        assert ("row 256" in said) == words
