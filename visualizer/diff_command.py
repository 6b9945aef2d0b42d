"""flashscope diff: what it prints and writes, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

from visualizer import diff_report
from visualizer.diff import Comparison, DiffError, compare_paths, save
from visualizer.options import is_share


def diff(before: Path, after: Path, *, tolerance: float, out: Path | None, report: Path | None, as_json: bool) -> int:
    """0 when the same, 1 when not. Raises DiffError for what cannot be compared or written."""
    if not is_share(tolerance):
        raise DiffError(f"--tolerance is {tolerance:g}; it may be from 0 (the same colours) to 1 (black for white).")
    found = list(compare_paths(before, after, tolerance))
    differing = [c for c in found if not c.same]
    if out is not None:
        _save(differing, out, before.is_dir())
    if report is not None:
        diff_report.write(found, report, str(before), str(after))
    verdict = diff_report.verdict(len(differing), len(found))
    if as_json:
        print(json.dumps({"same": not differing, "verdict": verdict, "pictures": [_plain(c) for c in found]}, indent=2))
    else:
        for c in sorted(differing, key=lambda c: -c.share):
            print(f"{c.name}: {c.reason}")
        print(verdict)
    return 1 if differing else 0


def _save(differing: list[Comparison], out: Path, folders: bool) -> None:
    """The pictures of what differs: one file, or one of each name in the folder `out`."""
    if not folders and out.suffix.lower() != ".png":
        raise DiffError(f"--out is {str(out)!r}; for two pictures it must end in .png.")
    for c in differing:
        picture = c.difference()
        if picture is not None:
            save(picture, out / c.name if folders else out)


def _plain(c: Comparison) -> dict:
    return {
        "name": c.name,
        "same": c.same,
        "pixels": c.pixels,
        "share": round(c.share, 9),
        "reason": c.reason,
        "box": c.box and list(c.box),
    }
