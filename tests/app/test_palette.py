"""The command palette and the table of actions that feeds it, the menus and the key list."""

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QFontMetrics, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel

from visualizer.actions import ACTIONS, BY_ID, MENUS
from visualizer.help import WORDS, key_text
from visualizer.palette import Shade
from visualizer.presets import PRESETS
from visualizer.window import Window

from .test_window import CTRL, K, press, typed


def open_palette(window: Window, text: str = "") -> None:
    press(window, K.Key_K, CTRL)
    assert window.palette_card.isVisible()
    typed(window, text)


def test_ctrl_k_opens_and_escape_closes(window: Window) -> None:
    open_palette(window)
    assert window.palette_card.field.hasFocus()
    assert len(window.palette_card.shown_texts()) > 30
    press(window, K.Key_Escape)
    assert not window.palette_card.isVisible()
    press(window, K.Key_Right)
    assert window.controller.state.step == 1


def test_what_people_want_first_stands_first_and_whole(window: Window) -> None:
    open_palette(window)
    card = window.palette_card
    shown = card.shown_texts()
    assert shown[0] == "Run kernel"
    assert shown[1 : 1 + len(PRESETS)] == [f"Open preset: {preset.name}" for preset in PRESETS]
    assert shown[1 + len(PRESETS)].startswith("Lesson: ")
    look = card.theme
    text, hint = QFontMetrics(look.ui_font(13)), QFontMetrics(look.ui_font(12))
    for preset in PRESETS:
        needed = text.horizontalAdvance(f"Open preset: {preset.name}") + hint.horizontalAdvance(preset.why)
        assert needed + look.px(24 + 16) <= card.list.viewport().width(), preset.why


def test_the_window_behind_is_dimmed_and_a_click_on_it_closes(window: Window) -> None:
    open_palette(window)
    shade = window.findChild(Shade)
    assert shade is not None and shade.isVisible() and shade.geometry() == window.rect()
    QTest.mouseClick(shade, Qt.MouseButton.LeftButton, pos=QPoint(5, 5))
    assert not window.palette_card.isVisible() and not shade.isVisible()


def test_a_submenu_does_not_repeat_its_title(window: Window) -> None:
    for action in ACTIONS:
        above = action.menu.rpartition("/")[2]
        assert not window.menus.actions[action.id].text().startswith(f"{above}: "), action.id
    assert window.menus.actions["file.copy.tiles"].text() == "Score tiles"


def test_ctrl_k_again_closes(window: Window) -> None:
    open_palette(window)
    press(window, K.Key_K, CTRL)
    assert not window.palette_card.isVisible()


def test_letters_find_an_action_and_return_does_it(window: Window) -> None:
    open_palette(window, "last st")
    assert window.palette_card.shown_texts()[0] == "Last step"
    press(window, K.Key_Return)
    assert not window.palette_card.isVisible()
    assert window.controller.state.step == len(window.controller.tape) - 1


def test_arrows_choose_in_the_list_and_do_not_select_rows(window: Window) -> None:
    open_palette(window, "preset")
    texts = window.palette_card.shown_texts()
    assert [t.removeprefix("Open preset: ") for t in texts[: len(PRESETS)]] == [p.name for p in PRESETS]
    press(window, K.Key_Down)
    press(window, K.Key_Down)
    press(window, K.Key_Up)
    press(window, K.Key_Up)
    press(window, K.Key_Up)
    press(window, K.Key_Down)
    press(window, K.Key_Down)
    press(window, K.Key_Return)
    assert window.controller.state == PRESETS[1].state


@pytest.mark.parametrize(
    ("query", "step"), [("37", 37), ("step 37", 37), ("go to step 37", 37), ("99999", 105), ("step 1,05", 105)]
)
def test_a_number_is_a_step(window: Window, query: str, step: int) -> None:
    open_palette(window, query)
    assert window.palette_card.shown_texts()[0] == f"Go to step {step}"
    press(window, K.Key_Return)
    assert window.controller.state.step == step


def test_a_row_of_the_block_can_be_named(window: Window) -> None:
    window.controller.change(step=60)
    assert window.frame is not None and window.frame.rows is not None
    start = window.frame.rows.rows[0]
    assert start > 0
    open_palette(window, f"row {start + 5}")
    press(window, K.Key_Return)
    assert window.controller.state.row == 5


def test_ctrl_g_asks_for_a_step(window: Window) -> None:
    press(window, K.Key_G, CTRL)
    typed(window, "12")
    press(window, K.Key_Return)
    assert window.controller.state.step == 12


def test_recent_files_are_offered(window: Window, tmp_path: Path) -> None:
    window.files.save_to(tmp_path / "lecture.json")
    press(window, K.Key_End)
    open_palette(window, "lecture")
    assert window.palette_card.shown_texts()[0] == "Open lecture.json"
    press(window, K.Key_Return)
    assert window.controller.state.step == 0


def test_nothing_found_says_so(window: Window) -> None:
    open_palette(window, "qqqzzz")
    assert window.palette_card.nothing.isVisible() and window.palette_card.shown_texts() == []
    press(window, K.Key_Return)
    assert window.palette_card.isVisible()


def test_a_click_elsewhere_closes_the_palette(window: Window) -> None:
    open_palette(window)
    window.problem_bar.edits["batch"].setFocus()
    QApplication.processEvents()
    assert not window.palette_card.isVisible()


