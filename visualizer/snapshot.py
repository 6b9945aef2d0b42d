"""Goldens: a picture drawn now against the one that is kept, and what is written when they differ."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from visualizer import diff, diff_report
from visualizer.arrays import arrays
from visualizer.picture_client import PictureClient, PictureError

QT_KEY: Final = "Qt"


class Snapshots:
    """Every comparison of one run of the tests. `written`: the goldens that were made or changed."""

    def __init__(self, update: str | None, failures: Path | None, ci: bool) -> None:
        self.written: list[Path] = []
        self._update, self._failures, self._ci = update, failures, ci
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
    ) -> None:
        """Raises AssertionError when the picture is not the golden's, and ValueError when it cannot be drawn."""
        __tracebackhide__ = True
        actual, qt = self._draw(request, tensors, lse_unit, scale)
        if not golden.exists():
            self._missing(golden, actual, qt)
            return
        found = diff.compare(diff.read(golden), actual, tolerance, golden.name)
        if found.same and self._update != "all":
            return
        if self._update in ("all", "changed"):
            if not found.same or tolerance:
                self._write(golden, actual, qt)
            return
        raise AssertionError(self._report(golden, found, qt, make_folder))

    def close(self) -> None:
        """Ends the processes that draw."""
        for client in self._clients.values():
            client.close()
        self._folder.cleanup()

    def _draw(
        self, request: dict[str, Any], tensors: dict[str, Any], lse_unit: str, scale: float
    ) -> tuple[Image.Image, str]:
        if lse_unit not in ("log2", "ln"):
            raise ValueError(f"lse_unit is {lse_unit!r}; choose 'log2' (base 2) or 'ln' (natural).")
        folder = Path(self._folder.name)
        out = folder / "picture.png"
        paths = arrays(tensors, folder)
        client = self._clients.get(scale)
        if client is None or not client.alive:
            if client is not None:
                client.close()
            client = self._clients[scale] = PictureClient(scale)
        try:
            qt = client.draw(request | paths | {"lse_unit": lse_unit, "out": str(out)})
        except PictureError as error:
            raise ValueError(str(error)) from None
        return diff.read(out), qt

    def _missing(self, golden: Path, actual: Image.Image, qt: str) -> None:
        __tracebackhide__ = True
        if self._update in ("all", "missing"):
            self._write(golden, actual, qt)
            return
        how = "In CI none is made: make it where somebody looks at it, with" if self._ci else "Make it with"
        raise AssertionError(f"There is no golden {golden}. {how} pytest --update-goldens=missing, and commit it.")

    def _write(self, golden: Path, actual: Image.Image, qt: str) -> None:
        notes = PngInfo()
        notes.add_text(QT_KEY, qt)
        diff.save(small(actual), golden, notes)
        self.written.append(golden)

    def _report(self, golden: Path, found: diff.Comparison, qt: str, make_folder: Callable[[str], Path]) -> str:
        folder = make_folder(golden.stem) if self._failures is None else self._failures.absolute() / golden.stem
        for name, picture in (("expected", found.before), ("actual", found.after), ("difference", found.difference())):
            if picture is not None:
                diff.save(diff.loaded(picture), folder / f"{name}.png")
        diff_report.write([found], folder / "report.html", f"the golden {golden}", "this run")
        with Image.open(golden) as picture:
            made_with = picture.info.get(QT_KEY, qt)
        older = ""
        if made_with != qt:
            older = f" It was made with Qt {made_with}, and Qt {qt} is installed: pictures of different Qts differ."
        return (
            f"The picture differs from the golden {os.path.relpath(golden)}: {found.reason}.{older}\n"
            f"expected.png, actual.png, difference.png and report.html are in {folder}\n"
            "If the new picture is right: pytest --update-goldens=changed"
        )


def small(image: Image.Image) -> Image.Image:
    """Without an alpha channel that says nothing, and with a palette where 256 colours are enough: the same pixels."""
    if image.mode == "RGBA" and image.getchannel("A").getextrema() == (255, 255):
        image = image.convert("RGB")
    if image.mode == "RGB" and image.getcolors(256) is not None:
        flat = image.quantize(256, dither=Image.Dither.NONE)
        if flat.convert("RGB").tobytes() == image.tobytes():
            return flat
    return image
