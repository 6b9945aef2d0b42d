"""The other end of visualizer.picture_server: starts the process, asks for pictures, and ends it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

# by its own path: a kernel.py or an assets folder among somebody's tests must not be taken for ours
START: Final = "import sys; sys.path.insert(0, {!r}); from visualizer.picture_server import main; main()"


class PictureError(Exception):
    """A picture that could not be drawn; one sentence."""


class PictureClient:
    """One process that draws at one device pixel ratio."""

    def __init__(self, scale: float) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        code = START.format(str(Path(__file__).resolve().parents[1]))
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-P", "-c", code, f"{scale:g}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def draw(self, request: dict[str, Any]) -> dict[str, str]:
        """Draws; `qt` is Qt's version, `wrong` what is wrong with outputs, or "". Raises PictureError."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            text = json.dumps(request)
        except TypeError as error:
            raise PictureError(f"The picture cannot be asked for: {error}.") from None
        try:
            print(text, file=process.stdin, flush=True)
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            status = process.wait()
            self._errors.seek(0)
            words = self._errors.read().decode("utf-8", "replace").strip()[-2000:]
            raise PictureError(f"The process that draws ended with status {status}; it said:\n{words or '(nothing)'}")
        answer = json.loads(line)
        if "error" in answer:
            raise PictureError(answer["error"])
        return answer

    def close(self) -> None:
        """Ends the process."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()