def test_ids_are_unique_and_every_key_means_one_thing() -> None:
    assert len(BY_ID) == len(ACTIONS)
    keys = [QKeySequence(key).toString() for action in ACTIONS for key in action.keys]
    assert sorted(keys) == sorted(set(keys))
    assert all(keys)


def test_the_keys_of_the_design_are_there() -> None:
    wanted = {
        "Space": "go.play", "Left": "go.previous", "Right": "go.next", "Shift+Left": "go.previous_tile",
        "Shift+Right": "go.next_tile", "Ctrl+Left": "go.previous_program", "Ctrl+Right": "go.next_program",
        "Home": "go.first", "End": "go.last", "F11": "view.present", "Ctrl+K": "help.palette", "?": "help.keys",
        "Ctrl+Z": "edit.undo", "Ctrl+Shift+Z": "edit.redo", "Ctrl+O": "file.open", "Ctrl+S": "file.save",
        "Ctrl+Shift+S": "file.save_as", "Ctrl+R": "kernel.run", "Esc": "window.escape", "T": "view.theme",
        "Ctrl++": "view.larger", "Ctrl+-": "view.smaller", "Ctrl+0": "view.normal", "Up": "go.row_up",
        "Down": "go.row_down",
    }  # fmt: skip
    assert wanted.items() <= {key: action.id for action in ACTIONS for key in action.keys}.items()


def test_buttons_name_the_keys_of_their_actions(window: Window) -> None:
    t = window.transport
    buttons = {"go.first": t.first, "go.previous": t.back, "go.play": t.play, "go.next": t.step, "go.last": t.last}
    for id, button in buttons.items():
        said = button.toolTip().rpartition("(")[2].rstrip(")")
        assert {"←": "Left", "→": "Right", "space": "Space"}.get(said, said) in BY_ID[id].keys
        before = window.controller.state
        window.controller.change(step=50)
        window.menus.actions[id].trigger()
        by_action, playing = window.controller.state, window.playback.is_playing
        window.playback.pause()
        window.controller.change(step=50)
        button.click()
        assert (window.controller.state, window.playback.is_playing) == (by_action, playing)
        window.playback.pause()
        window.controller.go_to(before)


def test_every_action_of_a_menu_is_in_it(window: Window) -> None:
    for action in ACTIONS:
        item = window.menus.actions[action.id]
        assert item.shortcuts() == [QKeySequence(key) for key in action.keys]
        titles = [m.title() for m in item.associatedObjects() if hasattr(m, "title") and m.title()]  # pyright: ignore
        assert titles == ([action.menu.rpartition("/")[2]] if action.menu else [])
    assert [a.text() for a in window.menuBar().actions()] == list(MENUS)


def test_options_are_ticked_as_they_are(window: Window) -> None:
    items = window.menus.actions
    items["view.p"].trigger()
    assert window.controller.state.matrix == "p"
    assert (items["view.auto"].isChecked(), items["view.s"].isChecked(), items["view.p"].isChecked()) == (
        False,
        False,
        True,
    )
    press(window, K.Key_L)
    assert window.controller.state.lse_unit == "ln" and items["view.ln"].isChecked()
    items["view.motion"].trigger()
    assert window.settings.motion and items["view.motion"].isChecked()


def test_what_cannot_be_done_is_greyed(window: Window) -> None:
    items = window.menus.actions
    assert not items["edit.undo"].isEnabled() and not items["kernel.cancel"].isEnabled()
    press(window, K.Key_End)
    assert items["edit.undo"].isEnabled()
    window.controller.change(seqlen_q=0)
    assert not items["go.next"].isEnabled()


def texts(window: Window) -> str:
    """All that the one dialog that is open says."""
    headings = [label.window() for label in window.findChildren(QLabel) if label.objectName() == "heading"]
    (dialog,) = [dialog for dialog in headings if dialog.isVisible()]
    return "\n".join(label.text() for label in dialog.findChildren(QLabel))


def test_the_key_list_names_every_action_with_a_key(window: Window) -> None:
    press(window, K.Key_Question)
    shown = texts(window)
    for action in ACTIONS:
        if action.keys:
            assert action.text.rstrip("…") in shown
            assert key_text(action.keys) in shown


def test_the_words_are_explained(window: Window) -> None:
    press(window, K.Key_F1)
    shown = texts(window)
    assert all(sentence in shown for _, _, sentence in WORDS)
    assert {"q", "s", "p", "l"} <= {name for _, name, _ in WORDS}
    dialog = window._help
    assert dialog is not None
    labels = {label.text(): label for label in dialog.findChildren(QLabel)}
    for _, name, sentence in WORDS:
        tops = {label.mapTo(dialog, label.contentsRect().topLeft()).y() for label in (labels[name], labels[sentence])}
        assert len(tops) == 1, name
        for label in (labels[name], labels[sentence]):
            assert label.alignment() & Qt.AlignmentFlag.AlignTop


def test_what_this_is(window: Window) -> None:
    window.menus.actions["help.about"].trigger()
    assert "MIT licence" in texts(window)


def test_a_second_press_leaves_one_dialog(window: Window) -> None:
    window.show_keys()
    window.show_keys()
    assert "Next step" in texts(window)


def test_key_text_is_as_people_write_it() -> None:
    assert key_text(("Ctrl+Shift+Z", "Space")) == "Ctrl+Shift+Z  Space"
