"""A panel whose values are still being computed says so, and shows none of the old ones."""

from typing import Any

import numpy as np
import pytest
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from visualizer import theme
from visualizer.frame import RunView
from visualizer.panels.chip import ChipPanel
from visualizer.panels.ledger import LedgerPanel
from visualizer.panels.rows import RowsPanel
from visualizer.panels.tiles import TilesPanel
from visualizer.presets import PRESETS
from visualizer.resolve import resolve, resolve_place
from visualizer.tape import Tape

TOY = PRESETS[1].state.change(step=60)


@pytest.fixture(autouse=True)
def fonts(qapp: QApplication) -> None:
    theme.load_fonts()
    theme.apply(qapp, theme.theme("dark"))


def shown(qtbot: QtBot, kind: Any, look: theme.Theme = theme.DARK) -> Any:
    panel = kind(look)
    qtbot.addWidget(panel)
    panel.resize(480, 480)
    panel.show()
    panel.show_frame(resolve(TOY, Tape(TOY.problem), RunView()))
    QApplication.processEvents()
    return panel


def colors(panel: Any) -> set[str]:
    """The colours within the body."""
    body = panel.grab().toImage().copy(panel.body.geometry()).convertToFormat(QImage.Format.Format_RGB32)
    return {QColor(int(pixel)).name() for pixel in np.unique(np.frombuffer(body.constBits(), np.uint32))}


@pytest.mark.parametrize("look", ["dark", "light"])
@pytest.mark.parametrize("kind", [ChipPanel, RowsPanel])
def test_no_old_value_is_seen_while_the_new_ones_are_computed(qtbot, qapp, kind, look) -> None:
    look = theme.theme(look, 1.0)
    theme.apply(qapp, look)
    panel = shown(qtbot, kind, look)
    panel.resize(700, 480)
    QApplication.processEvents()
    quantities = {look.color(q).name() for q in ("m", "alpha", "l")} | {
        look.word(q).name() for q in ("m", "alpha", "l")
    }
    assert colors(panel) & quantities and panel.caption_label.text()
    panel.show_frame(resolve_place(TOY.change(step=200), Tape(TOY.problem), RunView()))
    QApplication.processEvents()
    for size in ((480, 480), (300, 260), (700, 500)):  # also while it is resized
        panel.resize(*size)
        QApplication.processEvents()
        assert panel.is_veiled and not panel.caption_label.text()
        assert not colors(panel) & quantities
        assert look.muted in colors(panel)  # the sentence
    panel.show_frame(resolve(TOY, Tape(TOY.problem), RunView()))
    QApplication.processEvents()
    assert not panel.is_veiled
    assert colors(panel) & quantities and panel.caption_label.text()


def test_a_panel_that_needs_no_values_shows_the_place(qtbot) -> None:
    for kind in (TilesPanel, LedgerPanel):
        panel = shown(qtbot, kind)
        before = panel.grab().toImage()
        panel.show_frame(resolve_place(TOY.change(step=200), Tape(TOY.problem), RunView()))
        QApplication.processEvents()
        assert not panel.is_veiled
        assert panel.grab().toImage() != before


def test_the_veil_keeps_the_focus_and_dresses_with_the_panel(qtbot, qapp) -> None:
    panel = shown(qtbot, ChipPanel)
    panel.activateWindow()
    panel.canvas.setFocus()
    qtbot.waitUntil(panel.canvas.hasFocus)
    panel.show_frame(resolve_place(TOY, Tape(TOY.problem), RunView()))
    assert panel.canvas.hasFocus() and panel.is_veiled
    theme.apply(qapp, theme.LIGHT)
    panel.set_theme(theme.LIGHT)
    QApplication.processEvents()
    assert panel.is_veiled
    assert theme.LIGHT.panel in colors(panel) and theme.DARK.panel not in colors(panel)


def test_an_empty_frame_takes_the_veil_away(qtbot) -> None:
    panel = shown(qtbot, ChipPanel)
    panel.show_frame(resolve_place(TOY, Tape(TOY.problem), RunView()))
    empty = TOY.change(seqlen_q=0)
    panel.show_frame(resolve(empty, Tape(empty.problem), RunView()))
    assert not panel.is_veiled
