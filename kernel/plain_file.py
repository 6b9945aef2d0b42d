"""Files that a person names: only ordinary ones are opened, and one that is written is written whole or not at all.

A FIFO or a device would block its reader, or never end; and replacing one would take it from everybody.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

NOT_PLAIN: Final = "it is no ordinary file"
FOLDER: Final = "it is a folder"
NO_NAME: Final = "no file can have this name"
PART_NAME: Final = 40
NAME_SHOWN: Final = 60
PATH_SHOWN: Final = 160


def open_plain(path: Path) -> BinaryIO:
    """The file, open for reading. Raises OSError, whatever is the matter; never waits for a writer."""
    try:
        # not even opening may wait, as it would for a FIFO
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError as error:  # a NUL, or what the file system's encoding lacks
        raise OSError(errno.EINVAL, NO_NAME) from error
    try:
        if stat.S_ISDIR(mode := os.fstat(handle).st_mode):
            raise OSError(errno.EISDIR, FOLDER)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, NOT_PLAIN)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def is_there(path: Path) -> bool:
    """Whether something has this name, as far as this person can see; a name that cannot be is not there."""
    try:
        return os.path.lexists(path)
    except ValueError:
        return False


def part_of(path: Path) -> Path:
    """The file beside `path`, or beside what a link of that name leads to, that is written until it is whole."""
    try:
        target = Path(os.path.realpath(path))
    except ValueError as error:
        raise OSError(errno.EINVAL, NO_NAME) from error
    return target.with_name(f".{target.name[:PART_NAME]}.part")


@contextmanager
def replacing(path: Path, part: Path | None = None) -> Iterator[Path]:
    """A file to write that becomes `path` once it is whole, and vanishes where it never is. Raises OSError.

    Links are followed, and a file that was there keeps its mode. `part` is that file where another process has to know
    its name; by default no two writers have the same.
    """
    own = part_of(path)
    part = part or own.with_suffix(f".{secrets.token_hex(4)}.part")
    target = Path(os.path.realpath(path))
    there = target.stat() if is_there(target) else None
    if there is not None and not stat.S_ISREG(there.st_mode):
        raise OSError(errno.EINVAL, FOLDER if stat.S_ISDIR(there.st_mode) else NOT_PLAIN)
    try:
        yield part
        if there is not None:
            part.chmod(stat.S_IMODE(there.st_mode))
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all, as `replacing` does. Raises OSError."""
    with replacing(path) as part, part.open("xb") as file:
        file.write(data)


def shown_name(path: Path) -> str:
    """The file's name, short enough for a sentence."""
    name = path.name or str(path)
    return name if len(name) <= NAME_SHOWN else f"{name[: NAME_SHOWN - 9]}…{name[-8:]}"


def shown_path(path: Path) -> str:
    """The whole path where it is short enough for a sentence, else the file's name."""
    return str(path) if len(str(path)) <= PATH_SHOWN else shown_name(path)
