"""The real window, without a screen, driven with keys."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QLabel, QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from visualizer.help import HelpDialog
from visualizer.panels.number_field import text_of
from visualizer.presets import PRESETS, Preset
from visualizer.settings import Settings
from visualizer.state import OPENING
from visualizer.window import Window

from .conftest import TOY

K = Qt.Key
CTRL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
NONE = Qt.KeyboardModifier.NoModifier


def press(window: QWidget, key: Qt.Key, modifiers: Qt.KeyboardModifier = NONE) -> None:
    """A key to whatever has the focus, as the window system sends it."""
    handle = window.windowHandle()
    assert handle is not None
    QTest.keyClick(handle, key, modifiers)


def typed(window: QWidget, text: str) -> None:
    handle = window.windowHandle()
    assert handle is not None
    for letter in text:
        QTest.keyClick(handle, letter)


def names_at(window: Window) -> str:
    return window.controller.tape.tiling.locate(window.controller.state.step).step


def test_arrows_step(window: Window) -> None:
    for key, step in ((K.Key_Right, 1), (K.Key_Right, 2), (K.Key_Left, 1), (K.Key_Left, 0), (K.Key_Left, 0)):
        press(window, key)
        assert window.controller.state.step == step


def test_home_and_end(window: Window) -> None:
    press(window, K.Key_End)
    assert window.controller.state.step == len(window.controller.tape) - 1
    press(window, K.Key_Home)
    assert window.controller.state.step == 0


def test_shift_goes_by_tile_and_ctrl_by_program(window: Window) -> None:
    locate = window.controller.tape.tiling.locate
    press(window, K.Key_Right, SHIFT)
    assert locate(window.controller.state.step) == (0, 0, 0, "load_k")
    press(window, K.Key_Right, SHIFT)
    assert locate(window.controller.state.step) == (0, 1, 0, "load_k")
    press(window, K.Key_Right, CTRL)
    assert locate(window.controller.state.step) == (0, 2, -1, "load_q")
    press(window, K.Key_Left, CTRL)
    press(window, K.Key_Right, SHIFT)
    press(window, K.Key_Left, SHIFT)
    assert locate(window.controller.state.step) == (0, 0, 0, "load_k")


def test_up_and_down_select_rows_of_the_block(window: Window) -> None:
    for key, row in ((K.Key_Down, 1), (K.Key_Down, 2), (K.Key_Up, 1), (K.Key_PageDown, 9), (K.Key_PageDown, 15)):
        press(window, key)
        assert window.controller.state.row == row
    for _ in range(3):
        press(window, K.Key_PageUp)
    assert window.controller.state.row == 0


def test_space_plays_to_the_end_and_from_the_start_again(window: Window, qtbot) -> None:
    told: list[bool] = []
    window.player.playback.playing_changed.connect(told.append)
    window.player.playback.speed = 400
    last = len(window.controller.tape) - 1
    press(window, K.Key_Space)
    qtbot.waitUntil(lambda: told == [True, False], timeout=20_000)
    assert window.controller.state.step == last
    window.player.playback.speed = 0.25
    press(window, K.Key_Space)
    assert told == [True, False, True]
    assert window.controller.state.step == 0
    press(window, K.Key_Space)
    assert told == [True, False, True, False]


def test_a_step_by_hand_pauses(window: Window) -> None:
    press(window, K.Key_Space)
    press(window, K.Key_Right)
    assert not window.player.playback.is_playing


def test_letters_jump_to_events(window: Window) -> None:
    press(window, K.Key_D)
    assert names_at(window) == "mask"
    press(window, K.Key_O)
    assert names_at(window) == "store"
    press(window, K.Key_O, SHIFT)
    assert window.message_bar.sentence == "There is no store before this step."
    press(window, K.Key_N)
    moment = window.controller.tape[window.controller.state.step]
    assert moment.chip.m is not None and moment.chip.m_new is not None
    assert moment.chip.m_new[0] > moment.chip.m[0] > -np.inf


def test_undo_and_redo_keys(window: Window) -> None:
    press(window, K.Key_End)
    press(window, K.Key_Z, CTRL)
    assert window.controller.state == TOY
    press(window, K.Key_Z, CTRL | SHIFT)
    assert window.controller.state.step == len(window.controller.tape) - 1


def test_a_field_keeps_its_keys_and_escape_gives_them_back(window: Window) -> None:
    field = window.problem_bar.edits["seqlen_q"]
    field.setFocus()
    field.selectAll()
    typed(window, "128")
    assert window.controller.state.problem.seqlen_q == 128
    press(window, K.Key_Left)
    press(window, K.Key_Home)
    press(window, K.Key_Space)
    assert window.controller.state.step == 0
    assert not window.player.playback.is_playing
    press(window, K.Key_Escape)
    assert not field.hasFocus()
    press(window, K.Key_Right)
    assert window.controller.state.step == 1


def test_a_number_that_cannot_be_is_said_at_the_field(window: Window) -> None:
    field = window.problem_bar.edits["block_m"]
    field.setFocus()
    field.selectAll()
    typed(window, "24")
    assert window.controller.state.problem.block_m == 16
    assert "power of two" in window.problem_bar.refused["block_m"]
    assert window.message_bar.sentence == ""


def refused_scale(window: Window) -> QLineEdit:
    """The field of sm_scale with the focus and a text that is no number."""
    field = window.problem_bar.edits["sm_scale"]
    field.setFocus()
    field.selectAll()
    typed(window, "abc")
    assert field.property("wrong") and window.problem_bar.bubble.isVisible()
    return field


def test_escape_takes_back_what_was_refused_and_then_leaves_the_field(window: Window) -> None:
    field = refused_scale(window)
    press(window, K.Key_Escape)
    assert field.text() == "0.5" and field.hasFocus()
    assert not window.problem_bar.refused and window.problem_bar.bubble.isHidden()
    press(window, K.Key_Escape)
    assert not field.hasFocus()


def test_escape_in_the_sheet_of_inputs_takes_back_and_then_closes(window: Window) -> None:
    popup = window.problem_bar.popup
    popup.open_below(window.problem_bar.inputs)
    seed = popup.texts["seed"]
    seed.setFocus()
    seed.selectAll()
    QTest.keyClicks(seed, "x")
    assert seed.property("wrong") and popup.reason.isVisible()
    QTest.keyClick(seed, K.Key_Escape)
    assert seed.text() == "20" and popup.isVisible() and not popup.reason.isVisible()
    QTest.keyClick(seed, K.Key_Escape)
    assert not popup.isVisible()


@pytest.mark.parametrize("way", ["preset", "the same problem", "undo", "open"])
def test_a_field_shows_what_holds_after_a_problem_from_elsewhere(window: Window, tmp_path: Path, way: str) -> None:
    c, path = window.controller, tmp_path / "a.flashscope.json"
    c.change(step=3)
    c.save_file(path)
    field = refused_scale(window)
    if way == "preset":
        c.open_preset(PRESETS[2])
    elif way == "the same problem":
        c.visit(c.state)
    elif way == "undo":
        c.undo()
    else:
        assert c.open_file(path)
    assert field.text() == text_of(c.state.problem.sm_scale)
    assert not field.property("wrong") and not window.problem_bar.refused and window.problem_bar.bubble.isHidden()


@pytest.mark.parametrize("way", ["click", "tab"])
def test_the_reason_goes_when_its_field_is_left(window: Window, way: str) -> None:
    refused_scale(window)
    if way == "click":
        QTest.mouseClick(window.tiles, Qt.MouseButton.LeftButton, pos=window.tiles.rect().center())
    else:
        press(window, K.Key_Tab)
    assert window.problem_bar.bubble.isHidden() and "sm_scale" in window.problem_bar.refused


def test_the_reason_against_a_choice_goes_with_the_next_key(window: Window) -> None:
    window.controller.change(sm_scale=-0.5)
    QTest.mouseClick(window.problem_bar.hopper, Qt.MouseButton.LeftButton)
    assert window.problem_bar.bubble.isVisible()
    press(window, K.Key_Right)
    assert window.problem_bar.bubble.isHidden()


def test_buttons_take_space_only_when_reached_by_tab(window: Window) -> None:
    button = window.transport.last
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    assert window.controller.state.step == 105
    assert not button.hasFocus()
    press(window, K.Key_Home)
    window.problem_bar.causal.setFocus(Qt.FocusReason.TabFocusReason)
    press(window, K.Key_Space)
    assert not window.controller.state.problem.causal
    assert not window.player.playback.is_playing


def test_theme_and_zoom(window: Window) -> None:
    press(window, K.Key_T)
    assert window.look.name == "light" and window.panels["rows"].theme.name == "light"
    press(window, K.Key_Plus, CTRL)
    press(window, K.Key_Plus, CTRL)
    assert window.look.zoom == 1.25 and window.transport.theme.zoom == 1.25
    press(window, K.Key_0, CTRL)
    assert window.look.zoom == 1.0
    press(window, K.Key_Minus, CTRL)
    assert window.settings.zoom == 0.9 and window.settings.theme == "light"


def test_presentation_fills_the_screen_and_comes_back(window: Window) -> None:
    press(window, K.Key_F11)
    assert window.dress.is_presenting and window.menuBar().isHidden()
    press(window, K.Key_Right)
    assert window.controller.state.step == 1
    press(window, K.Key_Escape)
    assert not window.dress.is_presenting and not window.menuBar().isHidden()
    assert window.look.zoom == window.settings.zoom == 1.0


def test_a_presentation_gives_its_room_to_what_is_shown(window: Window) -> None:
    before = {name for name, panel in window.panels.items() if panel.isVisible()}
    window.problem_bar.edits["heads"].setFocus()
    press(window, K.Key_F11)
    assert window.problem_bar.isHidden()
    assert {name for name, panel in window.panels.items() if panel.isVisible()} == before - {"run"}
    assert window.panel_layout.hidden == frozenset(), "the View menu's own choices stay as they are"
    assert window.menus.actions["view.panel.run"].isChecked() is False
    press(window, K.Key_F11)
    assert window.problem_bar.isVisible()
    assert {name for name, panel in window.panels.items() if panel.isVisible()} == before


def test_a_run_that_is_started_in_a_presentation_is_seen(window: Window) -> None:
    press(window, K.Key_F11)
    window.panel_layout.bring_forward("run")
    assert window.panels["run"].isVisible() and window.problem_bar.isHidden()
    window.menus.actions["view.panel.run"].trigger()
    assert not window.panels["run"].isVisible()
    press(window, K.Key_F11)
    window.menus.actions["view.panel.run"].trigger()
    assert window.panels["run"].isVisible()


@pytest.mark.parametrize("name", ["tiles", "chip", "rows", "lse", "source", "run", "ledger"])
def test_a_panel_alone_and_back(window: Window, name: str) -> None:
    before = {n: p.geometry() for n, p in window.panels.items() if p.isVisible()}
    window.panels[name].title_double_clicked.emit()
    QApplication.processEvents()
    assert [n for n, p in window.panels.items() if p.isVisible()] == [name]
    assert window.panels[name].width() > 1300
    press(window, K.Key_Right)
    press(window, K.Key_Escape)
    QApplication.processEvents()
    assert {n: p.geometry() for n, p in window.panels.items() if p.isVisible()} == before


def test_a_double_click_on_the_title_fills_the_window(window: Window) -> None:
    panel = window.panels["rows"]
    QTest.mouseDClick(panel, Qt.MouseButton.LeftButton, pos=panel.title_label.geometry().center())
    assert window.panel_layout.maximised == "rows"
    QTest.mouseDClick(panel, Qt.MouseButton.LeftButton, pos=panel.title_label.geometry().center())
    assert window.panel_layout.maximised is None


def test_panels_are_hidden_and_shown_and_the_last_one_stays(window: Window) -> None:
    for name in window.panels:
        window.menus.actions[f"view.panel.{name}"].trigger()
    shown = [n for n, p in window.panels.items() if p.isVisible()]
    assert shown == ["ledger"]
    window.menus.actions["view.panel.tiles"].trigger()
    press(window, K.Key_End)
    assert window.tiles.isVisible()
    assert window.tiles.frame is window.frame
    window.menus.actions["view.reset"].trigger()
    assert window.tiles.isVisible() and window.source.isVisible()


def test_run_and_ledger_share_a_place_until_there_is_room(window: Window) -> None:
    run, ledger = window.panels["run"], window.panels["ledger"]
    assert run.isVisible() and not ledger.isVisible()
    window.panel_layout.bring_forward("ledger")
    assert ledger.isVisible() and not run.isVisible()
    assert ledger.frame is window.frame
    window.resize(1920, 1080)
    QApplication.processEvents()
    assert run.isVisible() and ledger.isVisible()
    assert not run.geometry().isEmpty() and ledger.mapTo(window, QPoint()).x() < run.mapTo(window, QPoint()).x()
    window.resize(1280, 800)
    QApplication.processEvents()
    assert ledger.isVisible() != run.isVisible()


def test_opening_saving_and_the_mark_of_unsaved_changes(window: Window, tmp_path: Path) -> None:
    path = tmp_path / "talk.flashscope.json"
    press(window, K.Key_End)
    assert window.files.save_to(path)
    assert window.windowTitle() == "talk.flashscope.json[*] — FlashScope"
    assert not window.isWindowModified()
    press(window, K.Key_Left)
    assert window.isWindowModified()
    press(window, K.Key_S, CTRL)
    assert not window.isWindowModified()
    assert json.loads(path.read_text())["step"] == 104
    assert window.settings.recent == [path]


def test_a_bad_file_is_one_sentence_in_the_window(window: Window, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text("{")
    state = window.controller.state
    assert not window.files.open(path)
    assert window.message_bar.isVisible()
    assert "cut off" in window.message_bar.sentence
    assert window.controller.state is state
    press(window, K.Key_Escape)
    assert not window.message_bar.isVisible()


def drop(window: Window, *paths: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    copy, left = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton
    enter = QDragEnterEvent(QPoint(300, 300), copy, data, left, NONE)
    enter.ignore()
    window.dragEnterEvent(enter)
    assert enter.isAccepted() == bool(paths)
    window.dropEvent(QDropEvent(QPointF(300, 300), copy, data, left, NONE))


def test_files_are_dropped_in(window: Window, tmp_path: Path) -> None:
    tensors = tmp_path / "qkv.npz"
    ones = np.ones((1, 2, 20, 16), np.float16)
    np.savez(tensors, q=ones, k=ones, v=ones)
    drop(window, tensors)
    assert window.controller.state.problem.inputs == str(tensors)
    session = tmp_path / "s.json"
    session.write_text('{"flashscope": 1, "step": 12, "problem": {"seqlen_q": 100}}')
    drop(window, session)
    assert (window.controller.state.step, window.controller.state.problem.seqlen_q) == (12, 100)
    (tmp_path / "talk.pptx").write_bytes(b"\xff\x00")
    drop(window, tmp_path / "talk.pptx")
    assert window.message_bar.sentence.startswith("talk.pptx is no session, no saved result")
    drop(window, session.rename(tmp_path / "talk.flashscope"))
    assert window.message_bar.sentence == ""
    drop(window)
    assert window.message_bar.sentence.startswith("Only files can be dropped here")
    tensors = tensors.rename(tmp_path / "QKV.NPZ")
    drop(window, tensors)
    assert window.controller.state.problem.inputs == str(tensors)
    assert window.message_bar.sentence == ""


def test_a_long_or_odd_name_in_a_message_is_text_and_does_not_widen_the_window(window: Window) -> None:
    window.resize(1000, 700)
    long = "/folder" * 500 + " <b>cannot</b> be opened."
    window.say(long)
    QApplication.processEvents()
    assert window.width() == 1000
    assert window.message_bar.sentence == long
    label = window.message_bar.label
    assert label.textFormat() == Qt.TextFormat.PlainText
    assert len(label.text()) < 700
    assert label.height() >= label.heightForWidth(label.width())


@pytest.mark.parametrize("name", ["settings", "data"])
def test_it_closes_where_nothing_can_be_kept(
    make_window: Callable[..., Window], tmp_path: Path, monkeypatch, capsys, name: str
) -> None:
    (tmp_path / "file").write_text("no folder can be here")
    window = make_window()
    if name == "settings":
        window.settings.path = tmp_path / "file" / "settings.ini"
    else:
        monkeypatch.setattr("visualizer.files.last_session", lambda: tmp_path / "file" / "last.json")
    press(window, K.Key_End)
    assert window.close()
    assert capsys.readouterr().err == ""


def test_the_state_and_the_look_come_back_at_the_next_start(make_window: Callable[..., Window], tmp_path: Path) -> None:
    first = make_window()
    press(first, K.Key_End)
    press(first, K.Key_T)
    first.panel_layout.toggle("rows")
    first.files.save_to(tmp_path / "a.json")
    press(first, K.Key_Left)
    first.close()
    second = make_window(state=None)
    assert second.controller.state.step == 104
    assert second.controller.state.problem == TOY.problem
    assert second.look.name == "light"
    assert second.panels["rows"].isHidden()
    assert second.windowTitle().startswith("a.json") and second.isWindowModified()


def test_a_broken_last_state_is_said_and_the_window_opens(make_window: Callable[..., Window]) -> None:
    first = make_window()
    first.close()
    from visualizer.settings import last_session

    last_session().write_text("{")
    second = make_window(state=None)
    assert second.controller.state == OPENING
    assert second.message_bar.sentence.startswith("The last state could not be restored: ")


def test_a_file_that_cannot_be_opened_at_the_start_is_said(make_window: Callable[..., Window], tmp_path: Path) -> None:
    window = make_window(state=None, file=tmp_path / "gone.json")
    assert window.message_bar.sentence == "gone.json cannot be opened: No such file or directory."
    assert window.controller.state == OPENING


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_every_preset_opens(window: Window, preset) -> None:
    window.controller.open_preset(preset)
    assert window.frame is not None and window.frame.problem == preset.state.problem
    press(window, K.Key_End)
    press(window, K.Key_Left)
    assert window.controller.state.step == len(window.controller.tape) - 2


def test_an_empty_problem_shows_its_reason_everywhere(window: Window) -> None:
    window.controller.change(seqlen_q=0)
    for key in (K.Key_Right, K.Key_Space, K.Key_End, K.Key_Down, K.Key_N):
        press(window, key)
    assert not window.player.playback.is_playing
    assert window.frame is not None and window.frame.empty
    window.controller.change(seqlen_q=64)
    press(window, K.Key_End)
    assert window.frame.transport is not None


def test_settings_that_are_rubbish_do_not_matter(make_window: Callable[..., Window], tmp_path: Path) -> None:
    (tmp_path / "settings.ini").write_bytes(
        b"[General\nzoom=@Variant(\0\0\0\x7f)\ntheme=\xff\xfe\nspeed=fast\n[window]\ngeometry=7"
    )
    window = make_window()
    assert (window.look.zoom, window.look.name, window.player.playback.speed) == (1.0, "dark", 4.0)


def test_settings_of_other_types_are_the_defaults(tmp_path: Path, qapp) -> None:
    (tmp_path / "s.ini").write_text(
        "[General]\nzoom=99\ntheme=pink\nspeed=-1\nmotion=@Invalid()\nrecent=@ByteArray(x)\n"
    )
    settings = Settings(tmp_path / "s.ini")
    assert (settings.zoom, settings.theme, settings.speed, settings.motion) == (1.0, "dark", 4.0, True)
    assert settings.recent == [] and settings.bytes("geometry").isEmpty()


@pytest.mark.parametrize("name", ["keys", "words", "about"])
def test_escape_closes_help_also_when_the_window_has_the_keys(window: Window, qtbot: QtBot, name: str) -> None:
    for has_keys in (True, False):
        getattr(window, f"show_{name}")()
        (dialog,) = window.findChildren(HelpDialog, options=Qt.FindChildOption.FindDirectChildrenOnly)
        qtbot.waitUntil(dialog.isActiveWindow)
        if has_keys:
            window.activateWindow()
            qtbot.waitUntil(window.isActiveWindow)
        qtbot.keyClick(window if has_keys else dialog, Qt.Key.Key_Escape)
        assert not dialog.isVisible()
        qtbot.waitUntil(window.isActiveWindow)
        dialog.deleteLater()
        window._help = None
        QCoreApplication.sendPostedEvents(dialog, QEvent.Type.DeferredDelete.value)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_what_is_counted_is_counted_from_1(make_window: Callable[..., Window], preset: Preset) -> None:
    """An index stands alone, as in code ("head 0"); "program 3 of 16" is a count."""
    window = make_window(preset.state)
    last = len(window.controller.tape) - 1
    for step in (0, last):
        window.controller.change(step=step)
        texts = [label.text() for label in window.findChildren(QLabel)]
        texts += [w.toolTip() for w in window.findChildren(QWidget)]
        texts += [w.accessibleDescription() for w in window.findChildren(QWidget)]
        texts += [box.currentText() for box in window.findChildren(QComboBox)]
        counted = re.findall(r"(head|step|program|tile|block|stop|row) ([\d,]+) of ([\d,]+)", "\n".join(texts))
        assert "program" in {what for what, _, _ in counted}
        assert "step" not in {what for what, _, _ in counted}
        for what, number, total in counted:
            assert 1 <= int(number.replace(",", "")) <= int(total.replace(",", "")), what


def test_a_large_zoom_opens_no_higher_than_asked(
    make_window: Callable[..., Window], tmp_path: Path, dressed: QApplication
) -> None:
    settings = Settings(tmp_path / "settings.ini")
    settings.zoom = 1.5
    settings.sync()
    window = make_window(size=(1280, 800))
    assert window.look.zoom == 1.5
    dressed.processEvents()
    assert (window.width(), window.height()) == (1280, 800)


def test_the_menus_name_an_event_with_the_same_words(window: Window) -> None:
    go = {action.text() for name, action in window.menus.actions.items() if name.startswith("go.")}
    jump = [action.text() for action in window.transport.jump_button.menu().actions() if action.text()]
    assert len(jump) == 8 and set(jump) <= go


def test_a_screen_too_small_for_the_window_gets_a_smaller_zoom(window: Window) -> None:
    screen = window.screen().size()
    assert window.minimumSizeHint().width() > screen.width()  # offscreen, 800 x 800
    before = window.settings.zoom
    window.dress.keep_on_screen()
    assert window.look.zoom < 1.0 == before == window.settings.zoom
    assert window.minimumSizeHint().width() <= screen.width()
