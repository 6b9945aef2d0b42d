"""Pictures as a contract: the same bytes whatever surrounds the process, and no change of note goes unseen."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PySide6.QtGui import QFontDatabase, QImage, QRawFont
from PySide6.QtWidgets import QApplication, QWidget

import assets
from kernel.source import kernel_source
from visualizer import diff, render, steady, theme
from visualizer.frame import Frame, RunView
from visualizer.panels.chip import ChipPanel
from visualizer.panels.panel import Panel
from visualizer.panels.rows import RowsPanel
from visualizer.panels.tiles import TilesPanel
from visualizer.presets import PRESETS
from visualizer.resolve import resolve
from visualizer.stable import stable
from visualizer.tape import Tape

ROOT = Path(__file__).parents[2]
TOY = PRESETS[1].state.change(step=60)
DESKTOPS = {
    "plain": {},
    "another language": {"LANG": "de_DE.UTF-8", "LC_ALL": "de_DE.UTF-8", "LC_NUMERIC": "de_DE", "LANGUAGE": "ar"},
    "another desktop": {
        "XDG_CURRENT_DESKTOP": "KDE", "KDE_FULL_SESSION": "true", "KDE_SESSION_VERSION": "6",
        "DESKTOP_SESSION": "plasma",
        "QT_QPA_PLATFORMTHEME": "gtk3", "QT_STYLE_OVERRIDE": "windows", "GTK_THEME": "Adwaita:dark",
        "GNOME_DESKTOP_SESSION_ID": "this", "QT_LOGGING_RULES": "*=true",
    },
    "other pixels": {
        "QT_FONT_DPI": "144", "QT_SCALE_FACTOR": "3", "QT_SCREEN_SCALE_FACTORS": "2", "GDK_SCALE": "2",
        "GDK_DPI_SCALE": "2", "QT_AUTO_SCREEN_SCALE_FACTOR": "1", "QT_USE_PHYSICAL_DPI": "1",
        "QT_SCALE_FACTOR_ROUNDING_POLICY": "Floor", "QT_ENABLE_HIGHDPI_SCALING": "0",
    },
    "another order": {"PYTHONHASHSEED": "1", "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "TZ": "Asia/Tokyo"},
}  # fmt: skip
FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd"><fontconfig>
<match target="font"><edit name="hintstyle" mode="assign"><const>hintfull</const></edit>
<edit name="rgba" mode="assign"><const>rgb</const></edit>
<edit name="antialias" mode="assign"><bool>false</bool></edit></match>
<alias binding="same"><family>Inter</family><prefer><family>DejaVu Serif</family></prefer></alias></fontconfig>"""


