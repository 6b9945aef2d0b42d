"""As a kernel author begins: an empty project, this package from its wheel, and the README's example pasted."""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with the wheel in it; what the wheel depends on is borrowed, to be quick."""
    folder = tmp_path_factory.mktemp("fresh")
    pip = [sys.executable, "-m", "pip"]
    wheel = [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder), str(ROOT)]
    subprocess.run(wheel, check=True, capture_output=True)
    (built,) = folder.glob("flashscope-*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
    python = folder / "env/bin/python"
    install = [*pip, "--python", str(python), "install", "-q", "--no-deps", "--no-index", str(built)]
    subprocess.run(install, check=True, capture_output=True)
    (site,) = (folder / "env/lib").glob("python3*/site-packages")
    # a plain path: the .pth files in it, and with them the checkout, do not count
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = subprocess.run(
        [str(python), "-c", "import visualizer; print(visualizer.__file__)"],
        cwd=folder, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert Path(where.stdout.strip()).is_relative_to(folder)
    return python


def example() -> str:
    """The Python of the README's section on screenshot tests."""
    section = (ROOT / "README.md").read_text().partition("## Screenshot tests of your own kernel\n")[2]
    (code,) = re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    return code


def run(python: Path, folder: Path, *options: str, **environment: str) -> tuple[int, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("CI", "PYTHONPATH") and not k.startswith(("PYTEST", "QT"))}
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", *options],
        cwd=folder,
        env=kept | environment,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_readme_example_passes_and_fails(python: Path, tmp_path: Path) -> None:
    test = tmp_path / "test_attention.py"
    test.write_text(example())
    status, printed = run(python, tmp_path)
    assert status == 1
    assert printed.count("Make it with pytest --update-goldens=missing") >= 2, printed
    status, printed = run(python, tmp_path, "--update-goldens=missing")
    assert status == 0, printed
    goldens = sorted(path.name for path in (tmp_path / "goldens").iterdir())
    assert goldens == ["test_attention-test_outputs.png", "test_attention-test_tiles.png"]
    status, printed = run(python, tmp_path, CI="true")
    assert status == 0, printed

    broken = example().replace("triu(1)", "triu(2)")
    assert broken != example()
    test.write_text(broken)
    status, printed = run(python, tmp_path, "--golden-failures", "failures")
    assert status == 1
    assert "1 failed, 1 passed" in printed
    assert "The kernel is wrong: " in printed
    assert "differs from the golden goldens/test_attention-test_outputs.png" in printed
    left = {path.name for path in (tmp_path / "failures/test_attention-test_outputs").iterdir()}
    assert left == {"expected.png", "actual.png", "difference.png", "report.html"}
