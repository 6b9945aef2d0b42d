"""What a person gets from pip: the assets, and dependencies that can be installed on each kind of machine."""

import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import assets

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FONTS = {
    "Inter-Regular.otf": ("Inter", "Regular"),
    "Inter-Medium.otf": ("Inter", "Medium"),
    "Inter-SemiBold.otf": ("Inter", "SemiBold"),
    "Inter-Bold.otf": ("Inter", "Bold"),
    "JetBrainsMono-Regular.ttf": ("JetBrains Mono", "Regular"),
    "JetBrainsMono-Bold.ttf": ("JetBrains Mono", "Bold"),
    "FlashScopeSigns-Regular.ttf": ("FlashScope Signs", "Regular"),
}


def requirements(**environment: str) -> dict[str, Requirement]:
    """The runtime dependencies whose markers hold in this environment, by name."""
    machine = {"sys_platform": "linux", "platform_machine": "x86_64", "python_version": "3.11"} | environment
    wanted = (Requirement(line) for line in PROJECT["dependencies"])
    return {canonicalize_name(r.name): r for r in wanted if r.marker is None or r.marker.evaluate(machine)}


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): pinned for name, pinned in pairs}


@pytest.mark.parametrize("file", FONTS)
def test_fonts_load_under_their_family_and_weight(file: str, qapp) -> None:
    from PySide6.QtGui import QFontDatabase

    number = QFontDatabase.addApplicationFont(str(assets.path(f"fonts/{file}")))
    family, style = FONTS[file]
    assert family in QFontDatabase.applicationFontFamilies(number)
    assert style in {name.replace(" ", "") for name in QFontDatabase.styles(family)}


def test_every_font_has_its_licence() -> None:
    for font in assets.path("fonts").glob("*.[ot]tf"):
        if font.stem.startswith("FlashScope"):  # drawn by tools/make_signs_font.py, under the project's own licence
            continue
        licence = assets.path(f"fonts/OFL-{font.stem.partition('-')[0]}.txt").read_text()
        assert "SIL OPEN FONT LICENSE Version 1.1" in licence
        assert licence.startswith("Copyright")


def test_icon_is_drawn_and_matches_its_picture(qapp) -> None:
    from PySide6.QtGui import QIcon, QImage

    drawn = QIcon(str(assets.path("icon.svg"))).pixmap(256, 256).toImage()
    picture = QImage(str(assets.path("icon.png")))
    assert (picture.width(), picture.height()) == (256, 256)
    for x, y in ((75, 75), (30, 180), (180, 180), (230, 110)):  # a done tile, a query, the tile at hand, a skipped one
        assert drawn.pixelColor(x, y) == picture.pixelColor(x, y)
    assert picture.pixelColor(180, 180).name() == "#ffffff"


def test_an_asset_that_is_not_there_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"'fonts/Comic\.ttf'"):
        assets.path("fonts/Comic.ttf")


@pytest.mark.parametrize(
    ("python", "release", "taken"),
    [
        ("3.11", "6.10.3", True),
        ("3.11", "6.11.1", False),
        ("3.11", "6.11.3", True),
        ("3.11", "6.12.0", False),
        ("3.12", "6.11.0", False),
        ("3.12", "6.12.0", True),
        ("3.13", "6.9.3", False),
    ],
)
def test_qt_releases_that_crash_are_left_out(python: str, release: str, taken: bool) -> None:
    assert (release in requirements(python_version=python)["pyside6-essentials"].specifier) == taken


@pytest.mark.parametrize(
    ("system", "machine", "runs"),
    [
        ("linux", "x86_64", True),
        ("linux", "aarch64", True),
        ("linux", "riscv64", False),
        ("darwin", "arm64", False),
        ("win32", "AMD64", False),
    ],
)
def test_torch_and_triton_are_asked_for_only_where_triton_has_wheels(system, machine, runs) -> None:
    names = requirements(sys_platform=system, platform_machine=machine).keys()
    assert ("triton" in names, "torch" in names) == (runs, runs)
    assert {"numpy", "pyqtgraph", "pyside6-essentials", "ml-dtypes", "msgpack"} <= names


def test_the_tests_run_with_the_pinned_versions() -> None:
    pinned = pins()
    installed = {canonicalize_name(d.name): Version(d.version).public for d in distributions()}
    assert {name: version for name, version in installed.items() if name in pinned}.items() <= pinned.items()
    lines = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]
    for wanted in (r for r in map(Requirement, lines) if r.marker is None or r.marker.evaluate()):
        name = canonicalize_name(wanted.name)
        assert name in installed
        assert name in pinned, f"{name} is missing from constraints.txt; `make pins` writes it"
        assert pinned[name] in wanted.specifier


def test_the_wheel_carries_every_asset(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "-w", str(tmp_path), str(ROOT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("flashscope-*.whl")
    (tmp_path / "site").mkdir()
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    tracked = subprocess.run(["git", "ls-files", "assets"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in tracked.stdout.split():
        assert (tmp_path / "site" / name).is_file(), f"{name} is missing from the wheel"
    script = "import assets; print(assets.path('fonts/Inter-Regular.otf'))"
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path / "site", check=True, capture_output=True, text=True
    )
    assert Path(found.stdout.strip()) == tmp_path / "site/assets/fonts/Inter-Regular.otf"
