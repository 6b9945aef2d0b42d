"""The rules of conftest.py hold: skips fail, leaked windows fail, settings are each test's own."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASES = """
import os
import sys

import pytest

def test_skipped():
    pytest.skip("no reason")

@pytest.mark.skipif(True, reason="never")
def test_skipped_by_a_mark():
    pass

@pytest.mark.xfail(strict=True)
def test_expected_failure():
    assert False

def test_warned():
    import warnings
    warnings.warn("old", DeprecationWarning)

def test_leaks(qapp):
    from PySide6.QtWidgets import QWidget
    sys.kept = QWidget(objectName="stray")
    sys.kept.show()

def test_closes(qtbot):
    from PySide6.QtWidgets import QWidget
    widget = QWidget()
    qtbot.addWidget(widget)
    widget.show()

def test_writes_settings():
    from PySide6.QtCore import QSettings
    QSettings("FlashScope", "FlashScope").setValue("seen", 1)

def test_reads_no_settings():
    from PySide6.QtCore import QSettings
    assert QSettings("FlashScope", "FlashScope").value("seen") is None

def test_interpreter():
    assert os.environ.get("TRITON_INTERPRET") == "1"

@pytest.mark.gpu
def test_compiled():
    assert "TRITON_INTERPRET" not in os.environ
"""


def run(folder: Path, *options: str) -> tuple[dict[str, str], str]:
    """The outcome of each test in the folder, and all that pytest printed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_") and k != "FLASHSCOPE_GPU"}
    command = [sys.executable, "-m", "pytest", "-c", str(HERE.parent / "pyproject.toml"), "--rootdir", str(folder)]
    command += [
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "-rA",
        "--tb=short",
        "--continue-on-collection-errors",
        *options,
        str(folder),
    ]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    lines = re.findall(r"^(PASSED|FAILED|ERROR|XFAIL|SKIPPED) (?:\S*::)?(\w+)", done.stdout, re.MULTILINE)
    outcomes: dict[str, str] = {}
    for outcome, name in lines:  # a test that passes and then fails in teardown has two lines; the worse one counts
        outcomes[name] = outcome if outcome != "PASSED" else outcomes.get(name, outcome)
    return outcomes, done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rules")
    shutil.copy(HERE / "conftest.py", folder)
    (folder / "test_cases.py").write_text(CASES)
    (folder / "test_needs.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    return folder


def test_what_passes_and_what_fails(folder: Path) -> None:
    outcomes, printed = run(folder)
    assert outcomes == {
        "test_skipped": "FAILED",
        "test_skipped_by_a_mark": "ERROR",
        "test_expected_failure": "XFAIL",
        "test_warned": "FAILED",
        "test_leaks": "ERROR",
        "test_closes": "PASSED",
        "test_writes_settings": "PASSED",
        "test_reads_no_settings": "PASSED",
        "test_interpreter": "PASSED",
        "test_needs": "ERROR",
    }
    assert "QWidget 'stray'" in printed
    assert "Skipped, which counts as a failure: Skipped: no reason" in printed


def test_gpu_tests_run_the_compiled_kernel(folder: Path) -> None:
    outcomes, _ = run(folder, "-m", "gpu", "--ignore", str(folder / "test_needs.py"))
    assert outcomes == {"test_compiled": "PASSED"}
