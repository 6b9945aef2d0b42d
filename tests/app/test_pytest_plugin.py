"""The plugin in projects of its own: goldens made, compared, missing, changed; what a failure leaves; what it costs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from visualizer.diff import read
from visualizer.pytest_plugin import file_name
from visualizer.snapshot import Drawn, Snapshots

ATTENTION = '''
import numpy as np
import pytest

def attention(q, k, v, scale, wrong=0.0):
    """Causal attention in NumPy; o and the natural-log lse."""
    s = (q @ np.swapaxes(k, -1, -2)) * scale
    s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
    m = s.max(-1, keepdims=True)
    p = np.exp(s - m)
    l = p.sum(-1, keepdims=True)
    return (p / l) @ v + wrong, (m + np.log(l))[..., 0]

def tensors(dtype=np.float32):
    rng = np.random.default_rng(0)
    return [rng.standard_normal((1, 2, 40, 16), np.float32).astype(dtype) for _ in range(3)]
'''
OWN = """
def test_own(panel_snapshot):
    q, k, v = tensors()
    o, lse = attention(q, k, v, 0.25, WRONG)
    panel_snapshot("run", q=q, k=k, v=v, o=o, lse=lse, lse_unit="ln", causal=True, sm_scale=0.25, block_m=16,
                   block_n=16, size=(480, 300))
