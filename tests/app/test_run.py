"""The kernel run from the window, by the real worker in the interpreter."""

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from visualizer.window import Window
from visualizer.worker_client import WorkerClient

from .test_window import CTRL, K, press

PATIENCE = 120_000


@pytest.fixture
def working(window: Window) -> Iterator[Window]:
    window.controller.runs.attach(WorkerClient())
    yield window
    window.controller.runs.close()


def phase(window: Window) -> str:
    return window.controller.runs.view.phase


def until(qtbot, test: Callable[[], bool]) -> None:
    qtbot.waitUntil(test, timeout=PATIENCE)


def test_run_shows_the_verdict_and_the_kernels_l(working: Window, qtbot) -> None:
    working.panel_layout.bring_forward("ledger")
    press(working, K.Key_R, CTRL)
    assert phase(working) == "running"
    assert working.panels["run"].isVisible()
    assert "Cancel" in working.problem_bar.run_button.text()
    until(qtbot, lambda: phase(working) != "running")
    view = working.controller.runs.view
    assert phase(working) == "done", view.message
    assert view.result is not None and view.result.ok
    assert (view.result.mirror_o_differing, view.result.mirror_lse_differing) == (0, 0)
    assert working.frame is not None and working.frame.lse is not None
    assert working.frame.lse.kernel is not None
    press(working, K.Key_End)
    assert working.frame.lse.max_kernel_mirror == 0


def test_escape_cancels_and_the_next_run_works(working: Window, qtbot) -> None:
    press(working, K.Key_R, CTRL)
    press(working, K.Key_Escape)
    assert phase(working) == "cancelled"
    press(working, K.Key_R, CTRL)
    until(qtbot, lambda: phase(working) != "running")
    assert phase(working) == "done"


def test_a_worker_killed_from_outside_is_one_sentence_and_starts_again(working: Window, qtbot) -> None:
    until(qtbot, lambda: working.controller.runs.view.worker == "worker ready")
    working.maximise("tiles")
    press(working, K.Key_R, CTRL)
    client = working.controller.runs._worker
    assert isinstance(client, WorkerClient) and client._link is not None
    os.kill(client._link._process.processId(), signal.SIGKILL)
    until(qtbot, lambda: phase(working) != "running")
    assert phase(working) == "failed"
    assert working.message_bar.sentence == "The worker was killed (SIGKILL); the next run starts it again."
    press(working, K.Key_R, CTRL)
    until(qtbot, lambda: phase(working) != "running")
    assert phase(working) == "done"


def test_a_worker_that_cannot_start_is_said(window: Window, qtbot) -> None:
    window.controller.runs.attach(WorkerClient("/nowhere/python -m kernel.worker"))
    until(qtbot, lambda: window.message_bar.sentence != "")
    assert "/nowhere/python" in window.message_bar.sentence
    press(window, K.Key_Right)
    assert window.controller.state.step == 1
