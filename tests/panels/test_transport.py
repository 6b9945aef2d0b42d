"""The transport: what it asks for, what the timeline shows, and that one row holds it all."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from kernel.problem import Problem
from kernel.tiling import Position, Tiling
from visualizer import theme
from visualizer.events import EVENTS
from visualizer.frame import Frame, RunView
from visualizer.panels.transport import SPEEDS, TransportPanel
from visualizer.presets import PRESETS
from visualizer.resolve import resolve
from visualizer.state import State
from visualizer.tape import Tape

OPENING = PRESETS[0].state.problem


@pytest.fixture(autouse=True)
def fonts(qapp: QApplication) -> None:
    theme.load_fonts()
    theme.apply(qapp, theme.theme("dark"))


def frame_at(problem: Problem, position: Position | int) -> Frame:
    tape = Tape(problem)
    step = position if isinstance(position, int) else tape.tiling.index(position)
    return resolve(State(problem=problem, step=step % len(tape)), tape, RunView())


def shown(
    qtbot: QtBot, frame: Frame, width: int = 1252, look: tuple = ("dark", 1.0)
) -> tuple[TransportPanel, list[dict]]:
    panel = TransportPanel(theme.theme(*look))
    qtbot.addWidget(panel)
    panel.resize(width, panel.sizeHint().height())
    panel.show()
    panel.show_frame(frame)
    QApplication.processEvents()
    changes: list[dict] = []
    panel.change.connect(changes.append)
    return panel, changes


def picture(panel: TransportPanel) -> QImage:
    return panel.timeline.grab().toImage()


def near(a: QColor, b: QColor) -> bool:
    return all(abs(x - y) <= 2 for x, y in zip(a.getRgb(), b.getRgb(), strict=True))


def test_buttons_ask_for_steps(qtbot: QtBot) -> None:
    panel, changes = shown(qtbot, frame_at(OPENING, 437))
    for button in (panel.first, panel.back, panel.step, panel.last):
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert changes == [{"step": 0}, {"step": 436}, {"step": 438}, {"step": 1375}]


def test_at_the_ends_there_is_no_way_on(qtbot: QtBot) -> None:
    panel, _ = shown(qtbot, frame_at(OPENING, 0))
    assert [b.isEnabled() for b in panel.buttons] == [False, False, True, True, True]
    panel.show_frame(frame_at(OPENING, -1))
    assert [b.isEnabled() for b in panel.buttons] == [True, True, True, False, False]
    assert panel.readout.lines[0] == "step 1,375 · last 1,375"


def test_play_speed_and_jumps_are_asked_for(qtbot: QtBot) -> None:
    panel, changes = shown(qtbot, frame_at(OPENING, 437))
    with qtbot.waitSignal(panel.play_toggled, timeout=1000):
        qtbot.mouseClick(panel.play, Qt.MouseButton.LeftButton)
    with qtbot.waitSignal(panel.speed_changed, timeout=1000) as speed:
        panel.speed_box.activated.emit(len(SPEEDS) - 1)
    assert speed.args == [64.0]
    jumps: list[tuple[str, bool]] = []
    panel.jump.connect(lambda event, forward: jumps.append((event, forward)))
    for action in panel.jump_button.menu().actions():
        action.trigger()
    assert jumps == [(event, forward) for forward in (True, False) for event in EVENTS]
    assert not changes


def test_enter_presses_a_button_and_space_is_left_to_the_window(qtbot: QtBot) -> None:
    panel, changes = shown(qtbot, frame_at(OPENING, 437))
    qtbot.keyClick(panel.step, Qt.Key.Key_Return)
    assert changes == [{"step": 438}]


def test_playing_and_speed_are_shown(qtbot: QtBot) -> None:
    panel, _ = shown(qtbot, frame_at(OPENING, 437))
    assert panel.play.accessibleName() == "Play"
    panel.set_playing(True)
    assert panel.play.accessibleName() == "Pause" and "space" in panel.play.toolTip()
    asked: list[float] = []
    panel.speed_changed.connect(asked.append)
    for speed, text in ((0.25, "¼×"), (0.5, "½×"), (16, "16×"), (1000, "64×"), (0, "¼×"), (3, "4×")):
        panel.set_speed(speed)
        assert panel.speed_box.currentText() == text
    assert not asked


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
@pytest.mark.parametrize("look", [("dark", 1.0), ("light", 1.0), ("dark", 1.5)], ids=str)
def test_one_row_holds_it_all_at_1280(qtbot: QtBot, preset, look: tuple) -> None:
    tape = Tape(preset.state.problem)
    panel, _ = shown(qtbot, resolve(preset.state, tape, RunView()), 1252, look)
    assert panel.height() <= 60 * look[1]
    # one step of every name
    steps = {tape.tiling.locate(step).step: step for step in range(len(tape))}
    for step in steps.values():
        frame = resolve(State(problem=tape.problem, step=step), tape, RunView())
        panel.show_frame(frame)
        panel.readout.repaint()
        assert not panel.readout.is_elided, panel.readout.lines
    widgets = [*panel.buttons, panel.speed_box, panel.jump_button, panel.timeline, panel.readout]
    for a, b in pairwise(widgets):
        assert a.geometry().right() < b.geometry().left()
    assert all(panel.body.rect().contains(w.geometry()) for w in widgets)
    labels = panel.timeline.heads()
    assert labels and all(a[0].right() < b[0].left() for a, b in pairwise(labels))
    assert all(panel.timeline.rect().toRectF().contains(rect) for rect, _ in labels)


def test_the_bands_are_the_programs(qtbot: QtBot) -> None:
    frame = frame_at(OPENING, 437)
    panel, _ = shown(qtbot, frame)
    line, view = panel.timeline, frame.transport
    assert view is not None and view.bands is not None
    image, ground = picture(panel), QColor(panel.theme.panel)
    y = round(line.bar.center().y())
    row = [image.pixelColor(x, y) for x in range(image.width())]
    inside = range(round(line.bar.left()) + 2, round(line.bar.right()) - 2)
    gaps = [x for x in inside if row[x] == ground]
    framed = int(view.bands.searchsorted(437, side="right"))
    for edge in np.delete(view.bands, [0, framed - 1, framed, -1]):
        assert any(abs(x - line.at(float(edge))) <= 2 for x in gaps), edge
    cursor = line.at(438)
    for x in gaps:
        assert abs(x - cursor) <= 4 or min(abs(x - line.at(float(edge))) for edge in view.bands) <= 2
    done, to_come = row[round(line.bar.left()) + 4], row[round(line.bar.right()) - 6]
    assert done.lightness() > to_come.lightness()
    assert near(row[round(cursor) - 30], done) and near(row[round(line.bar.right()) - 20], to_come)
    assert row[round(cursor)].name() == panel.theme.text


def test_many_programs_are_drawn_without_bands(qtbot: QtBot) -> None:
    p = Problem(batch=8, heads=128, kv_heads=8, seqlen_q=640, seqlen_k=64, block_m=128)
    frame = frame_at(p, 5000)
    assert frame.transport is not None and frame.transport.bands is None
    panel, changes = shown(qtbot, frame)
    labels = [text for _, text in panel.timeline.heads()]
    assert labels[0] == "batch 0 · head 0" and 2 < len(labels) < 20
    panel.last.click()
    assert changes == [{"step": frame.transport.total - 1}]


@given(st.integers(1, 40), st.integers(1, 12), st.floats(-20, 1000))
@settings(max_examples=60, deadline=None)
def test_a_pixel_is_the_step_whose_end_is_nearest(blocks: int, heads: int, pixel: float) -> None:
    p = Problem(heads=heads, kv_heads=1, seqlen_q=16 * blocks, seqlen_k=64, block_m=16)
    panel = TransportPanel(theme.theme("dark"))
    try:
        panel.resize(1252, 60)
        panel.show_frame(frame_at(p, 0))
        line = panel.timeline
        step = line.step_at(pixel)
        total = len(Tiling(p))
        assert 0 <= step < total
        pitch = line.bar.width() / total
        if line.at(1) <= pixel <= line.at(total):
            assert abs(line.at(step + 1) - pixel) <= pitch / 2 + 1e-6
        assert line.step_at(line.at(step + 1)) == step
    finally:
        panel.deleteLater()


def test_a_click_seeks_and_a_drag_scrubs(qtbot: QtBot) -> None:
    tape = Tape(OPENING)
    panel, changes = shown(qtbot, resolve(State(problem=OPENING, step=437), tape, RunView()))
    panel.change.connect(lambda change: panel.show_frame(resolve(State(problem=OPENING, **change), tape, RunView())))
    line = panel.timeline
    y = round(line.bar.center().y())
    spot = [QPoint(round(line.at(step)), y) for step in (200, 600, 1300)]
    qtbot.mousePress(line, Qt.MouseButton.LeftButton, pos=spot[0])
    assert changes == [{"step": line.step_at(spot[0].x())}]
    QApplication.processEvents()
    qtbot.mouseMove(line, spot[1])
    QApplication.processEvents()
    qtbot.mouseMove(line, spot[2])
    qtbot.mouseRelease(line, Qt.MouseButton.LeftButton, pos=spot[2])
    assert [change["step"] for change in changes] == [line.step_at(at.x()) for at in spot]
    qtbot.mouseMove(line, spot[0])
    assert len(changes) == 3


def test_scrubbing_waits_for_the_paint(qtbot: QtBot) -> None:
    panel, changes = shown(qtbot, frame_at(OPENING, 437))
    line = panel.timeline
    y = round(line.bar.center().y())
    qtbot.mousePress(line, Qt.MouseButton.LeftButton, pos=QPoint(100, y))
    for x in range(101, 140):
        qtbot.mouseMove(line, QPoint(x, y), delay=-1)
    assert len(changes) == 1
    line.repaint()
    QApplication.processEvents()
    assert changes[1:] == [{"step": line.step_at(139)}]
    qtbot.mouseRelease(line, Qt.MouseButton.LeftButton, pos=QPoint(139, y))
    assert len(changes) == 2


def test_events_of_the_program_at_hand_are_marked(qtbot: QtBot) -> None:
    tiling = Tiling(OPENING)
    panel, _ = shown(qtbot, frame_at(OPENING, Position(0, 5, 3, "scores")), 1440)
    line = panel.timeline
    store, partial = (tiling.index(Position(0, 5, i, step)) for i, step in ((-1, "store"), (10, "load_k")))
    assert line.events() == [(line.at(store), "store"), (line.at(partial), "partial tile")]
    image = picture(panel)
    for x, event in line.events():
        color = panel.theme.color("o" if event == "store" else "k")
        assert image.pixelColor(round(x), round(line.bar.top()) - 4) == color


def test_the_readout_wears_the_colour_of_its_quantity(qtbot: QtBot) -> None:
    for name in ("dark", "light"):
        panel, _ = shown(qtbot, frame_at(OPENING, Position(0, 5, 9, "row_max")), 1252, (name, 1.0))
        assert panel.readout.lines[1] == "row max  ·  m_new = max(m, row max of s, scaled)"
        image = panel.readout.grab().toImage()
        word = panel.theme.word("m")
        lower = [
            image.pixelColor(x, y) for x in range(image.width()) for y in range(image.height() // 2, image.height())
        ]
        assert any(near(color, word) for color in lower)


def test_filling_is_indicated_until_it_is_done(qtbot: QtBot) -> None:
    frame = frame_at(OPENING, 437)
    assert frame.transport is not None
    panel, _ = shown(qtbot, replace(frame, transport=replace(frame.transport, filled=0.5)))
    line = panel.timeline
    y = round(line.bar.bottom()) + 2
    half = line.at(float(frame.transport.bands[8])) if frame.transport.bands is not None else 0

    def is_marked(x: float) -> bool:
        return picture(panel).pixelColor(round(x), y).name() == panel.theme.muted

    assert is_marked(half - 4) and not is_marked(half + 4)
    assert "computed so far: 50 % of the programs" in line.words(300)
    panel.show_frame(replace(frame, transport=replace(frame.transport, filled=1.0)))
    assert not is_marked(half - 4) and "computed" not in line.words(300)


def test_the_tooltip_names_program_and_rows(qtbot: QtBot) -> None:
    tiling = Tiling(OPENING)
    panel, _ = shown(qtbot, frame_at(OPENING, 437), 1440)
    step = tiling.index(Position(1, 2, 3, "alpha"))
    words = panel.timeline.words(panel.timeline.at(step + 1))
    assert words.splitlines()[:2] == [f"step {step:,}: alpha", "program 11 of 16: head 1, rows 256 … 383"]


def test_the_tooltip_says_what_the_marks_mean(qtbot: QtBot) -> None:
    panel, _ = shown(qtbot, frame_at(OPENING, 437), 1440)
    line = panel.timeline
    marks = {event: x for x, event in line.events()}
    assert line.words(marks["store"]).splitlines()[2] == "purple mark: o and L leave"
    assert line.words(marks["partial tile"]).splitlines()[2].startswith("orange mark: partly masked tiles")
    assert "mark" not in line.words(marks["partial tile"] - 12)


def test_no_queries_say_why(qtbot: QtBot) -> None:
    p = Problem(seqlen_q=0)
    panel, changes = shown(qtbot, resolve(State(problem=p), Tape(p), RunView()))
    assert "seqlen_q is 0" in panel._nothing.text()
    panel.step.click()
    assert not changes


def test_stepping_makes_no_new_picture(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    tape = Tape(OPENING)
    panel, _ = shown(qtbot, resolve(State(problem=OPENING, step=400), tape, RunView()))
    monkeypatch.setattr("visualizer.panels.timeline._strip", lambda line: pytest.fail("made again"))
    for step in range(401, 430):
        panel.show_frame(resolve(State(problem=OPENING, step=step), tape, RunView()))
        panel.timeline.repaint()


def test_another_theme_and_zoom_are_taken_over(qtbot: QtBot) -> None:
    panel, _ = shown(qtbot, frame_at(OPENING, 437))
    small = panel.sizeHint().height()
    panel.set_theme(theme.theme("light", 1.5))
    QApplication.processEvents()
    assert panel.sizeHint().height() > 1.3 * small
    assert picture(panel).pixelColor(1, 1).name() == panel.theme.panel
    assert panel.step.width() == 48


def test_signs_are_drawn_and_differ(qtbot: QtBot) -> None:
    panel, _ = shown(qtbot, frame_at(OPENING, 437))
    arrays = [
        np.array(b.grab().toImage().convertToFormat(QImage.Format.Format_RGB32).constBits()) for b in panel.buttons
    ]
    assert all((a != b).sum() > 40 for a, b in pairwise(arrays))


def test_controls_can_be_found_and_reached(qtbot: QtBot) -> None:
    panel, _ = shown(qtbot, frame_at(OPENING, 437))
    for widget in (*panel.buttons, panel.speed_box, panel.jump_button):
        assert widget.accessibleName() and widget.toolTip()
        assert widget.focusPolicy() & Qt.FocusPolicy.TabFocus
    assert panel.timeline.accessibleName() and panel.readout.accessibleName()
    assert "step 437 · last 1,375" in panel.readout.accessibleDescription()
    assert panel.timeline.bar.contains(QPointF(panel.timeline.at(438), panel.timeline.bar.center().y()))
