"""Every control has a name for screen readers and can be reached with the keyboard."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QScrollBar,
    QWidget,
)

from visualizer.window import Window

from .test_window import K, press

CONTROLS = (QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit, QAbstractItemView, QAbstractSlider)


def controls(window: Window) -> list[QWidget]:
    """What a person can work: controls that are seen, and whatever else takes the focus by Tab; parts of them not."""
    found = []
    for widget in window.findChildren(QWidget):
        inner = isinstance(widget.parentWidget(), QComboBox | QAbstractSpinBox) or isinstance(widget, QScrollBar)
        takes_tab = bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)
        if (
            widget.isVisible()
            and widget.window() is window
            and not inner
            and (isinstance(widget, CONTROLS) or takes_tab)
        ):
            found.append(widget)
    return found


def describe(widget: QWidget) -> str:
    return f"{type(widget).__name__} {widget.objectName()!r} in {type(widget.parentWidget()).__name__}"


def name(widget: QWidget) -> str:
    interface = QAccessible.queryAccessibleInterface(widget)
    return interface.text(QAccessible.Text.Name) if interface else ""


@pytest.mark.parametrize("size", [(1280, 800), (1920, 1080)])
def test_every_control_has_a_name(make_window, size: tuple[int, int]) -> None:
    window = make_window(size=size)
    found = controls(window)
    assert len(found) > 25
    assert [describe(w) for w in found if not name(w).strip()] == []


def test_no_two_controls_of_a_panel_have_the_same_name(window: Window) -> None:
    seen: dict[tuple[str, str], QWidget] = {}
    for widget in controls(window):
        above = widget.parentWidget()
        while above is not None and not above.accessibleName():
            above = above.parentWidget()
        key = (above.accessibleName() if above else "", name(widget))
        assert key not in seen, f"{key}: {describe(widget)} and {describe(seen[key])}"
        seen[key] = widget


@pytest.mark.parametrize("size", [(1280, 800), (1920, 1080)])
def test_tab_reaches_every_control_and_comes_round(make_window, size: tuple[int, int]) -> None:
    window = make_window(size=size)
    window.controller.change(step=50)
    wanted = {id(w): w for w in controls(window) if w.isEnabled()}
    reached: dict[int, QWidget] = {}
    for _ in range(4 * len(wanted)):
        press(window, K.Key_Tab)
        widget = QApplication.focusWidget()
        if widget is None:
            continue
        if id(widget) in reached and widget is next(iter(reached.values())):
            break
        reached[id(widget)] = widget
    missing = [describe(w) for key, w in wanted.items() if key not in reached and not _grouped(w, reached)]
    assert missing == []


def _grouped(widget: QWidget, reached: dict[int, QWidget]) -> bool:
    """Buttons of one exclusive choice share a place in the Tab order; arrows go between them."""
    group = widget.group() if isinstance(widget, QAbstractButton) else None
    return group is not None and any(id(other) in reached for other in group.buttons())


def test_panels_and_the_window_have_names(window: Window) -> None:
    assert name(window).startswith("FlashScope")
    for panel in (*window.panels.values(), window.transport):
        assert panel.accessibleName()


def test_a_control_with_the_focus_looks_different(window: Window) -> None:
    window.controller.change(step=50)
    same = []
    for widget in controls(window):
        if not widget.isEnabled():
            continue
        window.setFocus()
        QApplication.processEvents()
        before = widget.grab().toImage()
        widget.setFocus(Qt.FocusReason.TabFocusReason)
        QApplication.processEvents()
        if widget.hasFocus() and widget.grab().toImage() == before:
            same.append(describe(widget))
    assert same == []


def test_keys_step_and_play_wherever_a_click_went(window: Window) -> None:
    """A click on any part of a panel leaves arrows and Space to the window."""
    for panel in (*window.panels.values(), window.transport):
        if not panel.isVisible():
            continue
        for widget in [panel, *panel.findChildren(QWidget)]:
            if not widget.isVisible() or isinstance(widget, (QComboBox, QAbstractButton)):
                continue
            QTest.mouseClick(widget, Qt.MouseButton.LeftButton)
            window.controller.change(step=50)
            press(window, K.Key_Right)
            assert window.controller.state.step == 51, describe(widget)
            press(window, K.Key_Space)
            assert window.playback.is_playing, describe(widget)
            window.playback.pause()
