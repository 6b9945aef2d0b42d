"""Cycles with widgets in them are collected on the GUI thread, whichever thread allocates."""

import subprocess
import sys

SCRIPT = """
import gc, threading, weakref
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from visualizer.app import application

app = application()
app.processEvents()
widget = QWidget()
widget.itself = widget
collected_on = []
ref = weakref.ref(widget, lambda _: collected_on.append(threading.current_thread().name))
del widget

def allocate():
    kept = [[] for _ in range(200_000)]

thread = threading.Thread(target=allocate)
thread.start()
thread.join()
assert not collected_on, collected_on
while not collected_on:
    kept = [[] for _ in range(20_000)]
    QTest.qWait(100)
print(*collected_on)
"""


def test_a_cycle_is_collected_on_the_gui_thread():
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60)
    assert found.stdout.strip() == "MainThread", found.stderr