"""


def run(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """pytest in the folder, without this project's settings."""
    kept = {k: v for k, v in os.environ.items() if k not in ("CI", "PYTEST_ADDOPTS") and not k.startswith("QT_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *options]
    return subprocess.run(command, cwd=folder, env=kept | environment, capture_output=True, text=True)


def counts(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """{"passed": 2} from pytest's last line."""
    return {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout.splitlines()[-1])}


def write(folder: Path, tests: str, wrong: float = 0.0) -> None:
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (folder / "test_it.py").write_text(ATTENTION + tests.replace("WRONG", str(wrong)))


def test_a_golden_is_made_kept_and_broken(tmp_path: Path) -> None:
    """The whole life of a golden, one process after another."""
    write(tmp_path, OWN)
    golden = tmp_path / "goldens" / "test_it-test_own.png"
    done = run(tmp_path)
    assert counts(done) == {"failed": 1}, done.stdout
    assert f"There is no golden {golden}. Make it with pytest --update-goldens=missing" in done.stdout
    assert not golden.exists()

    done = run(tmp_path, CI="true")
    assert counts(done) == {"failed": 1}
    assert "In CI none is made" in done.stdout
    assert not golden.exists()
    done = run(tmp_path, "--update-goldens", CI="true")
    assert done.returncode == 4
    assert "Goldens are not updated in CI" in done.stderr
    assert not golden.exists()

    done = run(tmp_path, "--update-goldens=changed")
    assert counts(done) == {"failed": 1}
    assert not golden.exists()
    done = run(tmp_path, "--update-goldens=missing")
    assert counts(done) == {"passed": 1}, done.stdout
    assert "goldens/test_it-test_own.png" in done.stdout
    with Image.open(golden) as picture:
        assert picture.size == (480, 300)
        assert picture.mode in ("P", "RGB")
        assert re.fullmatch(r"6\.\d+\.\d+", picture.info["Qt"])
    made = golden.read_bytes()
    assert counts(run(tmp_path)) == {"passed": 1}
    assert counts(run(tmp_path, CI="1")) == {"passed": 1}

    write(tmp_path, OWN, wrong=0.5)
    failures = tmp_path / "failures"
    done = run(tmp_path, "--golden-failures", str(failures))
    assert counts(done) == {"failed": 1}
    assert "differs from the golden goldens/test_it-test_own.png:" in done.stdout
    assert re.search(r"[\d.]+ % of the pixels differ \([\d,]+\), within x \d+ … \d+, y \d+ … \d+\.", done.stdout)
    assert f"are in {failures / 'test_it-test_own'}" in done.stdout
    assert sorted(p.name for p in (failures / "test_it-test_own").iterdir()) == [
        "actual.png", "difference.png", "expected.png", "report.html",
    ]  # fmt: skip
    assert ">       panel_snapshot(" not in done.stdout or "snapshot.py" not in done.stdout
    done = run(tmp_path, "--update-goldens=missing")
    assert counts(done) == {"failed": 1}
    assert golden.read_bytes() == made
    assert counts(run(tmp_path, "--update-goldens=changed")) == {"passed": 1}
    assert golden.read_bytes() != made
    assert counts(run(tmp_path)) == {"passed": 1}
    (failures / "mine.txt").touch()
    (failures / "test_it-test_own" / "mine.txt").touch()
    assert counts(run(tmp_path, "--golden-failures", str(failures))) == {"passed": 1}
    assert sorted(p.name for p in failures.rglob("*.*")) == ["mine.txt", "mine.txt"]
    write(tmp_path, OWN)
    assert counts(run(tmp_path, "--update-goldens")) == {"passed": 1}
    assert golden.read_bytes() == made


def test_a_golden_of_a_wrong_kernel_says_so(tmp_path: Path) -> None:
    """Where it is made, each time it passes, and in the failure of a kernel that broke."""
    golden = tmp_path / "goldens" / "test_it-test_own.png"
    wrong = r"goldens/test_it-test_own\.png: The kernel is wrong: .*row \d+"
    write(tmp_path, OWN)
    right = run(tmp_path, "--update-goldens=missing")
    assert "goldens/test_it-test_own.png\n" in right.stdout
    assert "WRONG" not in right.stdout
    write(tmp_path, OWN, wrong=0.5)
    broken = run(tmp_path)
    assert counts(broken) == {"failed": 1}
    assert re.search(r"^E +The kernel is wrong: .*row \d+", broken.stdout, re.MULTILINE), broken.stdout
    golden.unlink()
    assert "The kernel is wrong: " in run(tmp_path).stdout
    for options in (["--update-goldens=missing"], []):
        done = run(tmp_path, *options)
        assert counts(done) == {"passed": 1}
        assert "goldens that show a WRONG kernel" in done.stdout
        assert re.search(wrong, done.stdout), done.stdout


def test_failures_of_goldens_of_one_name_are_all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Snapshots, "_draw", lambda *_: Drawn(Image.new("RGB", (4, 4), "red"), "6.0.0", ""))
    snapshots = Snapshots(None, tmp_path / "failures", False, tmp_path)
    for folder in ("a", "b/c", "."):
        golden = tmp_path / folder / "goldens" / "same.png"
        golden.parent.mkdir(parents=True)
        Image.new("RGB", (4, 4), "blue").save(golden)
        with pytest.raises(AssertionError, match="differs from the golden"):
            snapshots.check(golden, {}, {}, lse_unit="ln", scale=1, tolerance=0, make_folder=Path)
    snapshots.close()
    kept = {str(path.parent.relative_to(tmp_path)) for path in (tmp_path / "failures").rglob("actual.png")}
    assert kept == {"failures/a/same", "failures/b/c/same", "failures/same"}


@pytest.mark.parametrize("broken", [b"", b"no picture", None], ids=["empty", "text", "cut off"])
def test_a_golden_that_cannot_be_read(tmp_path: Path, broken: bytes | None) -> None:
    """One sentence and the new picture; an update replaces it."""
    write(tmp_path, OWN)
    assert counts(run(tmp_path, "--update-goldens=missing")) == {"passed": 1}
    golden = tmp_path / "goldens" / "test_it-test_own.png"
    whole = golden.read_bytes()
    for mode in ("all", "changed"):
        golden.write_bytes(whole[: len(whole) // 2] if broken is None else broken)
        done = run(tmp_path, "--golden-failures=failures", "--update-goldens=missing")
        assert counts(done) == {"failed": 1}
        assert "test_it-test_own.png is not a readable PNG file" in done.stdout
        assert "Traceback" not in done.stdout
        assert not re.search(r"PIL|snapshot\.py|pytest_plugin\.py", done.stdout), done.stdout
        assert read(tmp_path / "failures/test_it-test_own/actual.png").size == (480, 300)
        assert counts(run(tmp_path, f"--update-goldens={mode}")) == {"passed": 1}
        assert golden.read_bytes() == whole


def test_two_workers_of_xdist_report_what_they_wrote(tmp_path: Path) -> None:
    write(tmp_path, OWN + OWN.replace("test_own", "test_other"), wrong=0.5)
    done = run(tmp_path, "-n", "2", "--update-goldens=missing")
    assert counts(done) == {"passed": 2}, done.stdout
    for name in ("own", "other"):
        assert f"\ngoldens/test_it-test_{name}.png\n" in done.stdout
        assert f"\ngoldens/test_it-test_{name}.png: The kernel is wrong" in done.stdout


def test_what_can_be_drawn_and_what_cannot(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
from pathlib import Path

def test_panels(panel_snapshot):
    panel_snapshot("tiles", "preset", preset="toy", step=-1, size=(300, 300))
    panel_snapshot("tiles", "light", preset="toy", theme="light", size=(300, 300))
    panel_snapshot("chip", "fields", seqlen=64, heads=1, head_dim=16, causal=False, block_m=32, step=7, size=(300, 300))
    panel_snapshot("chip", "large", preset="toy", size=(300, 300), scale=2)
    Path("s.json").write_text('{"flashscope": 1, "problem": {"seqlen_q": 64, "seqlen_k": 64}, "step": 3}')
    panel_snapshot("transport", "session", session="s.json", size=(600, 80))

def test_tensors_of_torch(panel_snapshot):
    import torch
    q, k, v = (torch.from_numpy(x).to(torch.bfloat16).requires_grad_() for x in tensors())
    o, lse = attention(*(x.detach().float().numpy() for x in (q, k, v)), 0.25)
    o, lse = torch.from_numpy(o).to(torch.bfloat16), torch.from_numpy(lse).flatten(0, 1)
    panel_snapshot("lse", q=q, k=k, v=v, o=o, lse=lse, lse_unit="ln", causal=True, size=(300, 300), head=1)

def refused(panel_snapshot, *args, **kwargs):
    with pytest.raises(ValueError) as error:
        panel_snapshot(*args, **kwargs)
    return str(error.value)

def test_refusals(panel_snapshot):
    q, k, v = tensors()
    o, lse = attention(q, k, v, 0.25)
    def no(name, *args, **kwargs):
        return refused(panel_snapshot, *args, name=name, **kwargs)
    assert no("a", "none").startswith("There is no panel 'none'; choose tiles, chip, ")
    assert no("b", "run", q=q, k=k) == "q and k came without v; give all of q, k and v."
    assert no("c", "run", q=q, k=k, v=v, o=o) == "o came without lse; give all of o and lse."
    assert no("d", "run", q=q, k=k, v=v, o=o[:, :, 1:], lse=lse).startswith("o has shape (1, 2, 39, 16); this problem")
    assert no("e", "lse", q=q, k=k, v=v, seqlen=4) == "seqlen is what the tensors q, k and v say; leave it out."
    assert no("f", "lse", q=[1, 2], k=k, v=v).startswith("q is list of int64; give an array of floating-point")
    assert "must be float16" in no("g", "lse", q=q.astype(float), k=k, v=v)
    assert no("h", "tiles", colour="red").startswith("There is no field 'colour'; choose from ")
    assert no("i", "tiles", step=10**9).startswith("step is 1,000,000,000; this problem has")
    assert no("j", "tiles", seqlen=-1).startswith("seqlen_q is -1; it must be from 0")
    assert no("k", "tiles", preset="none such").startswith("There is no preset 'none such'")
    assert no("k2", "tiles", preset=5) == "preset is 5; give its name as a text."
    assert no("n", "run", q=q, k=k, v=v).startswith("The run panel shows what a kernel made of q")
    assert no("o", "tiles", theme="blue") == "theme is 'blue'; choose dark or light."
    assert no(5, "tiles") == "name is 5; give a text."
    for tolerance in (2, -1, "x", None, float("nan"), True):
        said = no("p", "tiles", tolerance=tolerance)
        assert said == f"tolerance is {tolerance!r}; it may be from 0 (the same colours) to 1 (black for white)."
    for scale in (0, 3, -1, "2", None, float("inf")):
        assert no("q", "tiles", scale=scale) == f"scale is {scale!r}; choose 1 or 2."
    for size in ((0, 0), (20000, 20000), "900x600", 900, (900,), (900, 600.5)):
        assert no("r", "tiles", size=size) == (
            f"size is {size!r}; give (width, height) such as (900, 600), each from 64 to 8192."
        )
    for step in ("1", 2.5):
        assert no("s", "tiles", step=step) == f"step is {step!r}; give a whole number."
        assert no("t", "tiles", head=step) == f"head is {step!r}; give a whole number."
    assert no("u", "tiles", zoom=0) == "zoom is 0; it may be from 0.5 to 3."
    assert no("v", "tiles", matrix="x") == "matrix is 'x'; choose auto, s, p."
    assert no("w", "tiles", row="x").startswith("row is 'x'; it must be a whole number")
    assert "cannot be opened" in no("l", "tiles", session="nowhere.json")
    assert no("m", "run", q=q, k=k, v=v, o=o, lse=lse, lse_unit="log10").startswith("lse_unit is 'log10'")

def test_one_sentence(panel_snapshot):
    panel_snapshot("tiles", "one sentence", theme="blue")

def test_names_are_used_once(panel_snapshot):
    panel_snapshot("tiles", "twice", preset="toy", step=-1, size=(300, 300))
    panel_snapshot("tiles", "twice", preset="toy", step=-1, size=(300, 300))
""",
    )
    done = run(tmp_path, "--update-goldens=missing")
    assert counts(done) == {"passed": 3, "failed": 2}, done.stdout
    assert "ValueError: theme is 'blue'" in done.stdout
    assert not re.search(r"pytest_plugin\.py|snapshot_options\.py", done.stdout), done.stdout
    assert "The golden 'twice' was compared before in this test" in done.stdout
    sizes = {p.stem: read(p).size for p in (tmp_path / "goldens").iterdir()}
    assert sizes == {
        "preset": (300, 300), "light": (300, 300), "fields": (300, 300), "large": (600, 600), "session": (600, 80),
        "twice": (300, 300), "test_it-test_tensors_of_torch": (300, 300),
    }  # fmt: skip


def test_the_plugin_costs_nothing_until_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_clean():\n"
        "    assert 'visualizer.pytest_plugin' in sys.modules\n"
        "    heavy = {'PySide6', 'numpy', 'PIL', 'pixelmatch', 'pyqtgraph', 'torch', 'kernel', 'assets', 'msgpack'}\n"
        "    assert not heavy & set(sys.modules)\n"
    )
    done = run(tmp_path, "-p", "no:hypothesispytest", "-p", "no:pytest-qt")
    assert counts(done) == {"passed": 1}, done.stdout


def test_it_lives_with_pytest_qt_and_with_somebody_elses_kernel(tmp_path: Path) -> None:
    """Their own kernel.py, conftest.py and assets, a QApplication of theirs, and two at a time."""
    (tmp_path / "kernel.py").write_text("MINE = True\n")
    (tmp_path / "visualizer").mkdir()  # an empty folder of that name
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "__init__.py").write_text("MINE = True\n")
    (tmp_path / "conftest.py").write_text("import os\nos.environ['QT_FONT_DPI'] = '192'\nos.environ['LC_ALL'] = 'xx'\n")
    write(
        tmp_path,
        """
def test_qt(qtbot, panel_snapshot):
    from PySide6.QtWidgets import QLabel
    label = QLabel("mine")
    qtbot.addWidget(label)
    label.show()
    panel_snapshot("tiles", "one", preset="toy", size=(300, 300))

def test_kernel(panel_snapshot):
    import assets
    import kernel
    assert kernel.MINE
    assert assets.MINE
    panel_snapshot("tiles", "two", preset="toy", size=(300, 300))
""",
    )
    environment = {"QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(tmp_path)}
    done = run(tmp_path, "-k", "kernel", "--update-goldens", **environment)
    assert counts(done) == {"passed": 1}, done.stdout
    shutil.copy(tmp_path / "goldens" / "two.png", tmp_path / "goldens" / "one.png")
    assert counts(run(tmp_path, "-n", "2", **environment)) == {"passed": 2}


def test_a_process_that_dies_is_told_and_replaced(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
import os, signal

def test_survives(panel_snapshot):
    panel_snapshot("tiles", "one", preset="toy", size=(300, 300))
    [client] = panel_snapshot._snapshots._clients.values()
    os.kill(client._process.pid, signal.SIGKILL)
    client._process.wait()
    panel_snapshot("tiles", "two", preset="toy", size=(300, 300))
""",
    )
    done = run(tmp_path, "--update-goldens")
    assert counts(done) == {"passed": 1}, done.stdout
    goldens = tmp_path / "goldens"
    assert (goldens / "one.png").read_bytes() == (goldens / "two.png").read_bytes()


def test_another_qt_is_named(tmp_path: Path) -> None:
    write(tmp_path, OWN)
    assert counts(run(tmp_path, "--update-goldens")) == {"passed": 1}
    golden = tmp_path / "goldens" / "test_it-test_own.png"
    with Image.open(golden) as picture:
        picture = picture.convert("RGB")
    picture.putpixel((3, 3), (1, 2, 3))
    from PIL.PngImagePlugin import PngInfo

    notes = PngInfo()
    notes.add_text("Qt", "6.1.2")
    picture.save(golden, pnginfo=notes)
    done = run(tmp_path)
    assert counts(done) == {"failed": 1}
    assert re.search(r"It was made with Qt 6\.1\.2, and Qt 6\.\d+\.\d+ is installed", done.stdout)


@pytest.mark.parametrize("words", ["--update-goldens=some", "--update-goldens tests/x.py"])
def test_a_mode_that_there_is_not(tmp_path: Path, words: str) -> None:
    done = run(tmp_path, *words.split())
    assert done.returncode == 4
    assert "is none of all, changed, missing" in done.stderr


NAMES = [
    "test_x-test_y[dark]",
    "a.b+c",
    "größe",
    "größe α",
    "größe β",
    "t[]",
    "t[...]",
    "t",
    "",
    ".",
    "..",
    "up",
    "../../up",
]
NAMES += ["sub/dir", "sub-dir", "e\u0301", "\u00e9", "x" * 400, "x" * 401, "-", "\ud800"]


def test_file_names_keep_names_apart() -> None:
    assert file_name("test_x-test_y[dark]") == "test_x-test_y-dark"
    for kept in ("größe", "a.b+c", "sub-dir", "測試"):
        assert file_name(kept) == kept
    assert re.fullmatch(r"up-[0-9a-f]{6}", file_name("../../up"))
    assert re.fullmatch(r"golden-[0-9a-f]{6}", file_name("…"))
    assert len({file_name(name) for name in NAMES}) == len(NAMES) - 1  # the two ways to write é are one name


@given(st.text())
def test_every_name_is_a_file_name_in_the_folder(name: str) -> None:
    made = file_name(name)
    assert made.strip(".")
    assert len(made.encode()) < 200
    assert not re.search(r"[^\w.+-]", made)


@pytest.mark.parametrize("options", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_a_golden_belongs_to_one_test(tmp_path: Path, options: list[str]) -> None:
    one = """
def test_a(panel_snapshot):
    panel_snapshot("tiles", "same", preset="toy", size=(300, 300))
"""
    write(tmp_path, one + one.replace("test_a", "test_b"))
    done = run(tmp_path, "--update-goldens", *options)
    assert counts(done) == {"passed": 1, "failed": 1}, done.stdout
    a, b = "test_it.py::test_a", "test_it.py::test_b"
    assert re.search(rf"The golden same.png is that of two tests, ({a} and {b}|{b} and {a}); give each", done.stdout)
