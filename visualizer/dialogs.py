"""Dialogs take the keys when they open and give them back when they close, also where no window manager does that."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QDialog, QFileDialog, QWidget


def open_dialog(dialog: QDialog) -> None:
    """Shows a dialog that is not modal, above its window and with the keys: Escape is its own at once."""
    dialog.finished.connect(lambda: give_back(dialog))
    bring_up(dialog)


def bring_up(dialog: QDialog) -> None:
    """Shows a dialog again that open_dialog has shown before."""
    dialog.show()
    dialog.raise_()
    dialog.activateWindow()


def give_back(dialog: QWidget) -> None:
    """The keys go back to the dialog's window, unless that is closing, too."""
    parent = dialog.parentWidget()
    if parent is not None and parent.isVisible():
        parent.window().activateWindow()


def ask_open(parent: QWidget, title: str, start: Path | str, kinds: str) -> Path | None:
    """The file that the person chooses to open; None for none."""
    name, _ = QFileDialog.getOpenFileName(parent, title, str(start), kinds)
    parent.window().activateWindow()
    return Path(name) if name else None


def ask_save(parent: QWidget, title: str, start: Path | str, kinds: str) -> Path | None:
    """The file that the person chooses to write; None for none."""
    name, _ = QFileDialog.getSaveFileName(parent, title, str(start), kinds)
    parent.window().activateWindow()
    return Path(name) if name else None
