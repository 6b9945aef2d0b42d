"""Lessons in the window: opened from the menu or the palette, turned with the keys of a presenter's clicker."""

import pytest
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from visualizer.lessons import Lesson, lessons
from visualizer.window import Window

from .conftest import TOY
from .test_window import CTRL, K, press, typed


def bar_is_whole(window: Window) -> bool:
    """Whether the stop's words fit into the bar."""
    text = window.lesson_bar.text
    return text.heightForWidth(text.width()) <= text.height()


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.title)
def test_every_stop_shows_its_moment_and_its_words(window: Window, lesson: Lesson) -> None:
    window.lesson_bar.open(lesson)
    for number, stop in enumerate(lesson.stops, 1):
        QApplication.processEvents()
        assert window.controller.state == stop.state
        assert window.lesson_bar.text.text() == stop.text
        assert window.lesson_bar.place.text() == f"{number} of {len(lesson.stops)}"
        assert bar_is_whole(window)
        press(window, K.Key_PageDown)
    assert window.lesson_bar.lesson is None and window.lesson_bar.isHidden()


def test_page_up_goes_back_and_a_person_may_wander(window: Window) -> None:
    lesson = lessons()[0]
    window.lesson_bar.open(lesson)
    press(window, K.Key_PageDown)
    press(window, K.Key_Right)
    assert window.controller.state != lesson.stops[1].state
    assert window.lesson_bar.lesson is lesson
    press(window, K.Key_PageUp)
    assert window.controller.state == lesson.stops[0].state
    press(window, K.Key_PageUp)
    assert window.controller.state == lesson.stops[0].state


def test_escape_leaves_the_lesson_and_pages_are_rows_again(window: Window) -> None:
    window.lesson_bar.open(lessons()[0])
    press(window, K.Key_Escape)
    assert window.lesson_bar.isHidden()
    window.controller.go_to(TOY)
    press(window, K.Key_PageDown)
    assert window.controller.state.row == 8


def test_the_menu_lists_them_and_the_palette_finds_them(window: Window) -> None:
    window.menus._lessons.aboutToShow.emit()
    assert [a.text() for a in window.menus._lessons.actions()] == [lesson.title for lesson in lessons()]
    press(window, K.Key_K, CTRL)
    typed(window, "lesson causal")
    press(window, K.Key_Return)
    assert window.lesson_bar.lesson is not None and "ausal" in window.lesson_bar.lesson.title


def test_undo_leads_back_to_before_the_lesson(window: Window) -> None:
    press(window, K.Key_End)
    before = window.controller.state
    window.lesson_bar.open(lessons()[0])
    press(window, K.Key_Z, CTRL)
    assert window.controller.state == before


def test_a_lesson_stays_on_a_small_screen_in_a_presentation(window: Window, qtbot: QtBot) -> None:
    class Projector:
        def size(self) -> QSize:
            return QSize(1280, 540)

    window.screen = Projector  # type: ignore[method-assign]
    window.dress.switch_presentation()
    window.resize(1280, 540)
    qtbot.waitUntil(lambda: window.minimumSizeHint().height() <= 540)
    before = window.look.zoom
    assert before > 1
    window.lesson_bar.open(lessons()[0])
    qtbot.waitUntil(lambda: window.look.zoom < before)
    qtbot.waitUntil(lambda: window.minimumSizeHint().height() <= 540)
    assert window.look.zoom >= 1
