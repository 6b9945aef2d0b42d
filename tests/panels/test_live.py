"""What stands on the screen after many small updates is what one full painting would show, in every panel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from kernel.results import RunResult
from visualizer import theme
from visualizer.frame import Frame, RunView
from visualizer.presets import PRESETS
from visualizer.render import PANEL_CLASSES
from visualizer.resolve import resolve
from visualizer.tape import Tape


def frames() -> Iterator[tuple[str, Frame]]:
    """Values that come while the panel stands open, a run, steps, other rows and units, other problems."""
    tape, state, none = Tape(PRESETS[0].state.problem), PRESETS[0].state, RunView()
    yield "start", resolve(state.change(step=0), tape, none)
    while tape.fill(1):
        pass
    yield "filled", resolve(state.change(step=0), tape, none)
    empty: dict[str, Any] = {f.name: None for f in fields(RunResult)}
    done = RunView(phase="done", result=RunResult(**(empty | {"lse": tape.lse, "times": (), "backend": "interpreter"})))
    yield "ran", resolve(state.change(step=0), tape, done)
    for step in (*range(1, 16), *range(680, 686), 600, len(tape) - 1):
        yield f"step {step}", resolve(state.change(step=step), tape, done)
    for row in (18, 100, 0):
        yield f"row {row}", resolve(state.change(row=row), tape, done)
    yield "ln", resolve(state.change(lse_unit="ln"), tape, done)
    yield "p", resolve(state.change(matrix="p"), tape, none)
    for preset in PRESETS[1:]:
        tape = Tape(preset.state.problem)
        yield preset.name, resolve(preset.state, tape, none)
    one = state.change(seqlen_q=1, seqlen_k=1, step=3)
    yield "one row", resolve(one, Tape(one.problem), none)


def pixels(image: QImage) -> np.ndarray:
    image = image.convertToFormat(QImage.Format.Format_RGB32)
    return np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), -1, 4)[:, : image.width(), :3].astype(int)


@pytest.mark.parametrize("name", [name for name in PANEL_CLASSES if name != "run"])
def test_the_screen_shows_what_a_full_painting_shows(qapp: QApplication, qtbot, name):
    theme.load_fonts()
    theme.apply(qapp, theme.theme("dark"))
    panel = getattr(import_module(f"visualizer.panels.{name}"), PANEL_CLASSES[name])(theme.theme("dark"))
    qtbot.addWidget(panel)
    panel.resize(430, 235)
    panel.show()

    def compare(what: str) -> None:
        for _ in range(3):
            qapp.processEvents()
        live, whole = pixels(panel.screen().grabWindow(panel.winId()).toImage()), pixels(panel.grab().toImage())
        wrong = np.argwhere(np.abs(live - whole).max(axis=2) > 0)
        assert not len(wrong), f"{what}: {len(wrong)} pixels within {wrong.min(axis=0)} … {wrong.max(axis=0)}"

    for what, frame in frames():
        panel.show_frame(frame)
        compare(what)
    first = next(frames())[1]
    panel.show_frame(first)
    panel.set_theme(theme.theme("light", 1.5))
    compare("another dress")
    for widget in (panel, *panel.findChildren(QWidget)):
        for x in (90, 300):
            QTest.mouseMove(widget, QPoint(x, 70))
            compare(f"the pointer over {type(widget).__name__}")