def shoot(what: str, out: Path, environment: dict[str, str]) -> str:
    """The digest of a picture that `flashscope render` made."""
    command = [
        sys.executable,
        "-m",
        "visualizer.cli",
        "render",
        what,
        "--preset",
        "toy",
        "--step",
        "60",
        "--out",
        str(out),
    ]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return hashlib.sha256(out.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    found: dict[str, str] = {}

    def digest(what: str) -> str:
        if what not in found:
            found[what] = shoot(what, tmp_path_factory.mktemp("expected") / "p.png", {})
        return found[what]

    return digest


@pytest.mark.parametrize("what", ["window", "lse", "chip"])
@pytest.mark.parametrize("desktop", list(DESKTOPS))
def test_the_same_bytes_on_every_desktop(
    what: str, desktop: str, expected: Callable[[str], str], tmp_path: Path
) -> None:
    assert shoot(what, tmp_path / "p.png", DESKTOPS[desktop]) == expected(what)


@pytest.mark.parametrize("what", ["window", "tiles"])
def test_the_same_bytes_with_every_font_set(what: str, expected: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "fonts.conf").write_text(FONTS)
    (tmp_path / ".fonts").mkdir()
    for environment in (
        {"FONTCONFIG_FILE": str(tmp_path / "fonts.conf")},
        {"FONTCONFIG_PATH": str(tmp_path), "HOME": str(tmp_path), "QT_QPA_FONTDIR": str(tmp_path)},
    ):
        assert shoot(what, tmp_path / "p.png", environment) == expected(what)


def test_only_what_is_the_persons_leaves_the_environment() -> None:
    mine = {"HOME": "/home/x", "PATH": "/bin", "LANG": "fr_FR", "QT_SCALE_FACTOR": "2", "KDE_SESSION_VERSION": "6"}
    found = steady.steady(mine, 2)
    assert found["HOME"] == "/home/x"
    assert found["PATH"] == "/bin"
    assert found["QT_SCALE_FACTOR"] == "2"
    assert Path(found["FONTCONFIG_FILE"]).is_file()
    assert not {"LANG", "KDE_SESSION_VERSION"} & found.keys()
    environment = dict(mine)
    steady.enter(2, environment)
    assert environment == found


def test_the_bundled_fonts_have_every_character_that_is_drawn(qapp: QApplication) -> None:
    """All of the application's own texts, and the kernel's source; what is not there would come from elsewhere."""
    fonts = [QRawFont(str(assets.path(f"fonts/{name}")), 16) for name in theme.FONT_FILES]
    texts = [path.read_text() for folder in ("visualizer", "kernel") for path in (ROOT / folder).rglob("*.py")]
    texts += [path.read_text() for path in (ROOT / "assets").rglob("*.json")]
    drawn = {*"".join(texts), *"".join(kernel_source().lines)} - {"\n", "\t"}
    missing = sorted(c for c in drawn if not any(font.supportsCharacter(ord(c)) for font in fonts))
    assert missing == []


def test_the_signs_font_is_asked_before_any_of_the_machine(qapp: QApplication) -> None:
    theme.load_fonts()
    assert theme.SIGNS_FONT in QFontDatabase.families()
    for font in (theme.DARK.ui_font(), theme.DARK.code_font()):
        assert font.families()[1] == theme.SIGNS_FONT
    assert f'"{theme.UI_FONT}", "{theme.SIGNS_FONT}"' in theme.style_sheet(theme.DARK)


# what a golden must catch, and what it must not


@pytest.fixture
def frame(qapp: QApplication) -> Frame:
    theme.load_fonts()
    theme.apply(qapp, theme.DARK)
    return resolve(TOY, Tape(TOY.problem), RunView())


def grab(panel: Panel, frame: Frame, change: Callable[[Panel], object] = lambda panel: None) -> Image.Image:
    """The panel's picture, once `change` was made to the shown panel."""
    panel.resize(480, 400)
    panel.show_frame(frame)
    panel.show()
    for _ in range(3):
        QApplication.processEvents()
    change(panel)
    image = QImage(480, 400, QImage.Format.Format_RGB32)
    QWidget.render(panel, image)
    panel.close()
    panel.deleteLater()
    rgb = image.convertToFormat(QImage.Format.Format_RGBA8888)
    return Image.frombuffer("RGBA", (480, 400), bytes(rgb.constBits()), "raw", "RGBA", 0, 1)


@pytest.mark.parametrize("row, col", [(0, 0), (5, 2), (15, 0), (9, 8)])
@pytest.mark.parametrize("name", ["matrix", "q", "acc"])
def test_one_cell_changed_by_a_tenth_of_its_range_is_seen(frame: Frame, name: str, row: int, col: int) -> None:
    chip = frame.chip
    assert chip is not None
    low, high = chip.levels[chip.matrix_name if name == "matrix" else name]
    values = np.array(getattr(chip, name), np.float32)
    if not low + 0.1 * (high - low) <= values[row, col] <= high - 0.1 * (high - low):
        values[row, col] = low + 0.3 * (high - low)
    other = values.copy()
    other[row, col] += 0.1 * (high - low)
    pictures = [
        grab(ChipPanel(theme.DARK), replace(frame, chip=replace(chip, **{name: array}))) for array in (values, other)
    ]
    found = diff.compare(*pictures)
    assert not found.same
    assert found.pixels >= 4


def test_a_label_moved_by_two_pixels_is_seen(frame: Frame) -> None:
    before = grab(TilesPanel(theme.DARK), frame)
    after = grab(
        TilesPanel(theme.DARK), frame, lambda p: p.title_label.move(p.title_label.pos().x() + 2, p.title_label.y())
    )
    found = diff.compare(before, after)
    assert not found.same
    assert found.pixels > 20


def test_a_line_recoloured_is_seen(frame: Frame, monkeypatch: pytest.MonkeyPatch) -> None:
    before = grab(RowsPanel(theme.DARK), frame)
    monkeypatch.setitem(theme._WORDS["dark"], "l", "#58B0E0")
    monkeypatch.setitem(theme._QUANTITIES["dark"], "l", "#4AA3D7")
    after = grab(RowsPanel(theme.DARK), frame)
    found = diff.compare(before, after)
    assert not found.same
    assert found.pixels > 50


def test_fifty_pictures_of_the_same_are_the_same(qapp: QApplication) -> None:
    made: dict[str, set[bytes]] = {}
    for i in range(50):
        what = render.WHAT[i % 5]
        image = render.picture(qapp, what, TOY, size=(480, 400), scale=1, theme="dark")
        made.setdefault(what, set()).add(raw(image))
    for _ in range(5):
        image = render.picture(qapp, "window", TOY, size=(1280, 800), scale=1, theme="light")
        made.setdefault("window", set()).add(raw(image))
    assert {what: len(pictures) for what, pictures in made.items()} == dict.fromkeys(made, 1)


def test_a_stable_run_says_nothing_of_when_and_where(qapp: QApplication) -> None:
    from kernel.inputs import Inputs
    from kernel.outputs import grade
    from kernel.reference import exact_head
    from kernel.results import Timing

    problem = TOY.problem
    inputs = Inputs(problem)
    heads = [exact_head(inputs, problem, head) for head in range(problem.num_heads)]
    result = grade(problem, inputs, np.stack([o for o, _ in heads]), np.stack([lse for _, lse in heads]))
    runs = []
    for ms, device, version in ((1.5, "H200", "3.6.0"), (2.5, "A100", "3.7.1")):
        time = Timing(name="this kernel", ms=ms, low_ms=ms, high_ms=ms, tflops=100 / ms)
        of = replace(result, backend="cuda", device=device, versions={"triton": version}, times=(time,))
        runs.append(RunView(phase="done", worker="worker ready", device=device, result=of))
    pictures = [
        raw(render.picture(qapp, what, TOY, size=(900, 600), scale=1, theme="dark", run=run))
        for run in (*runs, *map(stable, runs))
        for what in ("run", "ledger")
    ]
    assert pictures[0:2] != pictures[2:4]
    assert pictures[4:6] == pictures[6:8]
    assert [stable(run).result.versions for run in runs] == [{}, {}]  # no row at all, rather than one of no meaning


def test_render_of_a_run_twice_is_the_same(tmp_path: Path) -> None:
    """As `flashscope render run --run --stable` does it, each time with a kernel run of its own."""
    command = [sys.executable, "-m", "visualizer.cli", "render", "run", "--run", "--stable", "--preset", "toy", "--out"]
    for name in ("a.png", "b.png"):
        done = subprocess.run([*command, str(tmp_path / name)], cwd=ROOT, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def raw(image: QImage) -> bytes:
    return bytes(image.constBits())
