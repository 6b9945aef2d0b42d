"""What can be taken away is what was shown: pictures, films frame by frame, numbers; and nothing half written."""

import csv
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops
from PySide6.QtGui import QColor, QImage, QPainter, QPen
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication

from kernel.inputs import Inputs
from kernel.mirror import Chip, Mirror
from kernel.problem import Problem
from kernel.tiling import Tiling
from visualizer import cli, export, films, render, theme
from visualizer.export_values import arrays, export_values
from visualizer.frame import RunView
from visualizer.presets import PRESETS
from visualizer.resolve import resolve
from visualizer.settle import settle
from visualizer.stage import Stage
from visualizer.state import State
from visualizer.svg import Device
from visualizer.tape import Tape

ROOT = Path(__file__).parents[2]
TOY = PRESETS[1].state
SIZE = (300, 260)


@pytest.fixture
def dressed(qapp: QApplication) -> QApplication:
    theme.load_fonts()
    return qapp


def pil(image: QImage) -> Image.Image:
    return Image.frombuffer("RGB", (image.width(), image.height()), bytes(image.constBits()), "raw", "BGRX", 0, 1)


def shown(what: str, states: list[State]) -> list[Image.Image]:
    """Each state as a picture of its own."""
    app = render.application()
    return [pil(render.picture(app, what, state, size=SIZE, scale=1, theme="dark")) for state in states]


def distance(a: Image.Image, b: Image.Image) -> float:
    """Mean difference of the colours, 0 to 255."""
    return float(np.abs(np.asarray(a, np.int16) - np.asarray(b, np.int16)).mean())


@pytest.mark.parametrize("what", render.WHAT)
def test_a_stage_shows_every_step_as_if_it_were_alone(what: str, dressed: QApplication) -> None:
    size = (900, 600) if what == "window" else SIZE
    stage = Stage(dressed, what, Tape(TOY.problem), size=size)
    try:
        for step in (70, 3, 71, 72, 20, 105):
            state = TOY.change(step=step)
            alone = render.picture(dressed, what, state, size=size, scale=1, theme="dark")
            assert stage.image(state) == alone, step
    finally:
        stage.close()


def test_a_gif_has_every_step_in_its_time(dressed: QApplication, tmp_path: Path) -> None:
    states = export.frames(TOY, 55, 75, 2)
    export.film("chip", states, tmp_path / "c.gif", size=SIZE, fps=12)
    expected = shown("chip", states)
    with Image.open(tmp_path / "c.gif") as film:
        assert film.info["loop"] == 0
        assert film.n_frames == len(states) == 11  # pyright: ignore[reportAttributeAccessIssue]
        at = 0
        for i, picture in enumerate(expected):
            film.seek(i)
            shot = film.convert("RGB")
            assert distance(shot, picture) < 1.5
            others = [distance(shot, other) for j, other in enumerate(expected) if other != picture and j != i]
            assert distance(shot, picture) < min(others)
            at += film.info["duration"]
            assert abs(at - 1000 * (i + 1) / 12) <= 5
    assert list(tmp_path.iterdir()) == [tmp_path / "c.gif"]


def test_a_step_that_changes_nothing_keeps_its_place_in_a_gif(dressed: QApplication, tmp_path: Path) -> None:
    states = [TOY.change(step=s) for s in (5, 5, 5, 60)]
    export.film("tiles", states, tmp_path / "t.gif", size=SIZE, fps=10)
    with Image.open(tmp_path / "t.gif") as film:
        assert film.n_frames == 4  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("size", [SIZE, (301, 261)])
