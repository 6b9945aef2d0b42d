"""The pytest plugin: `panel_snapshot` compares a panel's picture with one that is kept beside the test.

Nothing but pytest is imported until a test uses the fixture; Qt stays in a process of its own even then.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from visualizer.snapshot import Snapshots

MODES: Final = ("all", "changed", "missing")
MAX_NAME: Final = 150  # bytes
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
            config.getoption("flashscope_update"), config.getoption("flashscope_failures"), in_ci(), config.rootpath
        )
    folder = request.path.parent / config.getini("flashscope_goldens")
    return PanelSnapshot(config.stash[_SNAPSHOTS], folder, request, tmp_path_factory)


class PanelSnapshot:
    """What the fixture `panel_snapshot` gives."""

    def __init__(
        self,
        snapshots: Snapshots,
        folder: Path,
        request: pytest.FixtureRequest,
        tmp_path_factory: pytest.TempPathFactory,
    ) -> None:
        self._snapshots, self._folder = snapshots, folder
        self._test, self._node = _name(request), request.node.nodeid
        self._notes: list[tuple[str, object]] = request.node.user_properties
        self._tmp_path_factory = tmp_path_factory
        base = tmp_path_factory.getbasetemp()
        # the folder of each of xdist's workers lies in that of the whole run
        self._claims = (base.parent if hasattr(request.config, "workerinput") else base) / "flashscope-goldens"
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
        place = {"preset": preset, "session": session, "fields": fields}
        request = {"panel": panel, "step": step, "head": head, "theme": theme, "size": size, "zoom": zoom} | place
        tensors = {"q": q, "k": k, "v": v, "o": o, "lse": lse}
        how: dict[str, Any] = {"lse_unit": lse_unit, "scale": scale, "tolerance": tolerance}
        from visualizer.snapshot_options import checked

        try:
            request = checked(request, tensors, **how)
            golden = self._claimed(name)
            outcome = self._snapshots.check(golden, request, tensors, **how, make_folder=self._failures)
        # the sentence is for the person; how it came about inside here is not
        except AssertionError as error:
            raise AssertionError(str(error)) from None
        except ValueError as error:
            raise ValueError(str(error)) from None
        if outcome.written:
            self._notes.append((WRITTEN, str(golden)))
        if outcome.wrong:
            self._notes.append((WRONG, f"{golden}: {outcome.wrong}"))

    def _claimed(self, name: str | None) -> Path:
        """The golden's path, which no other test of this run may ask for."""
        __tracebackhide__ = True
        if not isinstance(name, str | None):
            raise ValueError(f"name is {name!r:.40}; give a text.")
        name = file_name(self._test if name is None else name.removesuffix(".png"))
        golden = self._folder / f"{name}.png"
        if name in self._names:
            pytest.fail(f"The golden {name!r} was compared before in this test; give each picture a name.")
        self._names.add(name)
        first = claim(self._claims, golden, self._node)
        if first != self._node:
            pytest.fail(
                f"The golden {golden.name} is that of two tests, {first} and {self._node}; give each its own name."
            )
        return golden

    def _failures(self, name: str) -> Path:
        return self._tmp_path_factory.mktemp(f"golden-{name}")


def claim(folder: Path, golden: Path, test: str) -> str:
    """The test that was the first of this run to ask for the golden, in whichever worker of pytest-xdist."""
    folder.mkdir(parents=True, exist_ok=True)
    # where A.png and a.png are one file, they are one golden
    path = folder / hashlib.sha256(os.path.realpath(golden).lower().encode("utf-8", "replace")).hexdigest()
    try:
        with path.open("x", encoding="utf-8", errors="replace") as file:
            file.write(test)
    except FileExistsError:
        return path.read_text(encoding="utf-8") or "another"
    return test


def file_name(name: str) -> str:
    """A file's name for a picture's; test_x[dark] is test_x-dark. Where signs had to go, a hash keeps names apart."""
    plain = name = unicodedata.normalize("NFC", name)
    plain = re.sub(r"^(\w[\w-]*)\[(.+)\]$", r"\1-\2", plain)
    safe = re.sub(r"[^\w.+-]+", "-", plain).strip("-.").encode("utf-8", "ignore")[:MAX_NAME].decode("utf-8", "ignore")
    if safe and safe == plain:
        return safe
    mark = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:6]
    return f"{safe}-{mark}" if safe else f"golden-{mark}"


def _name(request: pytest.FixtureRequest) -> str:
    return f"{request.path.stem}-{request.node.name}"
