"""The start of the window: application, settings, state, window; and the worker once the first frame is seen."""

from __future__ import annotations

import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal

from PySide6.QtCore import QLocale, QSocketNotifier
from PySide6.QtWidgets import QApplication

from kernel.problem import ProblemError
from visualizer import garbage, theme
from visualizer.controller import Controller
from visualizer.files import kept_state
from visualizer.settings import Settings
from visualizer.state import OPENING, State
from visualizer.window import Window


def application() -> QApplication:
    """The QApplication in its name, fonts and number format. Keep it until the end."""
    QLocale.setDefault(QLocale.c())
    app = QApplication.instance()
    if app is None:
        app = QApplication(["flashscope"])
        garbage.keep_on_this_thread(app)
    assert isinstance(app, QApplication)
    app.setApplicationName("flashscope")
    app.setApplicationDisplayName("FlashScope")
    app.setDesktopFileName("flashscope")
    theme.load_fonts()
    return app


def open_window(
    file: Path | None = None,
    *,
    worker: str | None = None,
    state: State | None = None,
    look: Literal["dark", "light"] | None = None,
) -> int:
    """Runs the application until its window is closed; returns the exit status.

    `file` is a session or a tensor file; without one, `state`, else what was shown last. `worker` is the command that
    starts the worker; without one, the settings say. `look` changes the settings' theme.
    """
    app = application()
    settings = Settings()
    if look is not None:
        settings.theme = look
    theme.apply(app, theme.theme(settings.theme, settings.zoom))
    window = make_window(settings, file, state)
    window.first_painted.connect(lambda: _begin(window, worker if worker is not None else settings.worker))
    undo = [_close_on_signals(window.close), _tell_of_errors(window.say)]
    window.dress.keep_on_screen()
    window.show()
    try:
        return app.exec()
    finally:
        window.controller.runs.close()
        for back in undo:
            back()


def make_window(settings: Settings, file: Path | None = None, state: State | None = None) -> Window:
    """The window on `file`, on `state`, or on what was shown last; what cannot be opened is said in it."""
    kept, complaint = (state, "") if state is not None or file is not None else kept_state()
    try:
        controller = Controller(kept or OPENING)
    except (ProblemError, MemoryError) as error:
        complaint = f"The last state could not be restored: {error}"
        controller = Controller(OPENING)
    if state is None and file is None and kept is not None and settings.session is not None:
        controller.belongs_to(settings.session)
    window = Window(controller, settings)
    if complaint := complaint or controller.trouble:
        window.say(complaint)
    if file is not None:
        window.files.open(file)
    return window


def _begin(window: Window, worker: str) -> None:
    """What can wait until the first frame is seen."""
    window.controller.start_filling()
    from visualizer.worker_client import WorkerClient

    window.controller.runs.attach(WorkerClient(worker or None))


def _close_on_signals(close: Callable[[], object]) -> Callable[[], None]:
    """Ctrl+C in the terminal and a polite kill close the window as a person does, so that its state is kept."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    notifier = QSocketNotifier(ours.fileno(), QSocketNotifier.Type.Read)
    notifier.activated.connect(lambda *_: close())
    before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    handlers = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}

    def undo() -> None:
        notifier.setEnabled(False)
        signal.set_wakeup_fd(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        ours.close()
        theirs.close()

    return undo


def _tell_of_errors(say: Callable[[str], object]) -> Callable[[], None]:
    """An error that nobody caught is said in the window, and printed with its traceback."""
    before = sys.excepthook

    def tell(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
        traceback.print_exception(kind, error, where)
        say(f"Something went wrong in FlashScope itself ({kind.__name__}: {error}); the terminal has the details.")

    sys.excepthook = tell

    def undo() -> None:
        sys.excepthook = before

    return undo