def test_an_mp4_has_every_step(dressed: QApplication, tmp_path: Path, size: tuple[int, int]) -> None:
    from imageio_ffmpeg import get_ffmpeg_exe

    states = export.frames(TOY, 55, 75, 1)
    export.film("chip", states, tmp_path / "c.mp4", size=size, fps=12.5)
    command = [get_ffmpeg_exe(), "-i", str(tmp_path / "c.mp4"), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    done = subprocess.run(command, capture_output=True)
    assert b"12.50 fps" in done.stderr
    width, height = size[0] + size[0] % 2, size[1] + size[1] % 2
    assert f"{width}x{height}".encode() in done.stderr
    count, rest = divmod(len(done.stdout), width * height * 3)
    assert rest == 0
    shots = np.frombuffer(done.stdout, np.uint8).reshape(count, height, width, 3)
    got = [Image.fromarray(shot).crop((0, 0, *SIZE)) for shot in shots]
    assert len(got) == len(states) == 21
    if size == SIZE:
        expected = shown("chip", states)
        for i, (shot, picture) in enumerate(zip(got, expected, strict=True)):
            others = [distance(shot, other) for j, other in enumerate(expected) if j != i and other != picture]
            assert distance(shot, picture) < min(others)
    assert list(tmp_path.iterdir()) == [tmp_path / "c.mp4"]


class Stop(Exception):
    """As when a person presses Cancel."""


@pytest.mark.parametrize("suffix", [".gif", ".mp4"])
@pytest.mark.parametrize("at", [1, 2, 5])
def test_a_film_that_is_cancelled_leaves_nothing(dressed: QApplication, tmp_path: Path, suffix: str, at: int) -> None:
    out = tmp_path / f"f{suffix}"
    out.write_bytes(b"an older film")

    def progress(done: int, total: int) -> None:
        assert total == 5
        if done == at:
            raise Stop

    states = [TOY.change(step=step) for step in range(5)]
    with pytest.raises(Stop):
        export.film("tiles", states, out, size=SIZE, progress=progress)
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    assert out.read_bytes() == b"an older film"


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_process_that_is_cancelled_leaves_nothing(tmp_path: Path, kind: signal.Signals) -> None:
    command = [
        sys.executable,
        "-m",
        "visualizer.cli",
        "export",
        "window",
        "--out",
        str(tmp_path / "f.mp4"),
        "--progress",
    ]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "1/1376\n"
    assert not (tmp_path / "f.mp4").exists()
    process.send_signal(kind)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


LONG = ["--seqlen", "65536", "--step", "-1", "--out"]


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "words",
    [["export", "window", *LONG, "x.png"], ["render", "lse", *LONG, "x.png"], ["export", "lse", *LONG, "x.npz"]],
    ids=["export", "render", "lse"],
)
def test_long_work_is_told_and_cancelled(tmp_path: Path, words: list[str], kind: signal.Signals) -> None:
    """At a terminal, which stderr is taken for here: a person sees how far it is; Ctrl+C ends it with no file."""
    code = "import sys; sys.stderr.isatty = lambda: True; from visualizer.cli import main; sys.exit(main(sys.argv[1:]))"
    words = [*words[:-1], str(tmp_path / words[-1])]
    process = subprocess.Popen([sys.executable, "-c", code, *words], cwd=ROOT, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = b""
    while b"L of all rows: 1 of " not in said:
        assert process.poll() is None
        said += os.read(process.stderr.fileno(), 1000)
    process.send_signal(kind)
    said += process.communicate()[1]
    assert process.returncode == 130
    assert b"Traceback" not in said
    assert b": 500 of " not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["export", "render"])
