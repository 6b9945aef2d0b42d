"""What makes pictures the same everywhere: an environment without the person's desktop, fonts, language and CPU."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, MutableMapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import assets

# by which a desktop, a font set or a language would come in
UNWANTED: Final = ("QT_", "KDE_", "GTK_", "GDK_", "GNOME_", "FONTCONFIG_", "FC_", "FREETYPE_", "LC_", "XCURSOR_")
UNWANTED_NAMES: Final = ("LANG", "LANGUAGE", "XDG_CURRENT_DESKTOP", "XDG_SESSION_DESKTOP", "DESKTOP_SESSION")


def steady(environment: Mapping[str, str], scale: float = 1) -> dict[str, str]:
    """`environment` as pictures need it: no display, the bundled fonts alone, 96 dpi, `scale` pixels for each pixel."""
    kept = {n: v for n, v in environment.items() if not n.startswith(UNWANTED) and n not in UNWANTED_NAMES}
    return kept | {
        "LC_ALL": "C.UTF-8",
        "QT_QPA_PLATFORM": "offscreen",
        "QT_FONT_DPI": "96",
        "QT_SCALE_FACTOR": f"{scale:g}",
        "FONTCONFIG_FILE": str(assets.path("fonts/fonts.conf")),
        **_arithmetic(),
    }


def enter(scale: float = 1, environment: MutableMapping[str, str] = os.environ) -> None:
    """Makes this process's environment steady. Counts only before Qt and NumPy are loaded."""
    wanted = steady(environment, scale)
    for name in [name for name in environment if name not in wanted]:
        del environment[name]
    environment.update(wanted)


def _arithmetic() -> dict[str, str]:
    """The same last bits on every x86-64 machine with AVX2, as far as NumPy and OpenBLAS let one choose."""
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
    if platform.machine().lower() not in ("x86_64", "amd64") or not _has_avx2():
        return threads
    try:
        numpy = tuple(map(int, version("numpy").split(".")[:2]))
    except (PackageNotFoundError, ValueError):
        return threads
    # NumPy's own names for what goes beyond AVX2
    beyond = "X86_V4 AVX512_ICL AVX512_SPR" if numpy >= (2, 4) else "AVX512F AVX512CD AVX512_SKX AVX512_ICL AVX512_SPR"
    return threads | {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": beyond}


def _has_avx2() -> bool:
    try:
        return " avx2 " in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
