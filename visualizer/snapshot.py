"""Goldens: a picture drawn now against the one that is kept, and what is written when they differ."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from visualizer import diff, diff_report
from visualizer.arrays import arrays
from visualizer.picture_client import PictureClient, PictureError

QT_KEY: Final = "Qt"
PICTURES: Final = ("expected", "actual", "difference")
REPORT: Final = "report.html"


class Drawn(NamedTuple):
    """A picture, the Qt that drew it, and what is wrong with the outputs in it: a sentence, or ""."""

    image: Image.Image
    qt: str
    wrong: str


class Outcome(NamedTuple):
    """A comparison that passed: whether the golden was made or changed, and what is wrong with its outputs, or ""."""

    written: bool
    wrong: str


class Snapshots:
    """Every comparison of one run of the tests, whose files are below `root`."""

    def __init__(self, update: str | None, failures: Path | None, ci: bool, root: Path) -> None:
        self._update, self._failures, self._ci, self._root = update, failures, ci, root
        self._folder = tempfile.TemporaryDirectory(prefix="flashscope-")
        self._clients: dict[float, PictureClient] = {}

    def check(
        self,
        golden: Path,
        request: dict[str, Any],
        tensors: dict[str, Any],
        *,
        lse_unit: str,
        scale: float,
        tolerance: float,
        make_folder: Callable[[str], Path],
    ) -> Outcome:
        """Raises AssertionError when the picture is not the golden's, and ValueError when it cannot be drawn."""
        __tracebackhide__ = True
        drawn = self._draw(request, tensors, lse_unit, scale)
        if not golden.exists():
            if self._update not in ("all", "missing"):
                raise AssertionError(self._missing(golden) + _verdict(drawn))
            return self._write(golden, drawn)
        replace = self._update in ("all", "changed")
        try:
            before = diff.read(golden)
        except diff.DiffError as error:
            if replace:
                return self._write(golden, drawn)
            self._clean(golden)
            raise AssertionError(self._unreadable(golden, str(error), drawn, make_folder)) from None
        found = diff.compare(before, drawn.image, tolerance, golden.name)
        if replace and (not found.same or (tolerance and self._update == "all")):
            return self._write(golden, drawn)
        if not found.same:
            raise AssertionError(self._report(golden, found, drawn, make_folder))
        self._clean(golden)
        return Outcome(False, drawn.wrong)

    def close(self) -> None:
        """Ends the processes that draw."""
        for client in self._clients.values():
            client.close()
        self._folder.cleanup()

    def _draw(self, request: dict[str, Any], tensors: dict[str, Any], lse_unit: str, scale: float) -> Drawn:
        folder = Path(self._folder.name)
        out = folder / "picture.png"
        paths = arrays(tensors, folder)
        client = self._clients.get(scale)
        if client is None or not client.alive:
            if client is not None:
                client.close()
            client = self._clients[scale] = PictureClient(scale)
        try:
            answer = client.draw(request | paths | {"lse_unit": lse_unit, "out": str(out)})
        except PictureError as error:
            raise ValueError(str(error)) from None
        return Drawn(diff.read(out), **answer)

    def _missing(self, golden: Path) -> str:
        how = "In CI none is made: make it where somebody looks at it, with" if self._ci else "Make it with"
        return f"There is no golden {golden}. {how} pytest --update-goldens=missing, and commit it."

    def _write(self, golden: Path, drawn: Drawn) -> Outcome:
        self._clean(golden)
        notes = PngInfo()
        notes.add_text(QT_KEY, drawn.qt)
        diff.save(small(drawn.image), golden, notes)
        return Outcome(True, drawn.wrong)

    def _unreadable(self, golden: Path, why: str, drawn: Drawn, make_folder: Callable[[str], Path]) -> str:
        folder = self._failure_folder(golden, make_folder)
        diff.save(drawn.image, folder / "actual.png")
        return (
            f"The golden cannot be compared with: {why}{_verdict(drawn)}\n"
            f"actual.png is in {folder}\nIf it is right: pytest --update-goldens=changed"
        )

    def _clean(self, golden: Path) -> None:
        """What an earlier failure left in the person's folder goes, and nothing else that is there."""
        if self._failures is not None:
            folder = self._kept(self._failures, golden)
            for name in (*(f"{picture}.png" for picture in PICTURES), REPORT):
                (folder / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _failure_folder(self, golden: Path, make_folder: Callable[[str], Path]) -> Path:
        return make_folder(golden.stem) if self._failures is None else self._kept(self._failures, golden)

    def _kept(self, failures: Path, golden: Path) -> Path:
        """Called like the golden, in folders like those of its test: two tests may have goldens of one name."""
        tests = golden.parent.parent
        inner = tests.relative_to(self._root) if tests.is_relative_to(self._root) else Path()
        return failures.absolute() / inner / golden.stem

    def _report(self, golden: Path, found: diff.Comparison, drawn: Drawn, make_folder: Callable[[str], Path]) -> str:
        folder = self._failure_folder(golden, make_folder)
        for name, picture in zip(PICTURES, (found.before, found.after, found.difference()), strict=True):
            if picture is not None:
                diff.save(diff.loaded(picture), folder / f"{name}.png")
        diff_report.write([found], folder / REPORT, f"the golden {golden}", "this run")
        with Image.open(golden) as picture:
            made_with = picture.info.get(QT_KEY, drawn.qt)
        older = ""
        if made_with != drawn.qt:
            older = (
                f" It was made with Qt {made_with}, and Qt {drawn.qt} is installed: pictures of different Qts differ."
            )
        return (
            f"The picture differs from the golden {os.path.relpath(golden)}: {found.reason}.{older}{_verdict(drawn)}\n"
            f"expected.png, actual.png, difference.png and report.html are in {folder}\n"
            "If the new picture is right: pytest --update-goldens=changed"
        )


def _verdict(drawn: Drawn) -> str:
    return f"\n{drawn.wrong}" if drawn.wrong else ""


def small(image: Image.Image) -> Image.Image:
    """Without an alpha channel that says nothing, and with a palette where 256 colours are enough: the same pixels."""
    if image.mode == "RGBA" and image.getchannel("A").getextrema() == (255, 255):
        image = image.convert("RGB")
    if image.mode == "RGB" and image.getcolors(256) is not None:
        flat = image.quantize(256, dither=Image.Dither.NONE)
        if flat.convert("RGB").tobytes() == image.tobytes():
            return flat
    return image
