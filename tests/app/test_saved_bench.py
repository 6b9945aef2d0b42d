"""A saved benchmark in the window: opened like any file, beside what is there, closed by hand or by a run."""

from __future__ import annotations

from pathlib import Path

import assets
from visualizer.actions import BY_ID
from visualizer.window import Window

H200 = assets.path("benchmarks/h200.json")


def shown(window: Window) -> list[str]:
    return [text.text for text in window.panels["run"].canvas.sheet.texts]  # pyright: ignore[reportAttributeAccessIssue]


def test_it_opens_follows_the_problem_and_closes(window: Window) -> None:
    before, session = window.controller.state, window.controller.session
    assert window.files.open(Path(H200))
    assert (window.controller.state, window.controller.session) == (before, session)
    assert window.settings.recent[0] == Path(H200).absolute()
    window.controller.change(head_dim=128, seqlen_q=4096, seqlen_k=4096, causal=True, dtype="float16")
    view = window.controller.runs.view.saved
    assert view is not None and view.is_same and view.shape.startswith("head_dim 128, causal, seqlen 4,096")
    assert any("from a file, not a run made here" in text for text in shown(window))
    action = BY_ID["kernel.close_saved"]
    assert action.enabled is not None and action.enabled(window)
    action.call(window)
    assert window.controller.runs.view.saved is None and not action.enabled(window)
    assert not any("from a file" in text for text in shown(window))


def test_a_cut_off_one_is_refused_and_what_was_shown_stays(window: Window, tmp_path: Path) -> None:
    assert window.files.open(Path(H200))
    view, said = window.controller.runs.view, []
    window.controller.said.connect(said.append)
    path = tmp_path / "cut.json"
    path.write_bytes(Path(H200).read_bytes()[:5000])
    assert not window.files.open(path)
    assert len(said) == 1 and said[0].startswith("cut.json is not valid JSON; it may be cut off")
    assert window.controller.runs.view is view
