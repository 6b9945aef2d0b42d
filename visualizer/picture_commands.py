"""The commands on pictures, flashscope diff and export: their options, and what they call."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from visualizer.options import (
    SCALES,
    THEMES,
    UsageError,
    add_problem_options,
    check_pixels,
    number,
    size,
    state_of,
    whole,
    zoom,
)

if TYPE_CHECKING:
    from visualizer.stop import Stop

Command = Callable[[str, str, str], argparse.ArgumentParser]
FILMS: Final = (".gif", ".mp4")
VALUES: Final = (".npz", ".csv")
SUFFIXES: Final = (".png", ".svg", *FILMS, *VALUES)


def add_diff(command: Command) -> None:
    one = command(
        "diff",
        "do two pictures differ?",
        "Compares two PNG files, or the PNG files of two folders by name.\n"
        "The exit status is 0 when they are the same, 1 when they differ, 2 for what cannot be compared.",
    )
    one.add_argument("before", type=Path, metavar="A", help="a PNG file or a folder")
    one.add_argument("after", type=Path, metavar="B", help="another")
    one.add_argument(
        "--tolerance", type=number, default=0.0, metavar="T",
        help="how far a pixel's colour may be off: 0 (the default: not at all) to 1 (black for white)",
    )  # fmt: skip
    one.add_argument("--out", type=Path, metavar="F.png", help="write a picture of the difference (for folders: DIR)")
    one.add_argument("--html", type=Path, metavar="F.html", help="write a report: before, after and difference")
    one.add_argument("--json", action="store_true", help="print JSON")


def diff(args: argparse.Namespace) -> int:
    from visualizer.diff import DiffError
    from visualizer.diff_command import diff as compare

    try:
        return compare(
            args.before, args.after, tolerance=args.tolerance, out=args.out, report=args.html, as_json=args.json
        )
    except DiffError as error:
        raise UsageError(str(error)) from error


def add_export(command: Command, panels: Sequence[str]) -> None:
    one = command(
        "export",
        "a picture, a film or the values",
        "Writes what the file's name asks for: a picture (.png, .svg), the steps as a film (.gif, .mp4), or numbers\n"
        "(.npz, .csv): `values` are what the program holds at a step (v from load_v on; k and v are in the .npz\n"
        "only), `lse` is L of every row of every head.",
    )
    names = (*panels, "window", "values")
    one.add_argument("what", metavar="WHAT", choices=names, help=f"{', '.join(names[:-1])} or values")
    one.add_argument("--out", type=Path, required=True, metavar="FILE", help=f"ends in {', '.join(SUFFIXES)}")
    one.add_argument(
        "--step", type=whole, metavar="N", help="of a picture and of values, from 0 (the default); -1 is the last"
    )
    one.add_argument(
        "--steps", type=steps, metavar="A:B", help="of a film (all); A:B:N takes every Nth, =-10:-1 the last ten"
    )
    one.add_argument("--fps", type=number, default=10.0, metavar="F", help="steps a second of a film (10)")
    one.add_argument("--size", type=size, metavar="WxH", help="in pixels (900x600; the window 1440x900)")
    one.add_argument("--scale", type=int, choices=SCALES, default=1, help="pixels of the picture for each of those")
    one.add_argument("--theme", choices=THEMES, default="dark")
    one.add_argument("--zoom", type=zoom, default=1.0, metavar="X", help=argparse.SUPPRESS)
    one.add_argument("--progress", action="store_true", help="print how far a film has come, a line a frame")
    add_problem_options(one)


def export(args: argparse.Namespace) -> int:
    suffix, what = args.out.suffix.lower(), args.what
    if suffix not in SUFFIXES:
        raise UsageError(f"--out is {str(args.out)!r}; it must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}.")
    if (suffix in VALUES) != (what == "values") and not (suffix in VALUES and what == "lse"):
        raise UsageError(f"{what} cannot be written as {suffix}: numbers (.npz, .csv) are those of values or lse.")
    if (suffix in FILMS and args.step is not None) or (suffix not in FILMS and args.steps is not None):
        raise UsageError("--steps is for films (.gif, .mp4), --step for everything else.")
    # before NumPy is loaded: pictures are the same on every machine
    from visualizer.steady import enter

    enter(args.scale)
    from visualizer.stop import Stop

    with Stop() as stop:
        from visualizer.export import ExportError
        from visualizer.render import RenderError

        try:
            _export(args, what, suffix, stop)
        except (ExportError, RenderError) as error:
            raise UsageError(str(error)) from error
    return 0


def _export(args: argparse.Namespace, what: str, suffix: str, stop: Stop) -> None:
    from visualizer import export
    from visualizer.render import natural_size

    state = state_of(args)
    size = args.size or natural_size(what)
    check_pixels(size, args.scale)
    look: dict[str, Any] = {"size": size, "scale": args.scale, "theme": args.theme, "zoom": args.zoom}
    if suffix in FILMS:
        states = export.frames(state, *(args.steps or (0, -1, 1)))
        export.film(what, states, args.out, fps=args.fps, progress=_progress(args.progress, stop), **look)
        return
    if args.step is not None:
        state = export.at(state, args.step)
    if suffix in export.PICTURES:
        export.picture(what, state, args.out, **look)
    else:
        from visualizer.export_values import export_values

        export_values(what, state, args.out)


def _progress(lines: bool, stop: Stop) -> Callable[[int, int], None]:
    """Tells a program line by line, a person in one line that changes, and nobody else; stops when asked to."""

    def tell(done: int, total: int) -> None:
        stop.check()
        if lines:
            print(f"{done}/{total}", flush=True)
        elif sys.stderr.isatty():
            print(f"\r{done:,} of {total:,}", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return tell


def steps(text: str) -> tuple[int, int, int]:
    """0:300 as (0, 300, 1), 0:300:5 as (0, 300, 5); an end that is left out is the tape's."""
    parts = text.split(":")
    try:
        if len(parts) not in (2, 3):
            raise ValueError
        first, last = int(parts[0] or 0), int(parts[1] or -1)
        return first, last, int(parts[2]) if len(parts) == 3 else 1
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no range of steps; write it as 0:300 or 0:300:5") from None
