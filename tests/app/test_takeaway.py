"""The File menu's pictures, films and numbers, in a window."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from kernel.tiling import Tiling
from visualizer.actions import BY_ID, PANELS
from visualizer.export import ExportError
from visualizer.film_job import FilmJob
from visualizer.presets import PRESETS
from visualizer.window import Window

TOY = PRESETS[1].state


def answer(monkeypatch: pytest.MonkeyPatch, path: Path | None) -> None:
    """What the person chooses in the next file dialogs."""
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: ("" if path is None else str(path), ""))


def test_pictures_go_to_the_clipboard(window: Window) -> None:
    window.menus.actions["file.copy.window"].trigger()
    image = QGuiApplication.clipboard().image()
    assert (image.width(), image.height()) == (window.width(), window.height())
    window.menus.actions["file.copy.chip"].trigger()
    image = QGuiApplication.clipboard().image()
    assert (image.width(), image.height()) == (window.chip.width(), window.chip.height())
    assert image.convertToFormat(QImage.Format.Format_RGB32) == window.chip.grab().toImage().convertToFormat(
        QImage.Format.Format_RGB32
    )


@pytest.mark.parametrize("what", ["window", *PANELS])
def test_pictures_are_saved_as_they_are_seen(
    what: str, window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window.maximise(None if what == "window" else what)
    for name in ("p.png", "p.svg", "no suffix"):
        answer(monkeypatch, tmp_path / name)
        BY_ID[f"file.picture.{what}"].call(window)
    image = QImage(str(tmp_path / "p.png"))
    widget = window if what == "window" else window.panels[what]
    assert (image.width(), image.height()) == (widget.width(), widget.height())
    assert (tmp_path / "p.svg").read_bytes().startswith(b"<svg")
    assert sorted(path.name for path in tmp_path.glob("*.*")) == ["no suffix.png", "p.png", "p.svg", "settings.ini"]
    assert window.message_bar.sentence == ""


def test_a_panel_that_is_not_seen_has_no_picture(window: Window) -> None:
    window.panel_layout.toggle("rows")
    window.menus.update()
    assert not window.menus.actions["file.copy.rows"].isEnabled()
    assert window.menus.actions["file.copy.chip"].isEnabled()
    assert window.menus.actions["file.picture.window"].isEnabled()


@pytest.mark.parametrize("action", ["file.picture.chip", "file.values", "file.lse"])
def test_what_cannot_be_written_is_said(
    action: str, window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, None)
    BY_ID[action].call(window)
    assert window.message_bar.sentence == ""
    suffix = "png" if "picture" in action else "npz"
    answer(monkeypatch, tmp_path / "none" / f"x.{suffix}")
    BY_ID[action].call(window)
    assert "cannot be written" in window.message_bar.sentence
    answer(monkeypatch, tmp_path / "x.docx")
    BY_ID[action].call(window)
    assert window.message_bar.sentence.startswith("x.docx must end in ")
    assert not (tmp_path / "x.docx").exists()


def test_values_are_those_that_are_shown(window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    window.controller.change(step=60)
    assert window.frame is not None and window.frame.chip is not None
    answer(monkeypatch, tmp_path / "v.npz")
    BY_ID["file.values"].call(window)
    with np.load(tmp_path / "v.npz") as file:
        np.testing.assert_array_equal(file["s"], np.asarray(window.frame.chip.s))
        assert int(file["step_index"]) == 60
    answer(monkeypatch, tmp_path / "l.csv")
    BY_ID["file.lse"].call(window)
    assert (tmp_path / "l.csv").read_text().startswith("batch,head,row,lse_log2_mirror,lse_log2_exact")


def test_without_steps_there_is_nothing_to_export(make_window: Callable[..., Window], tmp_path: Path) -> None:
    window = make_window(TOY.change(seqlen_q=0))
    window.menus.update()
    assert not window.menus.actions["file.film"].isEnabled()
    with pytest.raises(ExportError, match="There is nothing to export"):
        window.take_away.save_values("values", tmp_path / "v.npz")


def test_a_film_of_what_the_dialog_says(
    window: Window, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window.menus.actions["file.film"].trigger()
    dialog = window.take_away.film
    assert dialog is not None
    assert dialog.last.value() == len(Tiling(TOY.problem)) - 1
    dialog.first.setValue(10)
    dialog.last.setValue(20)
    dialog.every.setValue(5)
    dialog.fps.setValue(2)
    assert dialog.note.text().startswith("3 pictures, 1.5 s.")
    dialog.last.setValue(5)
    assert dialog.note.text() == "The first step, 10, comes after the last, 5."
    assert not dialog.export_button.isEnabled()
    dialog.last.setValue(20)
    dialog.kind.setCurrentText(".gif")
    dialog.what.setCurrentIndex(dialog.what.findData("tiles"))
    answer(monkeypatch, tmp_path / "f")
    dialog.export_button.click()
    window.menus.actions["file.film"].trigger()
    assert window.take_away.film is dialog
    assert dialog.job is not None
    with qtbot.waitSignal(dialog.job.ended, timeout=60_000):
        assert dialog.cancel_button.text() == "Cancel"
    assert dialog.note.text() == "f.gif is written."
    assert dialog.bar.isHidden()
    from PIL import Image

    with Image.open(tmp_path / "f.gif") as film:
        assert film.n_frames == 3  # pyright: ignore[reportAttributeAccessIssue]
        assert film.size == (900, 600)
    dialog.close()


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_film_is_cancelled_at_any_moment(window: Window, qtbot: QtBot, tmp_path: Path, after: int) -> None:
    window.take_away.show_film()
    dialog = window.take_away.film
    assert dialog is not None
    out = tmp_path / "f.mp4"
    out.write_bytes(b"an older film")
    dialog.export(out)
    job = dialog.job
    assert job is not None
    if after:
        qtbot.waitUntil(lambda: dialog.bar.value() >= after, timeout=60_000)
        window.controller.change(step=40)  # the window goes on
        assert window.frame is not None and window.frame.transport is not None
        assert window.frame.transport.index == 40
    with qtbot.waitSignal(job.cancelled, timeout=60_000):
        dialog.cancel_button.click()
    assert dialog.note.text() == "The export was cancelled; no file was written."
    assert out.read_bytes() == b"an older film"
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".ini") == ["f.mp4"]
    dialog.close()


def test_a_film_that_fails_says_why(window: Window, qtbot: QtBot, tmp_path: Path) -> None:
    window.take_away.show_film()
    dialog = window.take_away.film
    assert dialog is not None
    dialog.last.setValue(2)
    dialog.export(tmp_path / "none" / "f.gif")
    assert dialog.job is not None
    with qtbot.waitSignal(dialog.job.ended, timeout=60_000):
        pass
    assert dialog.note.text().startswith(f"{tmp_path / 'none' / 'f.gif'} cannot be written")
    dialog.close()


def test_the_film_dialogs_fields_look_alike(window: Window) -> None:
    window.take_away.show_film()
    dialog = window.take_away.film
    assert dialog is not None
    numbers = (dialog.first, dialog.last, dialog.every, dialog.fps)
    assert len({field.size().toTuple() for field in (dialog.what, dialog.sizes, dialog.kind, *numbers)}) == 1
    for field in numbers:
        assert field.lineEdit().textMargins().left() + field.lineEdit().x() >= 5


@pytest.mark.parametrize("way", ["Escape", "button", "title bar"])
def test_the_film_dialog_closes_in_every_way(window: Window, qtbot: QtBot, way: str) -> None:
    window.take_away.show_film()
    dialog = window.take_away.film
    assert dialog is not None
    qtbot.waitUntil(dialog.isActiveWindow)
    if way == "Escape":
        qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    elif way == "button":
        dialog.cancel_button.click()
    else:
        dialog.close()
    assert not dialog.isVisible()
    qtbot.waitUntil(window.isActiveWindow)
    window.take_away.show_film()
    assert window.take_away.film is not None
    assert window.take_away.film.isVisible()


def test_closing_the_window_ends_a_film(window: Window, qtbot: QtBot, tmp_path: Path) -> None:
    window.take_away.show_film()
    dialog = window.take_away.film
    assert dialog is not None
    dialog.export(tmp_path / "f.gif")
    job: FilmJob | None = dialog.job
    assert job is not None
    qtbot.waitUntil(lambda: dialog.bar.value() >= 1, timeout=60_000)
    window.close()
    assert not job.is_running
    assert not list(tmp_path.glob("*.gif*"))
    assert not list(tmp_path.glob(".*"))
