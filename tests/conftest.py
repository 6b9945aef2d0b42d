"""What every test runs under: no screen, one BLAS thread, its own settings, no silent skip, no leaked window."""

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

# (start of the test's id, text in the reason): a skip that is not listed here fails
ALLOWED_SKIPS: tuple[tuple[str, str], ...] = ()

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["QT_FONT_DPI"] = "96"
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"


# a busy machine is no failure; CI draws the same examples each time, so that a red run can be repeated, and leaves the
# search for a simpler one, which can take minutes, to whoever repeats it
CI = "CI" in os.environ
PHASES = (Phase.explicit, Phase.generate) if CI else tuple(Phase)
settings.register_profile("flashscope", deadline=None, derandomize=CI, print_blob=True, phases=PHASES)
settings.load_profile("flashscope")


def pytest_configure(config: pytest.Config) -> None:
    """Triton decides when a kernel is defined, so this must come before any test module is imported."""
    gpu = os.environ.get("FLASHSCOPE_GPU", "0") != "0" or config.getoption("markexpr") == "gpu"
    if gpu:
        os.environ.pop("TRITON_INTERPRET", None)
    else:
        os.environ["TRITON_INTERPRET"] = "1"


def _allowed(nodeid: str, reason: str) -> bool:
    return any(nodeid.startswith(start) and text in reason for start, text in ALLOWED_SKIPS)


def _reason(longrepr: object) -> str:
    return str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and not _allowed(item.nodeid, _reason(report.longrepr)):
        report.outcome = "failed"
        report.longrepr = f"Skipped, which counts as a failure: {_reason(report.longrepr)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):
    report = yield
    if report.skipped and not _allowed(collector.nodeid, _reason(report.longrepr)):
        report.outcome = "failed"
        report.longrepr = f"Skipped, which counts as a failure: {_reason(report.longrepr)}"
    return report


@pytest.fixture(autouse=True)
def own_settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has its own empty folders for settings, data, state and caches; returns the folder above them."""
    home = tmp_path_factory.mktemp("home")
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
    if "PySide6.QtCore" in sys.modules:
        from PySide6.QtCore import QSettings

        for kind in (QSettings.Format.NativeFormat, QSettings.Format.IniFormat):
            QSettings.setPath(kind, QSettings.Scope.UserScope, str(home / "config"))
    return home


def pytest_collection_finish() -> None:
    """What was imported lives until the end; without it a collection takes a fraction of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def garbage_on_this_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """As in the application (visualizer.garbage): the mirror's second thread must not come to destroy a widget."""
    if "kernel" in request.node.path.parts:  # no widgets there, and much garbage
        yield
        return
    gc.disable()
    yield
    gc.collect()
    gc.enable()


@pytest.fixture(autouse=True)
def no_leaked_window() -> Iterator[None]:
    """A top-level widget that outlives its test fails it: give it to qtbot, or close and delete it."""
    before = {id(widget) for widget in _top_level_widgets()}
    yield
    leaked = [widget for widget in _top_level_widgets() if id(widget) not in before]
    if not leaked:
        return
    names = ", ".join(sorted(f"{type(widget).__name__} {widget.objectName()!r}" for widget in leaked))
    for widget in leaked:
        widget.close()
        widget.deleteLater()
    _top_level_widgets()
    pytest.fail(f"Top-level widgets left behind: {names}")


def _top_level_widgets() -> list:
    """The living top-level widgets, after the deletions that were asked for are done."""
    if "PySide6.QtWidgets" not in sys.modules:
        return []
    from PySide6.QtCore import QCoreApplication, QEvent
    from PySide6.QtWidgets import QApplication

    if QApplication.instance() is None:
        return []
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    return [widget for widget in QApplication.topLevelWidgets() if type(widget).__name__ != "QTipLabel"]


@pytest.fixture(scope="session")
def x_display() -> Iterator[str]:
    """The name of an X display of the tests' own (a person's screen is left alone), 1600x1000 in 24 bits."""
    if shutil.which("Xvfb") is None:
        pytest.fail("This test needs a real X server, and Xvfb is not installed; `make test` installs it.")
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "1600x1000x24", "-nolisten", "tcp"],
        pass_fds=[write],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    try:
        with os.fdopen(read) as pipe:
            number = pipe.readline().strip()  # empty when the server ends before it is ready
        if not number:
            pytest.fail(f"Xvfb ended with status {server.wait()} before it offered a display.")
        yield f":{number}"
    finally:
        server.terminate()
        server.wait()
