"""Tiles travel on loads and stores, only when that explains something, and from the right place to the right place."""

import numpy as np
import pytest
from PySide6.QtCore import QRect
from PySide6.QtGui import QColor

from visualizer import theme
from visualizer.motion import MAX_SPEED, picture
from visualizer.window import Window

from .test_window import K, press


def at(window: Window, step_name: str) -> int:
    """The first step of that name after the first program."""
    locate = window.controller.tape.tiling.locate
    return next(i for i in range(20, 106) if locate(i).step == step_name)


def stand_before(window: Window, step_name: str) -> None:
    window.controller.change(step=at(window, step_name) - 1)
    window.motion.forget()


@pytest.fixture
def moving(make_window) -> Window:
    return make_window(motion=True)


@pytest.mark.parametrize(("step", "quantity"), [("load_q", "q"), ("load_k", "k"), ("load_v", "v")])
def test_a_load_flies_from_its_strip_to_the_chip(moving: Window, qtbot, step: str, quantity: str) -> None:
    stand_before(moving, step)
    press(moving, K.Key_Right)
    flight = moving.motion.flight
    assert flight.is_flying
    start = moving.tiles.strip_rect(quantity)
    end = moving.chip.slot_rect(quantity)
    assert flight.path == (
        QRect(moving.tiles.mapTo(moving, start.topLeft()), start.size()),
        QRect(moving.chip.mapTo(moving, end.topLeft()), end.size()),
    )
    qtbot.waitUntil(lambda: not flight.is_flying, timeout=10_000)


def test_the_output_flies_back_at_the_store(moving: Window) -> None:
    stand_before(moving, "store")
    press(moving, K.Key_Right)
    assert moving.motion.flight.is_flying
    start, end = moving.motion.flight.path
    assert start.x() > end.x()


@pytest.mark.parametrize("step", ["scores", "row_max", "accumulate", "normalise"])
def test_other_steps_stand_still(moving: Window, step: str) -> None:
    stand_before(moving, step)
    press(moving, K.Key_Right)
    assert not moving.motion.flight.is_flying


def test_jumps_and_steps_back_stand_still(moving: Window) -> None:
    load = at(moving, "load_k")
    moving.controller.change(step=load + 1)
    press(moving, K.Key_Left)
    assert moving.controller.state.step == load
    assert not moving.motion.flight.is_flying
    moving.controller.change(step=0)
    moving.controller.change(step=load)
    assert not moving.motion.flight.is_flying


def test_it_can_be_turned_off(moving: Window) -> None:
    moving.menus.actions["view.motion"].trigger()
    stand_before(moving, "load_k")
    press(moving, K.Key_Right)
    assert not moving.motion.flight.is_flying


def test_fast_playing_stands_still(moving: Window) -> None:
    stand_before(moving, "load_k")
    before, after = moving.frame, None
    moving.settings.motion = False
    moving.controller.step_by(1)
    after = moving.frame
    assert after is not None
    moving.motion.follow(before, after, speed=MAX_SPEED * 2)
    assert not moving.motion.flight.is_flying
    moving.motion.forget()
    moving.motion.follow(before, after, speed=MAX_SPEED)
    assert moving.motion.flight.is_flying


def test_steps_that_come_faster_than_a_flight_stand_still(moving: Window) -> None:
    moving.controller.change(step=at(moving, "load_k") - 2)
    moving.motion.clock = lambda: 100.0
    press(moving, K.Key_Right)
    press(moving, K.Key_Right)
    assert not moving.motion.flight.is_flying


def test_a_hidden_panel_takes_part_in_nothing(moving: Window) -> None:
    moving.panel_layout.toggle("tiles")
    stand_before(moving, "load_k")
    press(moving, K.Key_Right)
    assert not moving.motion.flight.is_flying


def test_the_picture_is_the_tile() -> None:
    look = theme.theme("dark")
    values = np.array([[0.0, 1.0, -1.0, np.nan, np.inf]], np.float16)
    image = picture(values, "q", (-1.0, 1.0), look)
    lut = look.signed_lut("q")
    colors = [QColor(*map(int, lut[i])) for i in (127, 255, 0)]
    assert [image.pixelColor(i, 0) for i in range(3)] == colors
    assert (image.width(), image.height()) == (5, 1)
