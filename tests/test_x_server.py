"""The machine can open a real window: Qt's X plug-in loads, and keys reach it."""

import os
import subprocess
import sys

import pytest

WINDOW = """
from PySide6.QtWidgets import QApplication, QLineEdit

app = QApplication([])
field = QLineEdit()
field.setWindowTitle("a line to type in")
field.returnPressed.connect(app.quit)
field.show()
app.exec()
print(app.platformName(), field.text())
"""


def test_typed_keys_reach_a_window(x_display: str) -> None:
    screen = os.environ | {"DISPLAY": x_display, "QT_QPA_PLATFORM": "xcb"}
    pipe = subprocess.PIPE
    window = subprocess.Popen([sys.executable, "-c", WINDOW], env=screen, stdout=pipe, stderr=pipe, text=True)
    focus = ["search", "--sync", "--onlyvisible", "--name", "^a line to type in$", "windowfocus", "--sync"]
    try:
        subprocess.run(["xdotool", *focus], env=screen, check=True, timeout=20)
        subprocess.run(["xdotool", "key", *"causal", "Return"], env=screen, check=True, timeout=20)
        printed, complaints = window.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        window.kill()
        pytest.fail(f"No window took the keys. It said: {window.communicate()}")
    finally:
        window.kill()
    assert printed.split() == ["xcb", "causal"], complaints
