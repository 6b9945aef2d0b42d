"""`flashscope doctor`: what is installed, which GPU there is, and what works; ready to paste into a report."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from visualizer import display
from visualizer.worker_call import WorkerError, call_hello

PACKAGES: Final = (
    "PySide6-Essentials",
    "pyqtgraph",
    "numpy",
    "ml-dtypes",
    "msgpack",
    "safetensors",
    "threadpoolctl",
    "torch",
    "triton",
)
WORKER_SECONDS: Final = 60.0
QT_SECONDS: Final = 60
# in a process of its own: where Qt lacks a library it may end the process
QT: Final = """
from visualizer.render import application
app = application()
from PySide6.QtCore import qVersion
from PySide6.QtGui import QFontDatabase
from visualizer import theme
found = set(QFontDatabase.families())
missing = [name for name in (theme.UI_FONT, theme.CODE_FONT) if name not in found]
print(qVersion(), ",".join(missing), sep="|")
"""


def doctor(command: str | None, as_json: bool) -> int:
    """Prints the findings; returns 0."""
    found = findings(command)
    print(json.dumps(found, indent=2) if as_json else text(found))
    return 0


def findings(command: str | None) -> dict[str, Any]:
    """What this machine, and the worker that `command` starts, can do."""
    from visualizer.cli import version as own_version

    qt, fonts, qt_problem = _qt()
    window = qt_problem or display.complaint()
    try:
        hello = call_hello(command, WORKER_SECONDS)
        worker: dict[str, Any] = {
            "backend": hello.backend,
            "device": hello.device,
            "versions": hello.versions,
            "seconds_to_start": hello.seconds,
        }
        kernel = None if hello.can_run else hello.reason
    except WorkerError as error:
        worker, kernel = {"backend": "none"}, str(error)
    return {
        "flashscope": own_version(),
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.platform()}, {os.cpu_count()} CPUs",
        "packages": {name: _version(name) for name in PACKAGES},
        "qt": qt,
        "fonts": fonts,
        "display": display.name(),
        "gpus": _gpus(),
        "worker_command": command or "own",
        "worker": worker,
        "works": {"window": window or True, "render": qt_problem or True, "check": kernel or True},
    }


def text(found: dict[str, Any]) -> str:
    """The findings as lines of name and value."""
    packages = [f"{name} {number}" for name, number in found["packages"].items() if number]
    missing = [name for name, number in found["packages"].items() if not number]
    worker = found["worker"]
    backends = {
        "cuda": "compiled for the GPU",
        "interpreter": "interpreted on CPU: values are real, time is not",
        "none": "cannot run",
    }
    lines = [
        ("flashscope", found["flashscope"]),
        ("python", found["python"]),
        ("system", found["system"]),
        ("packages", ", ".join(packages)),
        *([("not installed", ", ".join(missing))] if missing else []),
        ("Qt", found["qt"] or "cannot be loaded"),
        ("fonts", found["fonts"]),
        ("display", found["display"]),
        ("GPU", "; ".join(found["gpus"]) or "none found"),
        ("worker", found["worker_command"]),
        ("kernel", backends[worker["backend"]] + (f", {worker['device']}" if worker.get("device") else "")),
    ]
    if worker.get("versions"):
        lines.append(("there", ", ".join(f"{name} {number}" for name, number in worker["versions"].items())))
    lines.append(("", ""))
    for name, state in found["works"].items():
        lines.append((name, "works" if state is True else f"does not work: {state}"))
    return "\n".join(f"{name:14} {value}".rstrip() for name, value in lines)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _qt() -> tuple[str | None, str, str | None]:
    """Qt's version, the state of the fonts, and why Qt does not work, if so."""
    command = [sys.executable, "-P", "-c", QT]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=QT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, "not tried", f"Qt cannot be started ({type(error).__name__}: no answer in {QT_SECONDS} s)."
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        why = lines[-1] if lines else f"it ended with status {done.returncode}"
        return None, "not tried", f"Qt cannot be started ({why})."
    number, _, missing = done.stdout.strip().partition("|")
    return number, f"{missing} missing: reinstall flashscope" if missing else "Inter and JetBrains Mono load", None


def _gpus() -> list[str]:
    """The NVIDIA GPUs that the driver lists, whether torch can use them or not."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ["nvidia-smi does not answer"]
    if done.returncode:
        return [f"nvidia-smi: {(done.stdout + done.stderr).strip().splitlines()[-1:] or ['fails']}"]
    return [" · driver ".join(line.split(", ", 1)) for line in done.stdout.splitlines() if line.strip()]
