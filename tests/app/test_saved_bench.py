"""A saved benchmark in the window: opened like any file, beside what is there, closed by hand or by a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QUrl

import assets
from tests.state.test_controller import FakeWorker
from visualizer.actions import BY_ID
from visualizer.presets import PRESETS
from visualizer.state import OPENING, StateError, from_json, load, save, to_json
from visualizer.window import Window

H200 = assets.path("benchmarks/h200.json")


def shown(window: Window) -> list[str]:
    return [text.text for text in window.panels["run"].canvas.sheet.texts]  # pyright: ignore[reportAttributeAccessIssue]


def close_button(window: Window):
    return window.panels["run"].close_button  # pyright: ignore[reportAttributeAccessIssue]


def says_saved(window: Window) -> bool:
    return any("from a file, not a run made here" in text for text in shown(window))


def test_it_opens_follows_the_problem_and_closes(window: Window) -> None:
    before, session = window.controller.state, window.controller.session
    assert window.files.open(Path(H200))
    assert window.controller.state == before.change(bench=str(Path(H200).absolute()))
    assert window.controller.session == session and window.settings.recent[0] == Path(H200).absolute()
    window.controller.change(head_dim=128, seqlen_q=4096, seqlen_k=4096, causal=True, dtype="float16")
    view = window.controller.runs.view.saved
    assert view is not None and view.is_same and view.shape.startswith("head_dim 128, causal, seqlen 4,096")
    window.controller.visit(PRESETS[1].state)  # 64 rows of head_dim 16
    view = window.controller.runs.view.saved
    assert view is not None and not view.is_same
    assert any(text.startswith("head_dim 64, causal, seqlen 512") for text in shown(window))
    assert "nearest to yours" in " ".join(shown(window)) and says_saved(window)
    action = BY_ID["kernel.close_saved"]
    assert action.enabled is not None and action.enabled(window)
    assert close_button(window).isVisible()
    close_button(window).click()
    assert window.controller.state.bench is None and window.controller.runs.view.saved is None
    assert not action.enabled(window) and not close_button(window).isVisible() and not says_saved(window)
    window.controller.undo()
    assert says_saved(window)
    action.call(window)
    assert not says_saved(window)


def test_a_session_brings_it_back_and_says_when_it_is_gone(make_window, tmp_path: Path) -> None:
    window = make_window()
    path, session = tmp_path / "mine.json", tmp_path / "s.flashscope.json"
    path.write_bytes(Path(H200).read_bytes())
    assert window.files.open(path) and window.files.save_to(session)
    assert json.loads(session.read_text())["bench"] == "mine.json"  # beside it, so both can be moved together
    window.controller.change(bench=None)
    assert window.files.open(session) and says_saved(window) and window.controller.state.bench == str(path)
    again = make_window(state=load(session))
    assert says_saved(again)
    path.write_text("[]")
    for ruin in (lambda: None, path.unlink):
        ruin()
        changed = make_window(state=load(session))
        said = changed.message_bar.accessibleDescription()
        assert said.startswith("Shown without the saved benchmark: mine.json ") and "\n" not in said
        assert not says_saved(changed) and changed.controller.state == load(session)
        assert window.files.open(session) and window.message_bar.accessibleDescription() == said
    assert window.files.save_to(session) and load(session).bench == str(path)


def test_elsewhere_the_session_names_the_whole_path(tmp_path: Path) -> None:
    state = OPENING.change(bench=str(Path(H200).absolute()))
    save(state, tmp_path / "s.json")
    assert load(tmp_path / "s.json") == state
    with pytest.raises(StateError, match="bench in the session is 3"):
        from_json(to_json(OPENING.change(bench=3)))


def test_a_run_closes_it(window: Window) -> None:
    window.controller.runs.attach(FakeWorker())
    assert window.files.open(Path(H200)) and says_saved(window)
    window.controller.run_kernel()
    assert window.controller.state.bench is None and not says_saved(window)


def test_a_drop_is_known_by_what_it_holds(window: Window, tmp_path: Path) -> None:
    path = tmp_path / "result.txt"
    path.write_bytes(Path(H200).read_bytes())
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    window.files.dropped(data)
    assert window.controller.state.bench == str(path) and says_saved(window)


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"a": 1}', b"\xff\xfe", b" " * (2 << 20)])
def test_what_is_neither_is_refused_with_what_is_expected(window: Window, tmp_path: Path, raw: bytes) -> None:
    said, state = [], window.controller.state
    window.controller.said.connect(said.append)
    path = tmp_path / "odd.json"
    path.write_bytes(raw)
    assert not window.files.open(path) and window.controller.state == state
    assert len(said) == 1 and said[0].startswith("odd.json is no session, no saved result of")


def test_a_cut_off_one_is_refused_and_what_was_shown_stays(window: Window, tmp_path: Path) -> None:
    assert window.files.open(Path(H200))
    view, said = window.controller.runs.view, []
    window.controller.said.connect(said.append)
    path = tmp_path / "cut.json"
    path.write_bytes(Path(H200).read_bytes()[:5000])
    assert not window.files.open(path)
    assert len(said) == 1 and said[0].startswith("cut.json is not valid JSON; it may be cut off")
    assert window.controller.runs.view is view
