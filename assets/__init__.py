"""Fonts, icon, lessons and the desktop file, found both from a checkout and from an installed wheel."""

from importlib.resources import files
from pathlib import Path

__all__ = ["path"]


def path(name: str) -> Path:
    """The asset `name` ("icon.svg", "fonts/Inter-Regular.otf") as a file on disk.

    Raises FileNotFoundError when there is no such asset.
    """
    found = Path(str(files(__name__).joinpath(name)))
    if not found.exists():
        raise FileNotFoundError(f"The asset {name!r} is not in {found.parent}; reinstall flashscope to restore it.")
    return found
