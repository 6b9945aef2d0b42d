"""The chip panel: which numbers stand where, what is marked, what clicks and keys ask for, nothing cut off."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QColor, QFontMetrics, QImage, QPainter
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from kernel.problem import Problem
from kernel.tiling import Position
from visualizer import theme
from visualizer.frame import Frame, RunView
from visualizer.numbers import MINUS, number
from visualizer.panels.chip import ChipPanel
from visualizer.panels.chip_layout import lay_out
from visualizer.panels.heatmap import to_index
from visualizer.panels.lse import LsePanel
from visualizer.panels.rows import RowsPanel
from visualizer.panels.tiles import TilesPanel
from visualizer.presets import PRESETS
from visualizer.resolve import resolve
from visualizer.state import State
from visualizer.tape import Tape

TOY = next(p.state.problem for p in PRESETS if p.name.startswith("Toy"))
SIZES = [(480, 480), (900, 600), (440, 400), (1900, 1000)]
LOOKS = [("dark", 1.0), ("light", 1.5)]


@pytest.fixture(autouse=True)
def fonts(qapp: QApplication) -> None:
    theme.load_fonts()
    theme.apply(qapp, theme.theme("dark"))


def frame_at(problem: Problem, step: str, iteration: int = 0, block: int = 1, row: int = 5, **options) -> Any:
    tape = Tape(problem)
    inside = step not in ("load_q", "normalise", "store")
    index = tape.tiling.index(Position(0, block, iteration if inside else -1, step))
    return resolve(State(problem=problem, step=index, row=row, **options), tape, RunView())


def shown(qtbot: QtBot, frame: Frame, size=(480, 480), look=("dark", 1.0)) -> tuple[Any, list[dict]]:
    panel = ChipPanel(theme.theme(*look))
    qtbot.addWidget(panel)
    panel.resize(*size)
    panel.show()
    panel.show_frame(frame)
    QApplication.processEvents()
    changes: list[dict] = []
    panel.change.connect(changes.append)
    return panel, changes


def middle_of(panel: Any, place: str, i: int, j: int) -> QPoint:
    slot = panel.canvas.slots[place]
    rows, cols = slot.values.shape
    rect = slot.filled
    return QPoint(rect.x() + int((j + 0.5) * rect.width() / cols), rect.y() + int((i + 0.5) * rect.height() / rows))


def test_every_place_holds_what_the_view_holds(qtbot):
    frame = frame_at(TOY, "accumulate")
    panel, _ = shown(qtbot, frame)
    view, slots = frame.chip, panel.canvas.slots
    assert view is not None
    for place, values in (
        ("q", view.q),
        ("k", view.k.T),
        ("v", view.v),
        ("matrix", view.p),
        ("acc", view.acc),
        ("m", view.m[:, None]),
        ("alpha", view.alpha[:, None]),
        ("l", view.l[:, None]),
    ):
        assert np.array_equal(slots[place].values, values), place
    assert slots["lse"].values is None
    assert slots["matrix"].quantity == "p"


@pytest.mark.parametrize(
    "step, places",
    [
        ("load_q", {"q", "m", "l", "acc"}),
        ("load_k", {"k"}),
        ("scores", {"matrix"}),
        ("row_max", {"m"}),
        ("alpha", {"alpha"}),
        ("exponentiate", {"matrix"}),
        ("denominator", {"l"}),
        ("rescale", {"acc"}),
        ("load_v", {"v"}),
        ("accumulate", {"acc"}),
        ("normalise", {"acc"}),
        ("store", {"acc", "lse"}),
    ],
)
def test_what_a_step_has_just_written_is_marked(qtbot, step, places):
    panel, _ = shown(qtbot, frame_at(TOY, step))
    assert {place for place, slot in panel.canvas.slots.by_place.items() if slot.fresh} == places


def test_what_is_not_held_is_an_empty_place_not_a_missing_one(qtbot):
    panel, _ = shown(qtbot, frame_at(TOY, "load_q"))
    slots = panel.canvas.slots
    assert {place for place, slot in slots.by_place.items() if not slot.held} == {"k", "v", "matrix", "alpha", "lse"}
    assert all(slot.rect.width() > 10 and slot.rect.height() > 10 for slot in slots.by_place.values())
    assert slots["m"].uniform == "−∞"
    assert (slots["l"].uniform, slots["acc"].uniform) == ("0", "0")
    assert ("nothing", "−∞") in slots.legend()


def test_masked_scores_are_handed_to_the_picture_as_masked(qtbot):
    frame = frame_at(TOY, "mask", iteration=1)
    panel, _ = shown(qtbot, frame)
    slot = panel.canvas.slots["matrix"]
    assert np.array_equal(slot.keep, np.tril(np.ones((16, 16), bool)))
    assert ("masked", "masked") in panel.canvas.slots.legend()
    before, _ = shown(qtbot, frame_at(TOY, "scores", iteration=1))
    assert before.canvas.slots["matrix"].keep is None


def test_nan_is_counted_beside_the_name(qtbot, tmp_path):
    rng = np.random.default_rng(1)
    tensors = {name: rng.normal(size=(1, 1, 64, 16)).astype(np.float16) for name in "qkv"}
    tensors["k"][0, 0, 3, 2] = np.nan
    np.savez(tmp_path / "nan.npz", allow_pickle=False, **tensors)
    panel, _ = shown(qtbot, frame_at(TOY.change(inputs=str(tmp_path / "nan.npz"), causal=False), "scores"))
    assert panel.canvas.slots["k"].note == "1 NaN"
    assert panel.canvas.slots["matrix"].note == "16 NaN"
    assert panel.canvas.slots["q"].note == "16×16"
    assert ("nan", "not a number") in panel.canvas.slots.legend()
    assert panel.canvas.grab().toImage().width() > 0


def test_a_ragged_tile_fills_its_part_of_the_place(qtbot):
    p = Problem(heads=1, kv_heads=1, seqlen_q=24, seqlen_k=40, head_dim=16, block_m=16, block_n=32, causal=False)
    panel, _ = shown(qtbot, frame_at(p, "exponentiate", iteration=1))
    slot = panel.canvas.slots["matrix"]
    assert slot.values.shape == (8, 8)
    assert abs(slot.filled.width() * 4 - slot.rect.width()) <= 4
    assert abs(slot.filled.height() * 2 - slot.rect.height()) <= 2


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
@pytest.mark.parametrize("look", LOOKS)
def test_nothing_overlaps_and_no_line_is_cut(qtbot, preset, look):
    tape = Tape(preset.state.problem)
    for size in SIZES[:3]:
        for index in range(0, min(len(tape), 60), 7):
            frame = resolve(preset.state.change(step=index), tape, RunView())
            panel, _ = shown(qtbot, frame, size, look)
            assert panel.size().toTuple() == size
            places = [slot.rect for slot in panel.canvas.slots.by_place.values()]
            assert all(panel.canvas.rect().contains(rect) for rect in places)
            assert not any(a.intersects(b) for a, b in combinations(places, 2))
            box = panel.equations
            assert box.lines
            for line in box.lines:
                assert box.rect().contains(line.rect)
                assert QFontMetrics(box._font).horizontalAdvance(line.text) <= line.rect.width() + 1
                if line.note_rect is not None:
                    assert box.rect().contains(line.note_rect)
            assert not any(a.rect.intersects(b.rect) for a, b in combinations(box.lines, 2))
            metrics = QFontMetrics(panel.caption_label.font())
            assert metrics.horizontalAdvance(panel.caption_label.text()) <= panel.caption_label.width()


def test_the_newest_equation_is_never_the_one_left_out(qtbot):
    frame = frame_at(Problem(), "accumulate")
    assert frame.chip is not None
    for size in ((480, 300), (480, 480), (900, 600)):
        panel, _ = shown(qtbot, frame, size, ("dark", 1.5))
        text = " ".join(line.text.strip() for line in panel.equations.lines)
        assert frame.chip.equations[-1].text in text
    panel, _ = shown(qtbot, frame, (900, 600))
    text = " ".join(line.text.strip() for line in panel.equations.lines)
    assert all(e.text in text for e in frame.chip.equations)


@pytest.mark.parametrize("size", [(900, 600), (480, 480), (455, 420)])
def test_each_quantity_keeps_its_line_while_the_program_loops(qtbot, size):
    seen: dict[str, set[int]] = {}
    steps = ("load_k", "scores", "row_max", "alpha", "exponentiate", "denominator", "rescale", "load_v", "accumulate")
    for step in steps:
        frame = frame_at(TOY, step, iteration=1)
        assert frame.chip is not None
        panel, _ = shown(qtbot, frame, size)
        lines = panel.equations.lines[1:]
        assert len(lines) == 6
        for e in frame.chip.equations:
            seen.setdefault(e.quantity, set()).add(next(n for n, line in enumerate(lines) if line.text == e.text))
        wrote = frame.chip.fresh & {"s", "m", "alpha", "p", "l", "acc"}
        assert {line.fresh for line in lines if line.fresh} == wrote, step
    assert sorted(seen.values(), key=min) == [{0}, {1}, {2}, {3}, {4}, {5}]


@pytest.mark.parametrize("size", [(900, 600), (480, 480), (455, 420)])
def test_the_end_of_a_program_shows_how_the_row_becomes_o_and_its_l(qtbot, size):
    places: dict[str, set[int]] = {}
    for step, wrote in (("normalise", {"o"}), ("store", {"o", "lse"})):
        frame = frame_at(TOY, step)
        panel, _ = shown(qtbot, frame, size)
        assert frame.chip is not None
        lines = panel.equations.lines[1:]
        texts = [line.text for line in lines]
        for e in frame.chip.equations:
            places.setdefault(e.quantity, set()).add(texts.index(e.text))
        ends = {e.quantity: e.text.rpartition(" = ")[2] for e in frame.chip.equations}
        assert f"o[0] = acc[0] / l = {ends['acc']} / {ends['l']} = {ends['o']}" in texts
        assert {line.fresh for line in lines if line.fresh} == wrote
        assert len(lines) == 5
    assert places == {"m": {0}, "l": {1}, "acc": {2}, "o": {3}, "lse": {4}}


def test_a_click_on_a_row_selects_it(qtbot):
    panel, changes = shown(qtbot, frame_at(TOY, "accumulate"))
    for place, row in (("q", 0), ("matrix", 7), ("m", 9), ("acc", 15)):
        qtbot.mouseClick(panel.canvas, Qt.MouseButton.LeftButton, pos=middle_of(panel, place, row, 0))
    qtbot.mouseClick(panel.canvas, Qt.MouseButton.LeftButton, pos=middle_of(panel, "k", 3, 3))
    assert changes == [{"row": 0}, {"row": 7}, {"row": 9}, {"row": 15}]


def test_keys_move_the_row_and_stop_at_the_ends(qtbot):
    panel, changes = shown(qtbot, frame_at(TOY, "accumulate", row=14))
    for key in (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageDown, Qt.Key.Key_PageUp):
        qtbot.keyClick(panel.canvas, key)
    assert changes == [{"row": 13}, {"row": 15}, {"row": 15}, {"row": 0}]
    at_end, none = shown(qtbot, frame_at(TOY, "accumulate", row=15))
    qtbot.keyClick(at_end.canvas, Qt.Key.Key_Down)
    assert none == []


def test_the_switch_asks_for_scores_or_probabilities(qtbot):
    panel, changes = shown(qtbot, frame_at(TOY, "accumulate"))
    assert panel.switch.value == "auto"
    qtbot.mouseClick(panel.switch.buttons["s"], Qt.MouseButton.LeftButton)
    assert changes == [{"matrix": "s"}]
    panel.show_frame(frame_at(TOY, "accumulate", matrix="s"))
    assert (panel.switch.value, panel.canvas.slots["matrix"].quantity) == ("s", "s")
    assert len(changes) == 1


def test_hovering_tells_where_a_value_came_from_and_marks_it(qtbot):
    frame = frame_at(TOY, "accumulate")
    panel, _ = shown(qtbot, frame)
    view = frame.chip
    assert view is not None
    qtbot.mouseMove(panel.canvas, middle_of(panel, "matrix", 2, 3))
    assert panel.canvas.hovered == ("matrix", 2, 3)
    first, second, third = panel.canvas.explanation(("matrix", 2, 3))
    assert (first, third) == ("p[18, 3] = 2^(s·scale − m)", f"= {number(view.p[2, 3])}")
    assert f"2^({number(view.s[2, 3])}·{number(view.qk_scale)}" in second
    tip = next(w for w in QApplication.topLevelWidgets() if isinstance(w, QLabel) and first in w.text())
    metrics = QFontMetrics(panel.theme.code_font(12))
    assert tip.width() >= max(map(metrics.horizontalAdvance, (first, second, third)))
    assert tip.height() < 4 * metrics.height() + 2 * tip.margin(), "a line is broken"
    key = panel.canvas.explanation(("k", 4, 6))
    assert key[0] == f"k[6, 4] = {number(view.k[6, 4])}"
    panel.show_frame(frame_at(TOY, "load_q"))
    assert panel.canvas.hovered is None


def test_places_for_the_flying_tile_are_in_the_panels_coordinates(qtbot):
    panel, _ = shown(qtbot, frame_at(TOY, "load_q"))
    for quantity, place in (("q", "q"), ("k", "k"), ("s", "matrix"), ("p", "matrix"), ("o", "acc"), ("alpha", "alpha")):
        rect = panel.slot_rect(quantity)
        inner = panel.canvas.slots[place].filled
        assert rect.size() == inner.size()
        assert panel.mapToGlobal(rect.topLeft()) == panel.canvas.mapToGlobal(inner.topLeft())


def test_pictures_are_kept_while_their_numbers_stay(qtbot):
    tape = Tape(TOY)
    panel, _ = shown(qtbot, resolve(State(problem=TOY, step=20), tape, RunView()))
    panel.grab()
    before = {place: slot.pixmap for place, slot in panel.canvas.slots.by_place.items()}
    frame = resolve(State(problem=TOY, step=21), tape, RunView())
    panel.show_frame(frame)
    panel.grab()
    redrawn = {p for p, slot in panel.canvas.slots.by_place.items() if slot.held and slot.pixmap is not before[p]}
    assert frame.chip is not None
    fresh = {slot for slot in panel.canvas.slots.by_place if panel.canvas.slots[slot].fresh}
    assert redrawn == fresh


def test_another_theme_draws_with_its_own_colours(qtbot, qapp):
    panel, _ = shown(qtbot, frame_at(TOY, "exponentiate"))
    look = theme.theme("light", 1.5)
    panel.set_theme(look)
    image = panel.canvas.grab().toImage()
    slot = panel.canvas.slots["q"]
    index = to_index(slot.values[1:2, :1], slot.levels)[0, 0]
    at = middle_of(panel, "q", 1, 0)
    assert image.pixelColor(at).rgb() == panel.canvas.slots._table("q")[index]


def test_more_bytes_than_an_sm_has_are_said_to_be_too_many(qtbot):
    big = Problem(head_dim=256, block_m=256, block_n=256, dtype="float32")
    panel, _ = shown(qtbot, frame_at(big, "accumulate", block=0))
    assert "too much" in panel.caption_label.text()
    small, _ = shown(qtbot, frame_at(TOY, "accumulate"))
    assert small.caption_label.text().endswith("of 483 KiB held")


@given(
    st.integers(300, 2000),
    st.integers(200, 1200),
    st.integers(1, 256),
    st.integers(1, 256),
    st.integers(1, 256),
    st.sampled_from([1.0, 1.5]),
)
def test_places_fit_any_size_and_shape(width, height, rows, keys, dim, zoom):
    places = lay_out(width, height, (rows, keys, dim), theme.theme("dark", zoom))
    assert not any(a.intersects(b) for a, b in combinations(places.values(), 2))
    if width >= 400 * zoom and height >= 220 * zoom:
        assert all(QRect(0, 0, width, height).contains(rect) for rect in places.values())
    assert all(rect.width() >= 8 and rect.height() >= 8 for rect in places.values())
    assert len({places[name].y() for name in ("q", "matrix", "m", "acc")}) == 1
    assert (places["k"].x(), places["k"].width()) == (places["matrix"].x(), places["matrix"].width())


def test_a_narrow_header_takes_a_shorter_caption_and_never_a_cut_one(qtbot):
    frame = frame_at(Problem(), "accumulate")
    panel, _ = shown(qtbot, frame, (900, 600))
    assert panel.caption_label.text() == "82 KiB of 483 KiB held"
    assert frame.chip.caption == "82 KiB of 483 KiB held"
    for width, text in ((420, "82 KiB held"), (310, ""), (900, "82 KiB of 483 KiB held")):
        panel.resize(width, 480)
        QApplication.processEvents()
        assert panel.caption_label.text() == text


def test_the_focus_is_visible_to_those_who_come_by_keyboard(qtbot):
    panel, _ = shown(qtbot, frame_at(TOY, "accumulate"))
    panel.activateWindow()
    QApplication.processEvents()
    panel.canvas.setFocus(Qt.FocusReason.MouseFocusReason)
    without = panel.canvas.grab().toImage()
    panel.canvas.clearFocus()
    panel.canvas.setFocus(Qt.FocusReason.TabFocusReason)
    accent = theme.theme("dark").accent.lower()
    assert panel.canvas.grab().toImage().pixelColor(1, 40).name() == accent
    assert without.pixelColor(1, 40).name() != accent


def test_all_parts_have_names_for_screen_readers(qtbot):
    panel, _ = shown(qtbot, frame_at(TOY, "accumulate"))
    for widget in (panel, panel.canvas, panel.equations, panel.switch, *panel.switch.buttons.values()):
        assert widget.accessibleName()
    assert "α = 2^(" in panel.equations.accessibleDescription()


def test_what_is_still_to_come_stands_there_as_a_formula(qtbot):
    panel, _ = shown(qtbot, frame_at(TOY, "scores", iteration=1), (900, 600))
    muted = panel.theme.muted
    quiet = [line.text for line in panel.equations.lines if line.color.name() == muted][1:]  # the first is the heading
    assert quiet == [f"α = 2^(m {MINUS} m_new)", f"Σ p = Σ 2^(s·scale {MINUS} m_new)"]


def test_the_legend_says_where_scores_lie_beyond_its_colours(qtbot):
    frame = frame_at(TOY, "scores")
    panel, _ = shown(qtbot, frame, (900, 600))
    top = frame.chip.levels["s"][1]
    for factor, words in ((0.9, f"s {MINUS}{{0}} … {{0}}"), (1.1, f"s ≤ {MINUS}{{0}} … ≥ {{0}}")):
        s = np.zeros_like(frame.chip.matrix)
        s[0, :2] = factor * top, -factor * top
        panel.show_frame(replace(frame, chip=replace(frame.chip, matrix=s)))
        assert panel.canvas.slots.legend()[0] == ("scale", words.format(f"{top:.2f}".removesuffix(".00")))


@pytest.mark.parametrize("size", [(440, 480), (445, 420), (480, 480)])
def test_limits_of_scores_are_round_and_stand_in_narrow_panels_too(qtbot, size):
    frame = frame_at(Problem(), "scores", block=6)
    panel, _ = shown(qtbot, frame, size)
    slots = panel.canvas.slots
    assert slots.legend()[0] == ("scale", f"s ≤ {MINUS}6 … ≥ 6")
    samples = []
    slots._paint_sample = lambda painter, kind, box: samples.append(kind)
    panel.grab()
    assert set(samples) == {"scale", "nothing"}
    zero, _ = shown(qtbot, frame_at(Problem(sm_scale=0.0), "scores", block=6))
    assert zero.canvas.slots.legend()[0] == ("scale", f"s {MINUS}1 … 1")


@pytest.mark.parametrize("name", ["dark", "light"])
def test_negative_scores_and_negative_maxima_are_told_apart(name):
    look = theme.theme(name)
    low, high = look.signed_lut("s")[[0, -1]].astype(int)
    assert np.ptp(low) > 100 > np.ptp(high)  # violet; no hue
    red, green, blue = look.signed_lut("m")[0].astype(int)
    assert red - blue > 20 < green - blue  # yellow still


@pytest.mark.parametrize("look", LOOKS)
def test_the_sample_of_nothing_seen_is_lined_wherever_it_stands(qtbot, look):
    panel, _ = shown(qtbot, frame_at(TOY, "load_q"), look=look)
    ink, high = QColor(panel.theme.muted).rgb(), panel.theme.px(10)
    for y in range(8):
        image = QImage(40, 40, QImage.Format.Format_RGB32)
        with QPainter(image) as painter:
            panel.canvas.slots._paint_sample(painter, "nothing", QRect(2, y, panel.theme.px(22), high))
        assert sum(image.pixel(10, y + inner) == ink for inner in range(1, high)) == 2


@pytest.mark.parametrize("zoom", [1.0, 1.25, 1.5])
def test_a_header_with_a_switch_has_its_title_where_the_others_have_it(qtbot, qapp, zoom):
    look = theme.theme("dark", zoom)
    theme.apply(qapp, look)
    frame = resolve(State(problem=TOY, step=20), Tape(TOY), RunView())
    places = set()
    for kind in (ChipPanel, LsePanel, RowsPanel, TilesPanel):
        panel = kind(look)
        qtbot.addWidget(panel)
        panel.resize(600, 480)
        panel.show()
        panel.show_frame(frame)
        QApplication.processEvents()
        places.add((panel.title_label.geometry().center().y(), panel.caption_label.geometry().center().y()))
    assert len(places) == 1
