"""The commands on pictures, flashscope diff and export: their options, and what they call."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from visualizer.options import UsageError, number

Command = Callable[[str, str, str], argparse.ArgumentParser]


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
