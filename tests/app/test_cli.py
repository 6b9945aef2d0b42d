"""The command line as a person uses it: what it prints, its exit status, and what it must not import."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernel.problem import Problem
from visualizer import cli, display
from visualizer.options import preset_state, state_of
from visualizer.presets import PRESETS
from visualizer.state import OPENING, save

SMALL = ["--heads", "1", "--seqlen", "40", "--head-dim", "16", "--block-m", "16", "--block-n", "16"]
ROOT = Path(__file__).parents[2]


def flashscope(*args: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, without a display."""
    env = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")}
    command = [sys.executable, "-m", "visualizer.cli", *map(str, args)]
    return subprocess.run(command, cwd=ROOT, env=env | environment, capture_output=True, text=True, timeout=120)


def one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    """What went to stderr, once it is sure that it is one line and no traceback."""
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    return done.stderr.strip()


@pytest.fixture(scope="module")
def checked() -> dict:
    """`check --json` of the opening problem, run once."""
    done = flashscope("check", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_check_of_the_opening_problem(checked: dict) -> None:
    assert checked["ok"] is True
    assert checked["backend"] == "interpreter"
    assert checked["mirror"]["o_differing"] == checked["mirror"]["lse_differing"] == 0
    assert 0 < checked["o_error"] <= 2 * checked["o_error_eager"] + 1e-5
    assert 0 < checked["lse_error"] <= 1e-3
    assert checked["rows_checked"] == 2048
    assert checked["gpu_times"] is False
    assert Problem(**checked["problem"]) == OPENING.problem


def test_check_as_a_table(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", *SMALL, "--dtype", "bfloat16"]) == 0
    printed = capfd.readouterr().out
    assert "bfloat16" in printed
    assert "differs in 0 elements of o, 0 of lse (all programs)" in printed
    assert "interpreted on CPU: values are real, time is not" in printed
    assert "The kernel is right" in printed.splitlines()[-1]
    assert "TFLOP/s" not in printed


@pytest.mark.parametrize(
    "result, status, words",
    [
        ("{'ok': False, 'sentence': 'Wrong there.', 'o_error': float('nan')}", 1, "Wrong there."),
        ("{'times': [t, t | {'name': 'peer', 'ms': float('nan'), 'note': 'takes no float32'}]}", 0, "takes no float32"),
    ],
)
def test_check_of_results_from_elsewhere(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], result: str, status: int, words: str
) -> None:
    """A worker that reports a wrong kernel, or the times of a GPU."""
    (tmp_path / "worker.py").write_text(f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import numpy as np
from kernel import protocol
t = dict(name="this kernel", ms=0.5, low_ms=0.4, high_ms=0.6, tflops=321.5, note="")
one = np.zeros((1, 3), np.float32)
base = dict(backend="cuda", device="a GPU", versions={{}}, block_m=16, block_n=16, ok=True, sentence="Right.",
    o_error=1e-4, o_error_eager=1e-4, o_bound=2e-4, lse_error=0.0, lse_bound=1e-3, rows_checked=40, first_bad=None,
    lse=np.zeros((1, 40), np.float32), o_tiles=one, lse_tiles=one, mirror_o_differing=3, mirror_lse_differing=0,
    mirror_o_max=1e-4, mirror_lse_max=0.0, compared_programs=2, first_differing="here", times=[t],
    compiled=dict(registers=232, spill_bytes=0, shared_bytes=49152, num_warps=4, num_stages=3))
next(protocol.messages(sys.stdin.buffer))
sys.stdout.buffer.write(protocol.encode(dict(type="result", number=1, result=base | {result})))
""")
    command = shlex.join([sys.executable, str(tmp_path / "worker.py")])
    assert cli.main(["check", *SMALL, "--worker", command]) == status
    printed = capfd.readouterr().out
    assert words in printed
    assert "321.5" in printed
    assert "232 registers" in printed
    assert cli.main(["check", *SMALL, "--worker", command, "--json"]) == status
    report = json.loads(capfd.readouterr().out, parse_constant=pytest.fail)
    assert report["ok"] is (status == 0)
    assert report["compiled"]["shared_bytes"] == 49152


def test_check_without_a_worker(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", *SMALL, "--worker", "/nowhere/python", "--json"]) == 1
    out, err = capfd.readouterr()
    assert json.loads(out)["ok"] is False
    assert err == (
        "flashscope check: The worker '/nowhere/python' cannot be started (No such file or directory); "
        "check the path, or leave --worker out.\n"
    )


@pytest.mark.parametrize(
    "args, words",
    [
        (["check", "--seqlen", "many"], "'many' is no whole number"),
        (["check", "--seqlen", "-1"], "seqlen_q is -1; it must be from 0 to 1,048,576"),
        (["check", "--seqlen", "1000000000"], "seqlen_q is 1,000,000,000"),
        (["check", "--seqlen", "9" * 5000], "is no whole number"),
        (["check", "--heads", "5", "--kv-heads", "2"], "5 query heads cannot share 2 key heads"),
        (["check", "--sm-scale", "nan"], "sm_scale is nan"),
        (["check", "--sm-scale", "big"], "'big' is no number"),
        (["check", "--dtype", "int8"], "dtype is 'int8'; choose float16, bfloat16 or float32"),
        (["check", "--block-m", "100"], "power of two"),
        (["check", "--head-dim", "257"], "head_dim is 257"),
        (["check", "--preset", "none such"], "There is no preset 'none such'; choose 'Original test'"),
        (["check", "--session", "/nowhere/x"], "cannot be opened: No such file or directory"),
        (["check", "--inputs", "/nowhere/x.npz"], "There is no file /nowhere/x.npz"),
        (["check", "--nonsense"], "flashscope check: There is no option or argument '--nonsense'"),
        (["check", "4", "--json", "x" * 5000], "There is no option or argument '4', 'xxx"),
        (["check", "--session", "/dev/zero"], "zero cannot be opened: it is no ordinary file"),
        (["check", "--session", "a" * 5000], "cannot be opened: File name too long"),
        (["check", "--inputs", "a" * 3000 + ".npz"], "There is no file aaa"),
        (["check", "--dtype", "float" * 1000], "choose float16, bfloat16 or float32"),
        (["a" * 5000], "There is no file 'aaa"),
        (["check", "--worker", "'unclosed"], "cannot be split into words"),
        (["render", "tiles"], "the following arguments are required: --out"),
        (["render", "--out", "x.png"], "Name one panel, or give --all."),
        (["render", "tiles", "--all", "--out", "x"], "Name one panel, or give --all."),
        (["render", "--all", "--size", "900x600", "--out", "x"], "leave --size out"),
        (["render", "nothing", "--out", "x.png"], "invalid choice: 'nothing'"),
        (["render", "tiles", "--out", "x.png", "--step", "99999999"], "this problem has"),
        (["render", "tiles", "--out", "x.png", "--size", "huge"], "is no size; write it as 900x600"),
        (["render", "tiles", "--out", "x.png", "--size", "900x99999"], "each side may be from 64 to 8192"),
        (["render", "tiles", "--out", "x.png", "--scale", "7"], "--scale"),
        (["render", "tiles", "--out", "/nowhere/x.png"], "/nowhere/x.png cannot be written"),
        (["render", "tiles", "--out", "/dev/null"], "--out is '/dev/null'; it must end in .png"),
        (["render", "tiles", "--out", "x.jpg"], "--out is 'x.jpg'; it must end in .png."),
        (["render", "tiles", "--out", "x.svg"], "flashscope export tiles --out x.svg writes SVG"),
        (["render", "--all", "--out", "x.png"], "With --all --out is a folder; 'x.png' looks like a file."),
        (["render", "tiles", "--out", "a" * 300 + ".png"], "(File name too long)"),
        (["bench", "ui", "--json", "/tmp"], "/tmp cannot be written"),
        (["bench", "nothing"], "invalid choice: 'nothing'"),
        (["bench", "kernel", "--svg", "/nowhere/b.svg"], "/nowhere/b.svg cannot be written"),
        (["bench", "ui", "--seqlen", "-7"], "seqlen_q is -7"),
        (["bench", "ui", "--json", "/nowhere/b.json"], "/nowhere/b.json cannot be written"),
        (["chekc"], "There is no file 'chekc'; did you mean the command check?"),
        (["open", "/nowhere/talk.flashscope"], "There is no file '/nowhere/talk.flashscope'"),
        (["open", __file__, "--seqlen", "8"], "Give a file or the problem's options, not both."),
    ],
)
def test_bad_input_is_one_sentence(args: list[str], words: str) -> None:
    done = flashscope(*args)
    assert words in one_sentence(done)
    assert len(done.stderr) < 400
    assert done.returncode == (1 if "unclosed" in args[-1] else 2)


def test_tensor_files_that_do_not_fit(tmp_path: Path) -> None:
    x = np.zeros((1, 1, 8, 16), np.float16)
    np.savez(tmp_path / "fine.npz", q=x, k=x, v=x)
    np.savez(tmp_path / "shapes.npz", q=x, k=x[:, :, :4], v=x)
    np.savez(tmp_path / "objects.npz", q=np.array([[[[print]]]], object), k=x, v=x)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "fine.npz").read_bytes()[:200])
    for name, words in (
        ("shapes", "v in the file has shape"),
        ("objects", "q in objects.npz holds Python objects; it must hold numbers."),
        ("cut", "cut.npz is not a readable .npz file"),
    ):
        done = flashscope("check", "--inputs", tmp_path / f"{name}.npz")
        assert done.returncode == 2
        assert words in one_sentence(done)
    done = flashscope("check", "--inputs", tmp_path / "fine.npz", "--seqlen", "9")
    assert done.returncode == 2
    assert "but the tensors in" in one_sentence(done)


def test_check_of_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((1, heads, 40, 16), np.float32) for heads in (2, 1, 1))
    np.savez(tmp_path / "mine.npz", q=q, k=k, v=v)
    assert cli.main(["check", "--json", "--inputs", str(tmp_path / "mine.npz"), "--sm-scale", "auto"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["problem"]["heads"] == 2
    assert report["problem"]["kv_heads"] == 1
    assert report["problem"]["dtype"] == "float32"
    assert report["problem"]["sm_scale"] is None
    assert report["mirror"]["o_differing"] == 0


def test_sessions_and_presets_are_where_to_begin(tmp_path: Path) -> None:
    path = tmp_path / "talk.flashscope"
    save(OPENING.change(heads=8, kv_heads=2, step=40), path)
    parse = cli.parser().parse_args
    state = state_of(parse(["check", "--session", str(path), "--seqlen", "64"]))
    assert (state.problem.kv_heads, state.problem.seqlen_k, state.step) == (2, 64, 40)
    assert state_of(parse(["check", "--preset", "toy"])).problem == PRESETS[1].state.problem
    assert state_of(parse(["check", "--heads", "6"])).problem.kv_heads == 6
    assert state_of(parse(["check", "--seqlen-k", "5"])).problem.seqlen_q == OPENING.problem.seqlen_q
    assert state_of(parse(["check", "--no-causal"])).problem.causal is False
    assert state_of(parse(["check", "--seqlen", "1,024", "--sm-scale", "-0.5"])).problem.sm_scale == -0.5
    assert state_of(parse(["check"])) == OPENING


def test_render_writes_the_picture_that_was_asked_for(tmp_path: Path) -> None:
    from PySide6.QtGui import QImage

    out = tmp_path / "t.png"
    done = flashscope("render", "tiles", "--out", out, "--step", "-1", "--size", "500x400", "--scale", "2", *SMALL)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    image = QImage(str(out))
    assert (image.width(), image.height()) == (1000, 800)


def test_render_of_everything(tmp_path: Path) -> None:
    done = flashscope("render", "--all", "--out", tmp_path / "new", *SMALL)
    assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {f"{name}.png" for name in (*cli.PANELS, "window")}


def test_render_shows_a_run(tmp_path: Path) -> None:
    plain, ran = tmp_path / "plain.png", tmp_path / "ran.png"
    assert flashscope("render", "run", "--out", plain, *SMALL).returncode == 0
    assert flashscope("render", "run", "--run", "--out", ran, *SMALL).returncode == 0
    assert plain.read_bytes() != ran.read_bytes()


def test_panels_are_those_that_can_be_drawn() -> None:
    from visualizer.render import WHAT

    assert (*cli.PANELS, "window") == WHAT


def test_open_without_a_display_names_what_works() -> None:
    done = flashscope()
    assert done.returncode == 1
    assert one_sentence(done) == (
        "flashscope open: There is no display (neither DISPLAY nor WAYLAND_DISPLAY is set), so no window can open; "
        "flashscope check, render and doctor work without one."
    )
    done = flashscope("open", "--preset", "toy", DISPLAY=":4711")
    assert done.returncode == 1
    assert "The display ':4711' cannot be reached" in one_sentence(done)


def test_display_that_answers(x_display: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("QT_QPA_PLATFORM", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", x_display)
    assert display.complaint() is None
    assert display.name() == f"DISPLAY={x_display}"


def test_doctor_says_what_works() -> None:
    done = flashscope("doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["worker"]["backend"] == "interpreter"
    assert found["works"]["render"] is True
    assert found["works"]["check"] is True
    assert found["works"]["window"].startswith("There is no display")
    assert re.match(r"\d+\.\d+", found["qt"])
    assert found["packages"]["triton"]
    assert found["fonts"] == "Inter and JetBrains Mono load"


def test_doctor_in_words_without_a_worker(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--worker", "/nowhere/python"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert any(line.startswith("kernel         cannot run") for line in lines)
    assert lines[-1].startswith("check          does not work: The worker '/nowhere/python' cannot be started")


@pytest.mark.parametrize(
    "args, status",
    [
        (["--help"], 0),
        (["--version"], 0),
        (["check", "--help"], 0),
        (["render", "--help"], 0),
        (["check", "--seqlen", "-1"], 2),
        (["chekc"], 2),
        (["open"], 1),
    ],
)
def test_quick_answers_import_nothing_heavy(args: list[str], status: int) -> None:
    code = (
        "import sys; sys.argv[0] = 'flashscope'\n"
        "from visualizer.cli import main\n"
        "try: status = main()\n"
        "except SystemExit as end: status = end.code\n"
        "heavy = {'torch', 'triton', 'PySide6', 'numpy', 'pyqtgraph', 'msgpack'} & set(sys.modules)\n"
        "print('|', status, sorted(heavy))"
    )
    env = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")}
    done = subprocess.run([sys.executable, "-c", code, *args], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == f"| {status} []"


def test_help_shows_examples_and_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib.metadata import version

    with pytest.raises(SystemExit) as end:
        cli.main(["--help"])
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert "flashscope check --dtype bfloat16" in printed
    assert all(name in printed for name in cli.COMMANDS)
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"flashscope {version('flashscope')}\n"


def test_worker_command_speaks_the_protocol() -> None:
    from visualizer.worker_call import call_hello

    command = shlex.join([sys.executable, "-m", "visualizer.cli", "worker"])
    assert call_hello(command).backend == "interpreter"
    done = subprocess.run(
        [sys.executable, "-m", "visualizer.cli", "worker"], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True
    )
    assert (done.returncode, done.stdout) == (0, b"")


def test_bench_kernel_without_a_gpu_says_so() -> None:
    done = flashscope("bench", "kernel", "--quick")
    assert done.returncode == 2
    assert done.stderr == "flashscope bench kernel: torch sees no CUDA GPU; run it where there is one.\n"


def test_help_of_the_problem_is_true(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["check", "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    p = Problem()
    assert p.kv_heads == p.heads and p.seqlen_k == p.seqlen_q and p.causal
    assert (
        f"batch {p.batch}, heads {p.heads}, seqlen {p.seqlen_q}, head_dim {p.head_dim}, {p.dtype}, causal, "
        f"scale {p.sm_scale}, blocks of {p.block_m} x {p.block_n}, seed {p.seed}." in printed
    )
    names = re.search(r"begin from one: ([a-z, ]+?) --", printed)
    assert names is not None
    assert [preset_state(name) for name in names[1].split(", ")] == [preset.state for preset in PRESETS]


@pytest.mark.parametrize("words", [["bench", "kernel"], ["check", *SMALL], ["render", "tiles", "--out", "t.png"]])
def test_folders_named_as_ours_where_the_person_stands_are_not_run(words: list[str], tmp_path: Path) -> None:
    for name in ("kernel", "visualizer", "assets"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not ours')\n")
    # -P: as the installed command, which does not look where the person stands
    command = [sys.executable, "-P", "-m", "visualizer.cli", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "not ours" not in done.stderr
    assert done.returncode == (2 if words[0] == "bench" else 0), done.stderr


def test_an_output_that_cannot_be_written_is_said() -> None:
    command = [sys.executable, "-m", "visualizer.cli", "--version"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr == "flashscope: The output cannot be written: No space left on device.\n"


def test_an_output_without_the_signs_still_gets_the_verdict() -> None:
    done = flashscope("check", *SMALL, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("problem    batch 1 ? heads 1 ? seqlen 40 ?")
    assert "The kernel is right" in done.stdout


@pytest.mark.parametrize("command", ["render", "export"])
def test_a_picture_of_a_hundred_million_pixels_is_refused(command: str, tmp_path: Path) -> None:
    done = flashscope(
        command, "tiles", "--size", "8192x6000", "--scale", 2, "--preset", "toy", "--out", tmp_path / "x.png"
    )
    assert done.returncode == 2
    assert "8192x6000 at scale 2 is 197 million pixels; a picture may have 67 million" in one_sentence(done)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("zoom", ["nan", "1e30", "0", "x"])
def test_a_zoom_that_cannot_be_is_refused(zoom: str, tmp_path: Path) -> None:
    done = flashscope("export", "tiles", "--preset", "toy", "--zoom", zoom, "--out", tmp_path / "x.png")
    assert done.returncode == 2
    assert "from 0.5 to 3" in one_sentence(done) or "is no number" in done.stderr
