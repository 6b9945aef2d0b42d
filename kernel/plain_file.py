"""Files that a person names: only ordinary ones are opened, and one that is written is written whole or not at all.

A FIFO or a device would block its reader, or never end; and replacing one would take it from everybody.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO, Final

NOT_PLAIN: Final = "it is no ordinary file"
NAME_SHOWN: Final = 60


def open_plain(path: Path) -> BinaryIO:
    """The file, open for reading. Raises OSError, whatever is the matter; never waits for a writer."""
    try:
        # not even opening may wait, as it would for a FIFO
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError as error:  # a NUL, or what the file system's encoding lacks
        raise OSError(errno.EINVAL, "no file can have this name") from error
    try:
        if stat.S_ISDIR(mode := os.fstat(handle).st_mode):
            raise OSError(errno.EISDIR, "it is a folder")
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


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all, keeps its mode, and follows links. Raises OSError."""
    try:
        target = Path(os.path.realpath(path))
        there = target.stat() if is_there(target) else None
    except ValueError as error:
        raise OSError(errno.EINVAL, "no file can have this name") from error
    if there is not None and not stat.S_ISREG(there.st_mode):
        raise OSError(errno.EINVAL, "it is a folder" if stat.S_ISDIR(there.st_mode) else NOT_PLAIN)
    part = target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}.part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if there is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), stat.S_IMODE(there.st_mode))
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def shown_name(path: Path) -> str:
    """The file's name, short enough for a sentence."""
    name = path.name or str(path)
    return name if len(name) <= NAME_SHOWN else f"{name[: NAME_SHOWN - 9]}…{name[-8:]}"
