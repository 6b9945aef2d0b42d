"""Are two pictures, or two folders of pictures, the same? The comparison of pixels is pixelmatch's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from PIL import Image, ImageChops, ImageDraw
from PIL.PngImagePlugin import PngInfo
from pixelmatch.contrib.PIL import pixelmatch

RED: Final = (214, 39, 40)
FADED: Final = 0.75
AROUND: Final = 4


class DiffError(ValueError):
    """What was given cannot be compared; one sentence."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two pictures of one name, as images or files; None where there is none that can be read. box: what differs.

    pixels: how many differ, of `total`, the pixels of a picture that covers both; `reason` is for the person, "" when
    they are the same.
    """

    name: str
    before: Image.Image | Path | None
    after: Image.Image | Path | None
    pixels: int
    total: int
    reason: str
    box: tuple[int, int, int, int] | None = None
    mask: Image.Image | None = None

    @property
    def same(self) -> bool:
        return not self.reason

    @property
    def share(self) -> float:
        """The share of pixels that differ, 0 to 1."""
        return self.pixels / self.total if self.total else float(not self.same)

    def difference(self) -> Image.Image | None:
        """The picture before, faded, with what differs in red and framed; None where there is only one picture."""
        if self.before is None or self.after is None:
            return None
        before, after = loaded(self.before), loaded(self.after)
        size = _cover(before, after)
        ground = Image.alpha_composite(Image.new("RGBA", size, "white"), _padded(before, size)).convert("L")
        picture = Image.blend(ground, Image.new("L", size, 255), FADED).convert("RGB")
        if self.mask is not None and self.box is not None:
            left, top, right, bottom = self.box
            picture.paste(RED, self.box, self.mask)
            frame = (left - AROUND, top - AROUND, right + AROUND - 1, bottom + AROUND - 1)
            ImageDraw.Draw(picture).rectangle(frame, outline=RED)
        return picture


def compare(before: Image.Image, after: Image.Image, tolerance: float = 0.0, name: str = "") -> Comparison:
    """Pixel by pixel: `tolerance` is how far a colour may be off, from 0 (not at all) to 1 (black for white).

    Antialiased pixels count like all others, and so does alpha; what one picture has beyond the other's size differs.
    """
    size = _cover(before, after)
    total = size[0] * size[1]
    a, b = _padded(before, size), _padded(after, size)
    box = ImageChops.difference(a, b).getbbox(alpha_only=False)
    pixels, mask = 0, None
    if box is not None:
        a, b = a.crop(box), b.crop(box)
        # pixelmatch lays colours on white, where a transparent pixel is a white one: alpha is compared by itself
        mask = _differing(a, b, tolerance)
        if a.getchannel("A").tobytes() != b.getchannel("A").tobytes():
            first, second = (Image.merge("RGB", [x.getchannel("A")] * 3) for x in (a, b))
            mask = ImageChops.lighter(mask, _differing(first, second, tolerance))
        pixels = mask.histogram()[255]
        inner = mask.getbbox()
        if inner is None:
            box = mask = None
        else:
            mask = mask.crop(inner)
            box = (box[0] + inner[0], box[1] + inner[1], box[0] + inner[2], box[1] + inner[3])
    reason = ""
    if before.size != after.size:
        reason = f"the size changed from {_size(before)} to {_size(after)}"
    elif box is not None:
        reason = f"{percent(pixels / total)} of the pixels differ ({pixels:,}), within {_place(box)}"
    return Comparison(name, before, after, pixels, total, reason, box, mask)


def compare_paths(before: Path, after: Path, tolerance: float = 0.0) -> Iterator[Comparison]:
    """One comparison for two PNG files, one for each name in two folders (and those below them), sorted by name.

    A file that only one folder has differs. Raises DiffError.
    """
    if before.is_dir() and after.is_dir():
        names = sorted({path.relative_to(d) for d in (before, after) for path in d.rglob("*.png") if path.is_file()})
        if not names:
            raise DiffError(f"There is no PNG file in {before} or {after}.")
        for name in names:
            try:
                yield _compare_files(before / name, after / name, tolerance, name.as_posix())
            except DiffError as error:
                yield _unreadable(before / name, after / name, name.as_posix(), str(error))
        return
    for path, other in ((before, after), (after, before)):
        if not path.exists():
            raise DiffError(f"There is no file or folder {str(path)!r}.")
        if path.is_dir():
            raise DiffError(f"{path} is a folder and {other} is a file; give two PNG files or two folders.")
    yield _compare_pair(before, after, tolerance, after.name)


def read(path: Path) -> Image.Image:
    """The PNG file as RGBA. Raises DiffError."""
    if path.exists() and not path.is_file():  # a FIFO would be waited for
        raise DiffError(f"{path} is not a readable PNG file (it is no ordinary file).")
    try:
        with Image.open(path, formats=["PNG"]) as image:
            return image.convert("RGBA")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it may be cut off, or none at all"
        raise DiffError(f"{path} is not a readable PNG file ({why}).") from error


def loaded(picture: Image.Image | Path) -> Image.Image:
    """The picture itself. Raises DiffError."""
    return read(picture) if isinstance(picture, Path) else picture


def save(image: Image.Image, path: Path, notes: PngInfo | None = None) -> None:
    """Writes a small PNG, whole or not at all; its folders are made. Raises DiffError.

    Not with kernel.plain_file: this module is loaded in other people's tests, whose kernel.py is another.
    """
    part = path.with_name(f".{path.name[:40]}.{os.getpid()}.part")
    try:
        if path.exists() and not path.is_file():
            raise DiffError(f"{path} cannot be written: it is no ordinary file.")
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(part, "PNG", optimize=True, pnginfo=notes)
        os.replace(part, path)
    except OSError as error:
        raise DiffError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        part.unlink(missing_ok=True)


def percent(share: float) -> str:
    """A share in words that never round a difference to nothing: 0.0018 %, 12 %."""
    if 0 < share < 1e-6:
        return "under 0.0001 %"
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.4g} %"


def _unreadable(before: Path, after: Path, name: str, why: str) -> Comparison:
    """One bad file among many differs, and leaves the others their report."""
    reason = f"unreadable: {why.rstrip('.')}"
    return Comparison(name, _if_readable(before), _if_readable(after), 0, 0, reason)


def _if_readable(path: Path) -> Path | None:
    try:
        read(path)
    except DiffError:
        return None
    return path


def _compare_files(before: Path, after: Path, tolerance: float, name: str) -> Comparison:
    if not after.is_file():
        image = read(before)
        return Comparison(name, before, None, image.width * image.height, image.width * image.height, "only in A")
    if not before.is_file():
        image = read(after)
        return Comparison(name, None, after, image.width * image.height, image.width * image.height, "only in B")
    return _compare_pair(before, after, tolerance, name)


def _compare_pair(before: Path, after: Path, tolerance: float, name: str) -> Comparison:
    # the files instead of their pixels, which would fill the memory where there are many
    return replace(compare(read(before), read(after), tolerance, name), before=before, after=after)


def _differing(a: Image.Image, b: Image.Image, tolerance: float) -> Image.Image:
    """255 where pixelmatch finds a difference, else 0."""
    if not tolerance and _is_opaque(a) and _is_opaque(b):
        # then it finds every pixel that is not the same, which Pillow finds in a hundredth of the time
        red, green, blue = ImageChops.difference(a.convert("RGB"), b.convert("RGB")).split()
        return ImageChops.lighter(ImageChops.lighter(red, green), blue).point([0] + [255] * 255)
    output = Image.new("RGBA", a.size)
    pixelmatch(a, b, output, threshold=tolerance, includeAA=True, diff_mask=True)
    return output.getchannel("A")


def _is_opaque(image: Image.Image) -> bool:
    return image.mode == "RGB" or image.getchannel("A").getextrema() == (255, 255)


def _padded(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """As RGBA, with transparent pixels at the right and below up to `size`."""
    image = image.convert("RGBA")
    if image.size == size:
        return image
    padded = Image.new("RGBA", size)
    padded.paste(image)
    return padded


def _cover(a: Image.Image, b: Image.Image) -> tuple[int, int]:
    return max(a.width, b.width), max(a.height, b.height)


def _size(image: Image.Image) -> str:
    return f"{image.width}x{image.height}"


def _place(box: tuple[int, int, int, int]) -> str:
    left, top, right, bottom = box
    return f"x {left} … {right - 1}, y {top} … {bottom - 1}"
