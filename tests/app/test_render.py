"""Pictures: of the asked size, the same from run to run whatever the surroundings, and honest errors."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtGui import QImage

from kernel.problem import Problem
from visualizer import render
from visualizer.presets import PRESETS
from visualizer.settle import settle
from visualizer.state import to_json

TOY = PRESETS[1].state.change(step=60)
SCRIPT = """
import sys
from pathlib import Path
from visualizer.render import render
from visualizer.state import load
what, session, out, scale, theme = sys.argv[1:]
render(what, load(Path(session)), Path(out), size=(900, 600), scale=float(scale), theme=theme)
"""


def shoot(what: str, folder: Path, *, scale: str = "1", theme: str = "dark", **surroundings: str) -> Path:
    """A picture of the toy, made by a process of its own."""
    session, out = folder / "s.json", folder / f"{what}.png"
    session.write_text(to_json(TOY))
    environment = {k: v for k, v in os.environ.items() if k not in ("QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, what, str(session), str(out), scale, theme],
        env=environment | surroundings,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return out


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("what", ["tiles", "window"])
def test_the_surroundings_do_not_matter(what: str, tmp_path: Path) -> None:
    first = shoot(what, tmp_path)
    expected = digest(first)
    (tmp_path / "config").mkdir()
    other = shoot(
        what,
        tmp_path,
        LC_ALL="de_DE.UTF-8",
        QT_FONT_DPI="144",
        QT_SCALE_FACTOR="3",
        QT_STYLE_OVERRIDE="windows",
        QT_QPA_PLATFORM="xcb",
        XDG_CONFIG_HOME=str(tmp_path / "config"),
    )
    assert digest(other) == expected


def test_settings_do_not_matter(tmp_path: Path) -> None:
    expected = digest(shoot("window", tmp_path))
    folder = tmp_path / "config/flashscope"
    folder.mkdir(parents=True)
    (folder / "settings.ini").write_text("[General]\ntheme=light\nzoom=1.5\nhidden=rows\n")
    assert digest(shoot("window", tmp_path, XDG_CONFIG_HOME=str(tmp_path / "config"))) == expected


@pytest.mark.parametrize(("scale", "size"), [("1", (900, 600)), ("2", (1800, 1200))])
def test_the_size_is_as_asked(tmp_path: Path, scale: str, size: tuple[int, int]) -> None:
    image = QImage(str(shoot("chip", tmp_path, scale=scale)))
    assert (image.width(), image.height()) == size


@pytest.mark.parametrize("what", render.WHAT)
def test_everything_can_be_drawn_in_one_process(what: str, qapp, tmp_path: Path) -> None:
    pictures = []
    for theme in ("dark", "light"):
        for step in (60, 75):
            image = render.picture(qapp, what, TOY.change(step=step), size=(900, 600), scale=1, theme=theme)
            assert (image.width(), image.height()) == (900, 600)
            pictures.append(image)
    again = render.picture(qapp, what, TOY, size=(900, 600), scale=1, theme="dark")
    assert again == pictures[0]
    assert pictures[0] != pictures[2]
    if what not in ("run", "lse"):  # these two may stand still from one step to the next
        assert pictures[0] != pictures[1]


def test_nothing_is_left_behind(qapp) -> None:
    before = len(qapp.topLevelWidgets())
    render.picture(qapp, "window", TOY, size=(900, 600), scale=1, theme="dark")
    assert len(qapp.topLevelWidgets()) == before


def test_errors_are_one_sentence(tmp_path: Path, qapp) -> None:
    with pytest.raises(render.RenderError, match=r"^There is no panel 'chips'; choose tiles, chip, .* or window\.$"):
        render.render("chips", TOY, tmp_path / "x.png")
    with pytest.raises(render.RenderError, match=r"cannot be written; choose a folder that exists"):
        render.render("tiles", TOY, tmp_path / "missing" / "x.png")


def test_settling_completes_the_head_at_hand_and_no_other() -> None:
    from visualizer.tape import Tape

    p = Problem(heads=3, kv_heads=3, seqlen_q=500, seqlen_k=500)
    tape = Tape(p)
    settle(tape, tape.tiling.program_start(2, 1))
    assert [tape.is_head_filled(head) for head in range(3)] == [False, False, True]
    assert np.isfinite(tape.lse[2]).all() and np.isfinite(tape.exact_lse[2]).all()
    assert np.isnan(tape.lse[:2]).all() and tape.blocks_filled == [0, 0, tape.tiling.num_q_blocks]
    settle(tape, tape.tiling.program_start(0, 0))
    assert np.isfinite(tape.lse[0]).all()
