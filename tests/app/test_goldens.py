"""The panels' and the window's own goldens, tests/goldens/*.png. `make goldens` takes over what has changed."""

from importlib.metadata import version
from pathlib import Path

import pytest

import assets
from visualizer.render import PANEL_CLASSES
from visualizer.state import OPENING, save

ROOT = Path(__file__).parents[2]
GOLDENS = Path(__file__).parents[1] / "goldens"
# where each panel has most to show: in the middle of the toy's third program, at a store for L
STEPS = {"chip": 60, "rows": 60, "lse": 74}
SIZES = {"source": (520, 240), "transport": (900, 90), "ledger": (460, 260), "run": (460, 300)}
THEMES = ("dark", "light")


@pytest.fixture(autouse=True, scope="module")
def pinned_qt() -> None:
    """Pictures of different Qts differ, so these tests mean something with one release only."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    (pinned,) = (line.partition("==")[2] for line in lines if line.startswith("PySide6_Essentials=="))
    installed = version("PySide6_Essentials")
    if installed != pinned:
        pytest.fail(
            f"The goldens are drawn with Qt {pinned}, and Qt {installed} is installed: pip install -c constraints.txt "
            "-e '.[dev]' brings the pinned one; or change the pin and run make goldens.",
            pytrace=False,
        )


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("panel", PANEL_CLASSES)
def test_panel(panel: str, theme: str, panel_snapshot) -> None:
    size = SIZES.get(panel, (400, 360))
    panel_snapshot(panel, f"{panel}-{theme}", preset="toy", step=STEPS.get(panel, 60), theme=theme, size=size)


@pytest.mark.parametrize("theme", THEMES)
def test_window(theme: str, panel_snapshot) -> None:
    panel_snapshot("window", f"window-{theme}", preset="toy", step=60, theme=theme, size=(1280, 800))


@pytest.mark.parametrize("theme", THEMES)
def test_outputs_of_a_kernel(theme: str, outputs, panel_snapshot) -> None:
    """A kernel that is wrong in one head: verdict, error map, and L of the head."""
    panel_snapshot("run", f"outputs-run-{theme}", **outputs, theme=theme, size=(700, 360))
    panel_snapshot("lse", f"outputs-lse-{theme}", **outputs, theme=theme, size=(460, 300), head=1)


@pytest.mark.parametrize("theme", THEMES)
def test_saved_benchmark(theme: str, panel_snapshot, tmp_path: Path) -> None:
    """A benchmark of another machine, at the shape nearest to the problem."""
    session = tmp_path / "session.json"
    save(OPENING.change(bench=str(assets.path("benchmarks/h200.json"))), session)
    panel_snapshot("run", f"saved-run-{theme}", session=session, theme=theme, size=(440, 300), seqlen=900)


@pytest.fixture(scope="module")
def outputs() -> dict:
    """Exact attention, rounded, but for an error of 0.004 in the second head's last rows."""
    import numpy as np

    from kernel.inputs import Inputs
    from kernel.problem import Problem
    from kernel.reference import exact_head

    problem = Problem(heads=2, kv_heads=2, seqlen_q=96, seqlen_k=96, head_dim=16, block_m=16, block_n=16, sm_scale=0.25)
    inputs = Inputs(problem)
    heads = [exact_head(inputs, problem, head) for head in range(2)]
    o, lse = (np.stack(x).astype(np.float32) for x in zip(*heads, strict=True))
    o[1, 70:] += 0.004
    lse[1, 70:] += 0.004
    fields = {"seqlen": 96, "heads": 2, "head_dim": 16, "block_m": 16, "block_n": 16, "sm_scale": 0.25}
    return {"o": o, "lse": lse, **fields}


def test_every_golden_belongs_to_a_test() -> None:
    names = {f"{panel}-{theme}" for panel in (*PANEL_CLASSES, "window") for theme in THEMES}
    names |= {f"outputs-{panel}-{theme}" for panel in ("run", "lse") for theme in THEMES}
    names |= {f"saved-run-{theme}" for theme in THEMES}
    assert {path.stem for path in GOLDENS.glob("*.png")} == names


def test_goldens_are_small() -> None:
    assert sum(path.stat().st_size for path in GOLDENS.glob("*.png")) < 2_000_000
