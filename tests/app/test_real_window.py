"""A real window under an X server, with real key presses; what they did is read from the session that it saves."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SESSION = {
    "flashscope": 1,
    "problem": {
        "heads": 1,
        "kv_heads": 1,
        "seqlen_q": 64,
        "seqlen_k": 64,
        "head_dim": 16,
        "block_m": 16,
        "block_n": 16,
    },
}
LAST = 105
SECONDS = 60


class Screen:
    """xdotool on a display of the tests' own, and the program whose window it drives."""

    def __init__(self, display: str, folder: Path, own_settings: Path) -> None:
        self.environment = os.environ | {"DISPLAY": display, "QT_QPA_PLATFORM": "xcb"}
        self.environment.pop("QT_SCALE_FACTOR", None)
        self.path = folder / "moment.flashscope.json"
        self.path.write_text(json.dumps(SESSION))
        command = [sys.executable, "-c", "import sys; from visualizer.cli import main; sys.exit(main())"]
        self.program = subprocess.Popen(
            [*command, "open", str(self.path), "--worker", f"{sys.executable} -c pass"],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def do(self, *arguments: str) -> str:
        done = subprocess.run(
            ["xdotool", *arguments], env=self.environment, capture_output=True, text=True, timeout=SECONDS
        )
        assert done.returncode == 0, f"xdotool {arguments}: {done.stderr}"
        return done.stdout.strip()

    def focus(self) -> None:
        """Gives the window the keys, once it is there; X refuses that to a window that is only just being mapped."""
        focus = ["xdotool", "search", "--onlyvisible", "--name", "^moment.flashscope.json", "windowfocus", "--sync"]

        def focused() -> bool:
            done = subprocess.run(focus, env=self.environment, capture_output=True, timeout=SECONDS)
            return done.returncode == 0 and not done.stderr

        self.wait(focused, "no window took the keys")

    def windows(self) -> list[str]:
        """The titles of the dialogs that are open."""
        found = subprocess.run(
            ["xdotool", "search", "--onlyvisible", "--name", "."],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        titles = [self.do("getwindowname", number).partition(" — ")[0] for number in found.stdout.split()]
        return [title for title in titles if title.rstrip("*") != self.path.name]

    def keys(self, *keys: str) -> None:
        self.do("key", "--delay", "60", *keys)

    def state(self) -> dict:
        """Presses Ctrl+S, and reads the session that this writes."""
        before = self.path.stat().st_mtime_ns
        self.keys("ctrl+s")
        self.wait(lambda: self.path.stat().st_mtime_ns != before, "the session was not saved")
        return json.loads(self.path.read_text())

    def wait(self, test: Callable[[], bool], complaint: str) -> None:
        end = time.monotonic() + SECONDS
        while not test():
            assert self.program.poll() is None, f"The window has gone: {self.program.communicate()[0]}"
            assert time.monotonic() < end, complaint
            time.sleep(0.05)


@pytest.fixture
def screen(x_display: str, tmp_path: Path, own_settings: Path) -> Iterator[Screen]:
    screen = Screen(x_display, tmp_path, own_settings)
    try:
        screen.focus()
        yield screen
    finally:
        screen.program.kill()
        screen.program.communicate()


def test_keys_do_what_they_should(screen: Screen) -> None:
    assert screen.state()["step"] == 0
    screen.keys("Right", "Right", "Right", "Left", "Down")
    state = screen.state()
    assert (state["step"], state["row"]) == (2, 1)
    screen.keys("End")
    assert screen.state()["step"] == LAST
    screen.keys("Home")
    assert screen.state()["step"] == 0
    screen.keys("shift+Right", "shift+Right", "ctrl+Right")
    assert screen.state()["step"] > 20


def test_space_plays_and_pauses(screen: Screen) -> None:
    screen.keys("space")
    screen.wait(lambda: screen.state()["step"] >= 3, "nothing was played")
    screen.keys("space")
    at = screen.state()["step"]
    time.sleep(1.5)
    assert screen.state()["step"] == at < LAST


def test_escape_closes_every_dialog_and_the_keys_come_back(screen: Screen) -> None:
    """Without a window manager nobody else gives a new window the keys, or gives them back."""
    assert not screen.windows()
    for step, (keys, title) in enumerate(
        (("question", "Keys"), ("ctrl+o", "Open"), ("ctrl+shift+s", "Save the session"), ("ctrl+k", "Export a film")), 1
    ):
        screen.keys(keys)
        if keys == "ctrl+k":
            screen.do("type", "--delay", "60", "export film")
            screen.keys("Return")
        screen.wait(lambda title=title: screen.windows() == [title], f"{title} did not open")
        screen.wait(lambda title=title: screen.do("getwindowfocus", "getwindowname").startswith(title), "no keys")
        screen.keys("Escape")
        screen.wait(lambda: not screen.windows(), f"{title} did not close")
        screen.keys("Right")
        assert screen.state()["step"] == step


def test_the_palette_takes_typing_and_leaves(screen: Screen) -> None:
    screen.keys("ctrl+k")
    screen.do("type", "--delay", "60", "step 37")
    screen.keys("Return")
    assert screen.state()["step"] == 37
    screen.keys("ctrl+k", "Escape", "Right")
    assert screen.state()["step"] == 38


def test_question_mark_shows_the_keys_also_without_menus(screen: Screen) -> None:
    screen.keys("F11", "question")  # without a window manager nothing fills the screen, but the menus go
    screen.do("search", "--sync", "--onlyvisible", "--name", "^Keys")


def test_a_polite_end_keeps_the_state_for_the_next_start(screen: Screen, own_settings: Path) -> None:
    screen.keys("End")
    assert screen.state()["step"] == LAST
    screen.keys("Left")
    screen.program.send_signal(signal.SIGTERM)
    printed = screen.program.communicate(timeout=SECONDS)[0]
    assert screen.program.returncode == 0, printed
    (kept,) = own_settings.rglob("last.flashscope.json")
    assert json.loads(kept.read_text())["step"] == LAST - 1
