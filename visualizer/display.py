"""Whether a window can open here, found out without Qt, which would end the process where it cannot."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

WITHOUT: Final = "flashscope check, render and doctor work without one"
# what Qt's X11 plugin loads, and the Debian package that has it
LIBRARIES: Final = {
    "libxcb.so.1": "libxcb1",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}


def complaint() -> str | None:
    """Why no window can open, in one sentence; None when nothing speaks against it."""
    if not sys.platform.startswith("linux") or os.environ.get("QT_QPA_PLATFORM"):
        return None
    if os.environ.get("WAYLAND_DISPLAY"):
        return None
    display = os.environ.get("DISPLAY")
    if not display:
        return f"There is no display (neither DISPLAY nor WAYLAND_DISPLAY is set), so no window can open; {WITHOUT}."
    missing = [package for library, package in LIBRARIES.items() if not _loads(library)]
    if missing:
        return (
            f"Qt needs libraries that are missing here: apt-get install {' '.join(missing)}, or make run in a checkout."
        )
    if not _connects():
        return f"The display {display!r} cannot be reached, so no window can open; {WITHOUT}."
    return None


def name() -> str:
    """The display as the environment names it."""
    for variable in ("QT_QPA_PLATFORM", "WAYLAND_DISPLAY", "DISPLAY"):
        if os.environ.get(variable):
            return f"{variable}={os.environ[variable]}"
    return "native" if not sys.platform.startswith("linux") else "none"


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _connects() -> bool:
    """Whether the X server that DISPLAY names takes a connection."""
    xcb = ctypes.CDLL("libxcb.so.1")
    xcb.xcb_connect.restype = ctypes.c_void_p
    xcb.xcb_connection_has_error.argtypes = xcb.xcb_disconnect.argtypes = [ctypes.c_void_p]
    connection = xcb.xcb_connect(None, None)
    try:
        return xcb.xcb_connection_has_error(connection) == 0
    finally:
        xcb.xcb_disconnect(connection)
