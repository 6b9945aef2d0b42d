"""GIF and MP4, one frame at a time: nothing but the frame at hand is held in memory."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from visualizer.export import ExportError

Add = Callable[[bytes, int, int], None]
NO_VIDEO: Final = "MP4 needs the package imageio-ffmpeg, which is not installed: pip install imageio-ffmpeg."
CRF: Final = 12  # x264's quality, 0 without loss to 51: here lines of a pixel stay sharp


def writer(suffix: str, path: Path, fps: float):
    """A context that gives add(bytes of BGRX, width, height). Raises ExportError."""
    return (_gif if suffix == ".gif" else _mp4)(path, fps)


@contextmanager
def _gif(path: Path, fps: float) -> Iterator[Add]:
    """Every frame with a palette of its own, and only what has changed since the one before it."""
    from PIL import Image, ImageChops
    from PIL.GifImagePlugin import getdata, getheader

    with path.open("wb") as file:
        before: Any = None
        count = 0

        def duration(index: int) -> int:
            """In ms; GIF counts hundredths of a second, and rounding must not add up."""
            return 10 * (round((index + 1) * 100 / fps) - round(index * 100 / fps))

        def add(data: bytes, width: int, height: int) -> None:
            nonlocal before, count
            picture = Image.frombuffer("RGB", (width, height), data, "raw", "BGRX", 0, 1)
            if before is None:
                first = picture.quantize(256, dither=Image.Dither.NONE)
                for block in getheader(first, info={"loop": 0})[0]:
                    file.write(block)
                box = (0, 0, width, height)
            else:
                box = ImageChops.difference(picture, before).getbbox() or (0, 0, 1, 1)
            part = picture.crop(box).quantize(256, dither=Image.Dither.NONE)
            for block in getdata(part, box[:2], duration=duration(count), include_color_table=True, disposal=1):
                file.write(block)
            before, count = picture, count + 1

        yield add
        file.write(b";")


@contextmanager
def _mp4(path: Path, fps: float) -> Iterator[Add]:
    """H.264 for every player: 4:2:0, even sides."""
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ImportError as error:
        raise ExportError(NO_VIDEO) from error
    process: subprocess.Popen[bytes] | None = None

    def add(data: bytes, width: int, height: int) -> None:
        nonlocal process
        if process is None:
            process = subprocess.Popen(
                [get_ffmpeg_exe(), "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "bgr0",
                 "-s", f"{width}x{height}", "-r", f"{fps:g}", "-i", "-", "-an", "-c:v", "libx264", "-crf", str(CRF),
                 "-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", "-movflags", "+faststart",
                 "-f", "mp4", str(path)],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                start_new_session=True,  # a Ctrl+C is ours to act on
            )  # fmt: skip
        assert process.stdin is not None
        try:
            process.stdin.write(data)
        except BrokenPipeError as error:
            raise ExportError(f"The film cannot be written ({_last_words(process)}).") from error

    try:
        yield add
        if process is not None:
            words = _last_words(process)
            if process.returncode:
                raise ExportError(f"The film cannot be written ({words}).")
    finally:
        if process is not None:
            process.kill()
            with contextlib.suppress(OSError, ValueError):
                process.communicate()


def _last_words(process: subprocess.Popen[bytes]) -> str:
    """What ffmpeg said at its end."""
    with contextlib.suppress(BrokenPipeError):
        errors = process.communicate()[1]
        return errors.decode("utf-8", "replace").strip().splitlines()[-1] if errors.strip() else "ffmpeg ended"
    return "ffmpeg ended"
