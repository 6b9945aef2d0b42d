"""A person, or a cat, who presses everything: the window survives, and what it shows stays what its State says.

FLASHSCOPE_MASH=SECONDS plays other seeds for so long: `FLASHSCOPE_MASH=300 pytest tests/app/test_mash.py -k other`.
"""

import math
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import QAction, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QMenu, QWidget

from kernel.problem import Problem
from tests.state.test_controller import HELLO, FakeWorker, result
from tests.state.test_resolve import equal
from visualizer.actions import ACTIONS
from visualizer.presets import PRESETS
from visualizer.resolve import resolve
from visualizer.tape import Tape
from visualizer.window import Window

ACTS = 2000
SHORT = 120
LARGEST = 1 << 14
NONE, SHIFT = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier
CTRL, ALT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.AltModifier
KEYS = [getattr(Qt.Key, f"Key_{name}") for name in (
    *"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "Space", "Return", "Escape", "Tab", "Backtab", "Backspace", "Delete",
    "Left", "Right", "Up", "Down", "Home", "End", "PageUp", "PageDown", "BracketLeft", "BracketRight", "Question",
    "Plus", "Minus", "Period", "Comma", "F1", "F5", "F10", "F11", "Slash", "Equal",
)]  # fmt: skip
LEAVES = {"file.quit"}  # what closes the window