def test_ctrl_c_during_the_start_leaves_no_traceback(command: str, tmp_path: Path) -> None:
    """While NumPy and Qt are being loaded."""
    code = f"""
import os, signal, sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "numpy":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from visualizer.cli import main
sys.exit(main([{command!r}, "lse", "--out", {str(tmp_path / "x.png")!r}]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")
    assert list(tmp_path.iterdir()) == []


def test_without_a_video_library_one_sentence(
    dressed: QApplication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(export.ExportError) as error:
        export.film("tiles", [TOY], tmp_path / "f.mp4", size=SIZE)
    assert str(error.value) == films.NO_VIDEO
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("look", [theme.DARK, theme.LIGHT])
@pytest.mark.parametrize("what", render.WHAT)
def test_an_svg_looks_like_the_picture(what: str, look: theme.Theme, dressed: QApplication, tmp_path: Path) -> None:
    size = (1280, 800) if what == "window" else (480, 400)
    stage = Stage(dressed, what, Tape(TOY.problem), size=size, look=look)
    try:
        state = TOY.change(step=60)
        drawn, picture = stage.svg(state), pil(stage.image(state))
    finally:
        stage.close()
    assert drawn.count(b"<svg") == 1
    assert b"<text" not in drawn  # no font is asked for
    assert b"http" not in drawn.replace(b"http://www.w3.org/2000/svg", b"")
    renderer = QSvgRenderer(drawn)
    assert renderer.isValid()
    image = QImage(*size, QImage.Format.Format_RGB32)
    with QPainter(image) as painter:
        renderer.render(painter)
    assert distance(pil(image), picture) < 5  # letters are smoothed otherwise
    # no larger part is missing or stands elsewhere
    coarse = [x.resize((size[0] // 20, size[1] // 20), Image.Resampling.BOX) for x in (pil(image), picture)]
    assert max(high for _, high in ImageChops.difference(*coarse).getextrema()) < 60  # pyright: ignore[reportGeneralTypeIssues]


@pytest.mark.parametrize("ratio", [1, 1.5, 2])
@pytest.mark.parametrize("cosmetic", [True, False])
def test_lines_of_an_svg_are_as_wide_on_every_screen(ratio: float, cosmetic: bool, dressed: QApplication) -> None:
    """A cosmetic pen counts the screen's own pixels, any other the drawing's."""
    device = Device(40, 40, ratio)
    pen = QPen(QColor("red"), 3 * ratio if cosmetic else 3)
    pen.setCosmetic(cosmetic)
    with QPainter(device) as painter:
        painter.setPen(pen)
        painter.drawLine(5, 5, 30, 30)
    assert 'stroke-width="3"' in "".join(device.engine.out)


# numbers

PROBLEMS = st.builds(
    Problem,
    heads=st.just(2), kv_heads=st.sampled_from((1, 2)), seqlen_q=st.integers(1, 50), seqlen_k=st.integers(1, 50),
    head_dim=st.sampled_from((1, 8, 20)), dtype=st.sampled_from(("float16", "bfloat16", "float32")),
    causal=st.booleans(), sm_scale=st.sampled_from((None, -0.5, 0.5)), block_m=st.just(16), block_n=st.just(16),
)  # fmt: skip


@settings(max_examples=30)
@given(PROBLEMS, st.data())
def test_an_npz_holds_what_the_mirror_computed(tmp_path_factory, problem: Problem, data: st.DataObject) -> None:
    tiling = Tiling(problem)
    step = data.draw(st.integers(0, len(tiling) - 1))
    out = tmp_path_factory.mktemp("values") / "v.npz"
    export_values("values", State(problem=problem, step=step), out)
    with np.load(out, allow_pickle=False) as file:
        found = dict(file)
    head, block, _, name = tiling.locate(step)
    start, end = tiling.rows(block)
    assert (str(found["step"]), int(found["step_index"]), int(found["head"])) == (name, step, head)
    assert found["row"].tolist() == list(range(start, end))
    inputs = Inputs(problem)
    sign = -1 if problem.scale < 0 else 1  # the chip's q carries the sign of the scale
    np.testing.assert_array_equal(found["q"], sign * inputs.q(head)[start:end].astype(found["q"].dtype))
    mirror = Mirror(inputs, tiling)
    done: Chip = mirror.run(head, block)
    assert done.lse is not None
    if name == "store":
        np.testing.assert_array_equal(found["lse"], done.lse[: end - start])
    else:
        assert "lse" not in found
    if "k" in found:
        np.testing.assert_array_equal(found["k"], inputs.k(head)[found["key"]].astype(found["k"].dtype))
    for array in ("s", "p"):
        if array in found:
            assert found[array].shape == (end - start, len(found["key"]))


@pytest.mark.parametrize("step", [0, 30, 60, -1])
def test_a_csv_reads_back_exactly(step: int, tmp_path: Path) -> None:
    state = TOY.change(step=step % len(Tiling(TOY.problem)))
    export_values("values", state, tmp_path / "v.csv")
    with (tmp_path / "v.csv").open(newline="") as file:
        titles, *lines = csv.reader(file)
    tape = Tape(state.problem)
    settle(tape, state.step)
    frame = resolve(state, tape, RunView())
    expected = arrays(frame)
    assert titles[:3] == ["step", "head", "row"]
    assert [[int(x) for x in line[:3]] for line in lines] == [[state.step, 0, row] for row in expected["row"]]
    for name in ("q", "m", "alpha", "l", "s", "p", "acc", "o", "lse"):
        columns = [i for i, title in enumerate(titles) if title == name or title.startswith(f"{name}[")]
        if name not in expected:
            assert columns == []
            continue
        values = np.array([[np.float32(line[i]) for i in columns] for line in lines])
        np.testing.assert_array_equal(values, np.asarray(expected[name], np.float32).reshape(values.shape))
    if "s" in expected:
        assert f"s[{expected['key'][0]}]" in titles


@pytest.mark.parametrize("unit", ["log2", "ln"])
@pytest.mark.parametrize("step", [0, -1])
def test_l_of_every_row_of_every_head(unit: str, step: int, tmp_path: Path) -> None:
    """Whatever the step."""
    state = State(lse_unit=unit).change(batch=2, heads=3, kv_heads=3, seqlen_q=20, seqlen_k=20, head_dim=8, block_m=16)
    state = export.at(state, step)
    export_values("lse", state, tmp_path / "l.csv")
    with (tmp_path / "l.csv").open(newline="") as file:
        titles, *lines = csv.reader(file)
    assert titles == ["batch", "head", "row", f"lse_{unit}_mirror", f"lse_{unit}_exact"]
    places = [[b, h, row] for b in range(2) for h in range(3) for row in range(20)]
    assert [[int(x) for x in line[:3]] for line in lines] == places
    mirror, exact = (np.array([float(line[i]) for line in lines]).reshape(2, 3, 20) for i in (3, 4))
    np.testing.assert_allclose(mirror, exact, atol=1e-5)
    own = [exact_lse_of(state.problem, head) for head in range(6)]
    np.testing.assert_allclose(exact.reshape(6, 20), np.array(own) * (1 if unit == "log2" else np.log(2)), atol=1e-6)
    export_values("lse", state, tmp_path / "l.npz")
    with np.load(tmp_path / "l.npz") as file:
        factor = 1.0 if unit == "log2" else np.log(2)
        assert file["lse_exact_rows"].tolist() == list(range(20))
        np.testing.assert_allclose(file["lse_mirror"] * factor, mirror, rtol=1e-6)
        np.testing.assert_allclose(file["lse_exact"] * factor, exact, rtol=1e-6)


def exact_lse_of(problem: Problem, head: int) -> np.ndarray:
    """In base 2, by the definition."""
    inputs = Inputs(problem)
    s = inputs.q(head).astype(np.float64) @ inputs.k(head).astype(np.float64).T * problem.scale
    if problem.causal:
        s = np.where(np.tril(np.ones(s.shape, bool), problem.offset), s, -np.inf)
    return np.log2(np.exp(s).sum(1))


# the command

SMALL = ["--preset", "toy", "--size", "300x260"]


@pytest.mark.parametrize("name", ["p.png", "p.svg", "p.gif", "p.mp4", "p.npz", "p.csv", "P.PNG"])
def test_the_name_says_what_is_written(name: str, tmp_path: Path) -> None:
    what = "lse" if name in ("p.npz", "p.csv") else "tiles"
    more = ["--steps", "0:2"] if name in ("p.gif", "p.mp4") else ["--step", "-1"]
    done = subprocess.run(
        [sys.executable, "-m", "visualizer.cli", "export", what, "--out", str(tmp_path / name), *more, *SMALL],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    start = (tmp_path / name).read_bytes()[:12]
    signs = {"png": b"\x89PNG", "svg": b"<svg", "gif": b"GIF89a", "mp4": b"ftyp", "npz": b"PK", "csv": b"batch,head"}
    assert signs[name[2:].lower()] in start


@pytest.mark.parametrize(
    "args, words",
    [
        (["tiles", "--out", "x.jpg"], "it must end in .png, .svg, .gif, .mp4, .npz or .csv"),
        (["tiles", "--out", "x"], "it must end in"),
        (["tiles", "--out", "x.csv"], "numbers (.npz, .csv) are those of values or lse"),
        (["values", "--out", "x.png"], "values cannot be written as .png"),
        (["tiles", "--out", "x.png", "--steps", "0:3"], "--steps is for films"),
        (["tiles", "--out", "x.gif", "--step", "3"], "--steps is for films"),
        (["tiles", "--out", "x.gif", "--steps", "3:1"], "The first step, 3, comes after the last, 1."),
        (["tiles", "--out", "x.gif", "--steps", "0:999999"], "There is no step 999,999; this problem has"),
        (["tiles", "--out", "x.gif", "--steps", "0:9:0"], "Every 0 steps is no rhythm"),
        (["tiles", "--out", "x.gif", "--steps", "all"], "'all' is no range of steps; write it as 0:300"),
        (["tiles", "--out", "x.gif", "--seqlen", "65536"], "at most 20,000 are taken"),
        (["tiles", "--out", "x.gif", "--fps", "0", "--preset", "toy"], "0 frames a second cannot be shown"),
        (["tiles", "--out", "x.png", "--step", "99999999"], "this problem has"),
        (["tiles", "--out", "/nowhere/x.svg", "--preset", "toy"], "/nowhere/x.svg cannot be written"),
        (["tiles", "--out", "/nowhere/x.gif", "--preset", "toy", "--steps", "0:1"], "/nowhere/x.gif cannot be written"),
        (["values", "--out", "/nowhere/x.csv", "--preset", "toy"], "/nowhere/x.csv cannot be written"),
        (["values", "--out", "x.csv", "--seqlen", "0"], "There is nothing to export: seqlen_q is 0"),
    ],
)
def test_bad_input_is_one_sentence(args: list[str], words: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "visualizer.cli", "export", *args]
    done = subprocess.run(command, cwd=tmp_path, env=None, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_ends_of_a_range_may_be_left_out() -> None:
    parse = cli.parser().parse_args
    for text, expected in (("0:300", (0, 300, 1)), (":", (0, -1, 1)), ("5:", (5, -1, 1)), ("::7", (0, -1, 7))):
        assert parse(["export", "tiles", "--out", "x.gif", "--steps", text]).steps == expected


@given(st.integers(0, 105), st.integers(0, 105), st.integers(1, 40))
def test_a_range_has_its_ends(first: int, last: int, every: int) -> None:
    first, last = sorted((first, last))
    steps = [state.step for state in export.frames(TOY, first, last, every)]
    assert steps[0] == first
    assert steps[-1] == last
    assert steps == sorted(set(steps))
    assert all(b - a == every for a, b in pairwise(steps[:-1]))
