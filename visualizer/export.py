"""What can be taken away: a picture (PNG, SVG), a range of steps (GIF, MP4), the values of a step (NPZ, CSV)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kernel.plain_file import part_of, replacing, shown_path
from kernel.tiling import Tiling
from visualizer.state import State

if TYPE_CHECKING:
    from visualizer.theme import ThemeName

PICTURES: Final = (".png", ".svg")
MAX_FRAMES: Final = 20_000
MAX_FPS: Final = 50
Progress = Callable[[int, int], None]


class ExportError(ValueError):
    """What cannot be exported; one sentence."""


@contextmanager
def whole(out: Path) -> Iterator[Path]:
    """A file to write that becomes `out` once it is whole, and vanishes where it never is. Raises ExportError."""
    try:
        with replacing(out, part_of(out)) as part:
            yield part
    except OSError as error:
        raise ExportError(f"{shown_path(out)} cannot be written: {error.strerror or error}.") from error


def at(state: State, step: int) -> State:
    """The state at a step of the tape; a negative one counts from the end. Raises ExportError."""
    steps = len(Tiling(state.problem))
    if not -max(1, steps) <= step < max(1, steps):
        raise ExportError(f"There is no step {step:,}; this problem has {steps:,} steps, counted from 0.")
    return state.change(step=step % max(1, steps))


def frames(state: State, first: int, last: int, every: int) -> list[State]:
    """The states of steps first, first + every, … up to last, which is among them. Raises ExportError."""
    first, last = at(state, first).step, at(state, last).step
    if first > last:
        raise ExportError(f"The first step, {first:,}, comes after the last, {last:,}.")
    if every < 1:
        raise ExportError(f"Every {every} steps is no rhythm; take every 1 or more.")
    count = -(-(last - first) // every) + 1
    if count > MAX_FRAMES:
        raise ExportError(
            f"That would be {count:,} pictures; at most {MAX_FRAMES:,} are taken. Choose fewer steps, or skip some."
        )
    return [state.change(step=min(step, last)) for step in range(first, first + (count - 1) * every + 1, every)]


def film(
    what: str,
    states: list[State],
    out: Path,
    *,
    size: tuple[int, int],
    scale: float = 1,
    theme: ThemeName = "dark",
    zoom: float = 1.0,
    fps: float = 10,
    progress: Progress = lambda done, total: None,
) -> None:
    """Draws `what` at each state and writes the GIF or MP4 `out`, whole or not at all; each state is one frame.

    progress(done, total) is told after each frame; whatever it raises ends the work, and leaves no file.
    """
    from visualizer import theme as themes
    from visualizer.films import writer
    from visualizer.render import application
    from visualizer.stage import Stage
    from visualizer.tape import Tape

    if not 0 < fps <= MAX_FPS:
        raise ExportError(f"{fps:g} frames a second cannot be shown; choose up to {MAX_FPS}.")
    app = application(scale)
    stage = Stage(app, what, Tape(states[0].problem), size=size, scale=scale, look=themes.theme(theme, zoom))
    try:
        with whole(out) as part, writer(out.suffix.lower(), part, fps) as add:
            for done, state in enumerate(states, 1):
                image = stage.image(state)
                add(bytes(image.constBits()), image.width(), image.height())
                progress(done, len(states))
    finally:
        stage.close()


def picture(
    what: str, state: State, out: Path, *, size: tuple[int, int], scale: float = 1, theme: ThemeName = "dark",
    zoom: float = 1.0,
) -> None:  # fmt: skip
    """Writes the PNG or SVG `out`. Raises ExportError or RenderError."""
    from visualizer import theme as themes
    from visualizer.render import application, render
    from visualizer.stage import Stage
    from visualizer.tape import Tape

    if out.suffix.lower() == ".png":
        render(what, state, out, size=size, scale=scale, theme=theme, zoom=zoom)
        return
    stage = Stage(application(scale), what, Tape(state.problem), size=size, look=themes.theme(theme, zoom))
    try:
        drawn = stage.svg(state)
    finally:
        stage.close()
    with whole(out) as part:
        part.write_bytes(drawn)