class Puppet(FakeWorker):
    """Remembers what each run was of, as a worker's results are of the problem that was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: dict[int, Problem] = {}

    def run(self, problem: Problem, inputs: object = None) -> int:
        number = super().run(problem, inputs)
        self.problems[number] = problem
        return number


class Masher:
    """Acts at random, with a log, on one window."""

    def __init__(self, window: Window, seed: int) -> None:
        self.window, self.random, self.log = window, random.Random(seed), [f"seed {seed}"]
        self.errors: list[str] = []
        self.worker = Puppet()
        self.worker.hello = None
        window.controller.runs.attach(self.worker)
        self._began = math.inf
        self._timer = QTimer(window)
        self._timer.timeout.connect(self._close_popup)
        self._timer.start(20)

    def act(self) -> None:
        choices = {
            self.key: 40, self.click: 18, self.trigger: 18, self.wheel: 8, self.speak: 5, self.menu: 3, self.drag: 3,
            self.dialog_key: 3, self.wait: 2, self.preset: 1, self.resize: 1,
        }  # fmt: skip
        act = self.random.choices(list(choices), list(choices.values()))[0]
        self.log.append(act.__name__)
        self._began = time.monotonic()
        act()
        self._began = math.inf
        QApplication.processEvents()

    def _close_popup(self) -> None:
        """A tool button's menu runs an event loop of its own: it is closed, or the act would never end."""
        popup = QApplication.activePopupWidget()
        if popup is not None and time.monotonic() - self._began > 0.05:
            popup.close()

    def key(self) -> None:
        key = self.random.choice(KEYS)
        modifiers = self.random.choices([NONE, SHIFT, CTRL, CTRL | SHIFT, ALT], [14, 3, 3, 1, 1])[0]
        if key == Qt.Key.Key_Q and modifiers & CTRL:
            return
        self.log[-1] += f" {modifiers.name} {key.name}"
        handle = self.window.windowHandle()
        assert handle is not None
        QTest.keyClick(handle, key, modifiers)

    def dialog_key(self) -> None:
        """A key to whatever window is on top: a dialog, a menu."""
        top = QApplication.activePopupWidget() or QApplication.activeWindow() or self.window
        key = self.random.choice([Qt.Key.Key_Escape, Qt.Key.Key_Down, Qt.Key.Key_Tab, Qt.Key.Key_Right, Qt.Key.Key_1])
        self.log[-1] += f" {type(top).__name__} {key.name}"
        QTest.keyClick(top, key)

    def _place(self) -> tuple[QWidget, QPoint]:
        found = [w for w in self.window.findChildren(QWidget) if w.isVisible() and w.width() > 0 and w.height() > 0]
        widget = self.random.choice(found)
        at = QPoint(self.random.randrange(widget.width()), self.random.randrange(widget.height()))
        self.log[-1] += f" {type(widget).__name__} {widget.accessibleName()!r} {at.x()},{at.y()}"
        return widget, at

    def click(self) -> None:
        widget, at = self._place()
        if isinstance(widget, QMenu) or not widget.isEnabled():
            return
        button = self.random.choices([Qt.MouseButton.LeftButton, Qt.MouseButton.RightButton], [8, 1])[0]
        modifiers = self.random.choice([NONE, NONE, NONE, SHIFT, CTRL])
        (QTest.mouseDClick if self.random.random() < 0.15 else QTest.mouseClick)(widget, button, modifiers, at)

    def drag(self) -> None:
        widget, at = self._place()
        if isinstance(widget, QMenu):
            return
        QTest.mousePress(widget, Qt.MouseButton.LeftButton, NONE, at)
        for _ in range(3):
            QTest.mouseMove(
                widget, QPoint(self.random.randrange(widget.width()), self.random.randrange(widget.height()))
            )
            QApplication.processEvents()
        QTest.mouseRelease(widget, Qt.MouseButton.LeftButton, NONE, at)

    def wheel(self) -> None:
        widget, at = self._place()
        turn = QPoint(0, self.random.choice([-360, -120, 120, 360]))
        place, buttons = QPointF(at), Qt.MouseButton.NoButton
        modifiers = self.random.choice([NONE, NONE, SHIFT, CTRL])
        event = QWheelEvent(
            place,
            QPointF(widget.mapToGlobal(at)),
            QPoint(),
            turn,
            buttons,
            modifiers,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        QApplication.sendEvent(widget, event)

    def trigger(self) -> None:
        action = self.random.choice([a for a in ACTIONS if a.id not in LEAVES])
        self.log[-1] += f" {action.id}"
        self.window.menus.actions[action.id].trigger()

    def menu(self) -> None:
        """Whatever stands in the menus: presets, lessons, recent files."""
        menus = [m for m in self.window.findChildren(QMenu) if m.actions()]
        chosen = self.random.choice(menus)
        chosen.aboutToShow.emit()
        items = [a for a in chosen.actions() if not a.menu() and a.isEnabled() and not a.isSeparator()]
        leaves = {self.window.menus.actions[name] for name in LEAVES}
        items = [a for a in items if a not in leaves]
        if items:
            item: QAction = self.random.choice(items)
            self.log[-1] += f" {item.text()}"
            item.trigger()

    def preset(self) -> None:
        self.window.controller.open_preset(self.random.choice(PRESETS))

    def speak(self) -> None:
        """The worker says something: what is due, or what comes too late."""
        what = self.random.choice(["ready", "progress", "finished", "failed", "died", "silent", "spoken"])
        self.log[-1] += f" {what}"
        worker, number = self.worker, self.worker.number - self.random.choice([0, 0, 0, 1])
        if what == "ready":
            worker.hello = HELLO
            worker.ready.emit(HELLO)
        elif what == "progress":
            worker.progress.emit(number, "running kernel", self.random.choice([None, 0.0, 0.5, 1.0]))
        elif what == "finished":
            worker.finished.emit(number, result(worker.problems.get(number, Problem())))
        elif what == "failed":
            worker.failed.emit(number, "The kernel failed.")
        elif what == "died":
            worker.hello = None
            worker.died.emit("The worker was killed.")
        else:
            worker.silent.emit("The worker says nothing." if what == "silent" else "")

    def resize(self) -> None:
        self.window.resize(self.random.randrange(700, 1900), self.random.randrange(480, 1100))

    def wait(self) -> None:
        QTest.qWait(self.random.choice([1, 20, 60]))

    def rein_in(self) -> None:
        """Problems that are legal, but slow to look at a thousand times, are left again."""
        p = self.window.controller.state.problem
        if p.num_heads * max(p.seqlen_q, p.seqlen_k) > LARGEST or p.block_m * p.block_n > 1 << 16:
            self.log.append("a smaller problem")
            self.window.controller.open_preset(self.random.choice(PRESETS))

    def check(self) -> None:
        """What is shown is what the State says, and undo and redo are each other's inverse."""
        window, c = self.window, self.window.controller
        state, frame = c.state, window.frame
        assert frame is not None
        assert window.isVisible()
        assert frame.problem == state.problem == c.tape.problem == window.problem_bar.problem
        assert frame.run is c.runs.view
        total = len(c.tape)
        if total:
            assert frame.transport is not None
            assert frame.rows is not None
            assert (frame.transport.index, frame.transport.total) == (state.step, total)
            assert 0 <= state.step < total
            assert frame.lse is not None
            assert frame.lse.unit == state.lse_unit
        for name, edit in window.problem_bar.edits.items():
            if name not in window.problem_bar.refused and not edit.hasFocus():
                assert edit.text() == "" or edit.isEnabled() or name.startswith("block")
        for name, panel in window.panels.items():
            if panel.isVisible():
                assert panel.frame is frame, name

    def check_deeply(self) -> None:
        """A new tape gives the same picture; undo, redo leads back."""
        window, c = self.window, self.window.controller
        window.playback.pause()
        self.check()
        assert window.frame is not None
        fresh = resolve(c.state, Tape(c.state.problem), c.runs.view)
        for part in ("tiles", "chip", "rows", "source"):
            assert equal(getattr(window.frame, part), getattr(fresh, part)), part
        state = c.state
        for there, back, can in ((c.undo, c.redo, c.past.can_undo), (c.redo, c.undo, c.past.can_redo)):
            there()
            self.check()
            assert not can or c.state != state
            if can:
                back()
            self.check()
            assert c.state == state

    def mash(self, acts: int) -> None:
        try:
            for number in range(acts):
                self.act()
                self.rein_in()
                self.check()
                assert not self.errors
                assert "Something went wrong" not in self.window.message_bar.sentence
                if number % 100 == 99:
                    self.check_deeply()
            self.check_deeply()
        except BaseException as error:
            raise AssertionError("\n".join([f"{type(error).__name__}: {error}", *self.log[-60:]])) from error


@pytest.fixture
def make_masher(
    make_window: Callable[..., Window], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[int], Masher]:
    """Mashers whose file dialogs are cancelled, and whose worker is a puppet."""
    for name in ("getOpenFileName", "getSaveFileName"):
        monkeypatch.setattr(QFileDialog, name, lambda *_: ("", ""))

    def make(seed: int) -> Masher:
        window = make_window(PRESETS[seed % len(PRESETS)].state, motion=seed % 2 == 0)
        return Masher(window, seed)

    return make


@pytest.mark.parametrize("seed", range(4))
def test_everything_at_random(make_masher: Callable[[int], Masher], seed: int) -> None:
    make_masher(seed).mash(SHORT)


if "FLASHSCOPE_MASH" in os.environ:

    def test_other_seeds(make_masher: Callable[[int], Masher]) -> None:
        end = time.monotonic() + float(os.environ["FLASHSCOPE_MASH"])
        seed = int(os.environ.get("FLASHSCOPE_MASH_SEED", "1000"))
        while time.monotonic() < end:
            masher = make_masher(seed)
            masher.mash(ACTS)
            masher.window.close()
            print(f"seed {seed} done, {time.monotonic() - end:.0f} s", flush=True)
            seed += 1
