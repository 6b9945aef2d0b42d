"""The pytest plugin: `panel_snapshot` compares a panel's picture with one that is kept beside the test.

Nothing but pytest is imported until a test uses the fixture; Qt stays in a process of its own even then.
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from visualizer.snapshot import Snapshots

MODES: Final = ("all", "changed", "missing")
WRITTEN, WRONG = "flashscope_written", "flashscope_wrong"  # properties of a test


def _mode(text: str) -> str:
    if text not in MODES:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(MODES)}; write --update-goldens=all {text}")
    return text


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("flashscope", "FlashScope's screenshot tests")
    about = "write the pictures that panel_snapshot compares with: all of them, the changed or the missing ones"
    options: dict[str, Any] = {"dest": "flashscope_update", "nargs": "?", "const": "all", "type": _mode}
    try:
        group.addoption("--update-goldens", metavar="all|changed|missing", help=about, **options)
    except ValueError:  # another plugin's option has this name
        group.addoption("--update-flashscope-goldens", metavar="all|changed|missing", help=about, **options)
    group.addoption(
        "--golden-failures", dest="flashscope_failures", metavar="DIR", type=Path,
        help="where expected, actual and difference go when a comparison fails (pytest's temporary folder)",
    )  # fmt: skip
    parser.addini("flashscope_goldens", "folder of the pictures, as seen from a test's own folder", default="goldens")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("flashscope_update") and in_ci():
        raise pytest.UsageError("Goldens are not updated in CI (CI is set): make them where somebody looks at them.")


def pytest_unconfigure(config: pytest.Config) -> None:
    snapshots = config.stash.get(_SNAPSHOTS, None)
    if snapshots is not None:
        snapshots.close()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    # from the tests' reports, which reach this process from pytest-xdist's workers, too
    reports = [report for group in terminalreporter.stats.values() for report in group]
    noted = [note for report in reports for note in getattr(report, "user_properties", ())]
    for kind, title in (
        (WRITTEN, "goldens written; look at them before you commit them"),
        (WRONG, "goldens that show a WRONG kernel; tests pass as long as it stays as wrong"),
    ):
        notes = sorted({str(value) for name, value in noted if name == kind})
        if notes:
            terminalreporter.section(title)
        for note in notes:
            path, _, words = note.partition(": ")
            path = os.path.relpath(path, config.invocation_params.dir)
            terminalreporter.write_line(f"{path}: {words}" if words else path)


def in_ci() -> bool:
    """Whether this is a build server, which must never make a golden."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


_SNAPSHOTS: Final = pytest.StashKey["Snapshots"]()


@pytest.fixture
def panel_snapshot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PanelSnapshot:
    """Draws a panel and fails the test when it differs from the stored picture; see PanelSnapshot.__call__."""
    from visualizer.snapshot import Snapshots

    config = request.config
    if _SNAPSHOTS not in config.stash:
        config.stash[_SNAPSHOTS] = Snapshots(
            config.getoption("flashscope_update"), config.getoption("flashscope_failures"), in_ci()
        )
    folder = request.path.parent / config.getini("flashscope_goldens")
    return PanelSnapshot(
        config.stash[_SNAPSHOTS], folder, _name(request), tmp_path_factory, request.node.user_properties
    )


class PanelSnapshot:
    """What the fixture `panel_snapshot` gives."""

    def __init__(
        self,
        snapshots: Snapshots,
        folder: Path,
        test: str,
        tmp_path_factory: pytest.TempPathFactory,
        notes: list[tuple[str, object]],
    ) -> None:
        self._snapshots, self._folder, self._test = snapshots, folder, test
        self._tmp_path_factory, self._notes = tmp_path_factory, notes
        self._names: set[str] = set()

    def __call__(
        self,
        panel: str,
        name: str | None = None,
        *,
        q: Any = None,
        k: Any = None,
        v: Any = None,
        o: Any = None,
        lse: Any = None,
        lse_unit: str = "log2",
        preset: str | None = None,
        session: str | os.PathLike[str] | None = None,
        step: int | None = None,
        head: int | None = None,
        theme: str = "dark",
        size: tuple[int, int] | None = None,
        scale: float = 1,
        zoom: float = 1,
        tolerance: float = 0.0,
        **fields: Any,
    ) -> None:
        """Draws `panel` ("tiles", "chip", "rows", "lse", "source", "run", "ledger", "transport" or "window") and
        compares it with the golden `name`.png, by default named after the test.

        The problem is that of q, k and v (arrays or tensors of any kind, (batch, heads, seqlen, head_dim)), of a
        preset or of a session file, and what `fields` say of it: seqlen, heads, causal, sm_scale, block_m, … With o
        (like q) and lse (batch, heads, seqlen) the run and lse panels show a kernel's outputs against exact attention;
        lse is in base 2, or natural with lse_unit="ln". For tensors causal is False and sm_scale 1/sqrt(head_dim)
        unless said otherwise. step: of the tape, negative from the end; head: shows that head's last step.
        size is in logical pixels, scale multiplies it; tolerance: how far a pixel's colour may be off, 0 to 1.
        """
        __tracebackhide__ = True
        name = _safe(self._test if name is None else name)
        if name in self._names:
            pytest.fail(f"The golden {name!r} was compared before in this test; give each picture a name.")
        self._names.add(name)
        golden = self._folder / f"{name}.png"
        try:
            outcome = self._snapshots.check(
                golden,
                {
                    "panel": panel, "preset": preset,
                    "session": None if session is None else os.path.abspath(session), "step": step, "head": head, "theme": theme,
                    "size": size, "zoom": zoom, "fields": fields,
                },
                {"q": q, "k": k, "v": v, "o": o, "lse": lse},
                lse_unit=lse_unit, scale=scale, tolerance=tolerance, make_folder=self._failures,
            )  # fmt: skip
        except (ValueError, AssertionError) as error:
            # the sentence is for the person; how it came about inside here is not
            raise error.with_traceback(None) from None
        if outcome.written:
            self._notes.append((WRITTEN, str(golden)))
        if outcome.wrong:
            self._notes.append((WRONG, f"{golden}: {outcome.wrong}"))

    def _failures(self, name: str) -> Path:
        return self._tmp_path_factory.mktemp(f"golden-{name}")


def _name(request: pytest.FixtureRequest) -> str:
    return f"{request.path.stem}-{request.node.name}"


def _safe(name: str) -> str:
    """A file's name: test_x-test_y[dark] is test_x-test_y-dark."""
    return re.sub(r"[^\w.+-]+", "-", name, flags=re.ASCII).strip("-.") or "golden"
