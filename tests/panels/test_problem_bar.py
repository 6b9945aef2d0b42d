"""The problem bar: what is typed shows at once or is refused beside its field, and nothing is asked twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QApplication, QLabel, QVBoxLayout, QWidget

from kernel.problem import DTYPES, Problem
from visualizer import theme
from visualizer.frame import RunView
from visualizer.panels.number_field import number, text_of
from visualizer.panels.problem_bar import FIELDS, ProblemBar
from visualizer.presets import PRESETS


class Host(QWidget):
    """A window with the bar at its top, and what it asked for; like the controller, it shows what was asked."""

    def __init__(self, width: int, look: theme.Theme) -> None:
        super().__init__()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        self.bar = ProblemBar(look)
        layout.addWidget(self.bar)
        layout.addStretch(1)
        self.asked: list[dict] = []
        self.bar.problem_changed.connect(self.answer)
        self.resize(width, 400)

    def answer(self, fields: dict) -> None:
        self.asked.append(fields)
        self.bar.show_problem(self.bar.problem.change(**fields))

    def type(self, qtbot, name: str, text: str) -> None:
        edit = self.bar.edits[name]
        edit.setFocus()
        edit.selectAll()
        if text:
            qtbot.keyClicks(edit, text)
        else:
            qtbot.keyClick(edit, Qt.Key.Key_Delete)


@pytest.fixture
def host(qtbot) -> Host:
    theme.load_fonts()
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    theme.apply(app, theme.DARK)
    host = Host(1280, theme.DARK)
    qtbot.addWidget(host)
    host.show()
    qtbot.waitExposed(host)
    return host


def test_a_legal_number_is_asked_for_at_once_and_with_nothing_else(host, qtbot):
    host.type(qtbot, "head_dim", "48")
    assert host.asked == [{"head_dim": 4}, {"head_dim": 48}]
    assert host.bar.problem == Problem(head_dim=48) and not host.bar.refused


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("seqlen_q", "1000000000", "seqlen_q is 1,000,000,000; it must be from 0 to 1,048,576."),
        ("seqlen_q", "-1", "seqlen_q is -1; it must be from 0 to 1,048,576."),
        ("seqlen_k", "many", "seqlen_k is 'many'; it must be a whole number from 0 to 1,048,576."),
        ("head_dim", "257", "head_dim is 257; it must be from 1 to 256."),
        ("kv_heads", "5", "8 query heads cannot share 5 key heads; kv_heads must divide heads (1, 2, 4, 8)."),
        ("block_m", "48", "block_m is 48; it must be a power of two: 16, 32, 64, 128 or 256."),
        ("sm_scale", "nan", "sm_scale is nan; it must be a finite number."),
        ("sm_scale", "half", "sm_scale is 'half'; it must be a finite number."),
        ("batch", "", "batch is ''; it must be a whole number from 0 to 1,048,576."),
    ],
)
def test_what_cannot_be_stays_in_its_field_with_the_reason_below(host, qtbot, name, text, says):
    host.bar.show_problem(Problem(heads=8, kv_heads=8))
    edit = host.bar.edits[name]
    edit.setText(text)
    edit.textEdited.emit(text)
    assert host.asked == [] and host.bar.problem == Problem(heads=8, kv_heads=8)
    assert edit.text() == text and edit.property("wrong") is True
    bubble = host.bar.bubble
    assert bubble.isVisible() and bubble.text().replace("\n", " ") == says == edit.accessibleDescription()
    top = edit.mapTo(host, QPoint(0, edit.height())).y()
    assert bubble.geometry().top() >= top and host.rect().contains(bubble.geometry())
    host.bar.show_problem(Problem(heads=8, kv_heads=8))
    assert number(name, edit.text()) == getattr(host.bar.problem, name), "a problem from elsewhere is shown as it is"
    assert not host.bar.refused and bubble.isHidden()


def test_a_correction_clears_the_reason(host, qtbot):
    host.type(qtbot, "block_n", "48")
    assert host.bar.bubble.isVisible()
    host.type(qtbot, "block_n", "32")
    assert host.asked == [{"block_n": 32}] and not host.bar.bubble.isVisible()
    assert host.bar.edits["block_n"].property("wrong") is False


def test_escape_brings_back_what_holds(host, qtbot):
    host.type(qtbot, "seqlen_q", "many")
    qtbot.keyClick(host.bar.edits["seqlen_q"], Qt.Key.Key_Escape)
    assert host.bar.edits["seqlen_q"].text() == "1024" and not host.bar.bubble.isVisible() and host.asked == []


def test_escape_brings_back_the_seed_in_the_sheet_of_the_inputs(host, qtbot):
    edit = host.bar.popup.texts["seed"]
    edit.setText("-3")
    edit.textEdited.emit("-3")
    qtbot.keyClick(edit, Qt.Key.Key_Escape)
    assert edit.text() == "20" and edit.property("wrong") is False and not host.bar.refused and host.asked == []


def test_what_waits_stays_in_its_field_while_another_one_is_typed_in(host, qtbot):
    host.type(qtbot, "block_n", "48")
    host.type(qtbot, "head_dim", "32")
    assert host.bar.edits["block_n"].text() == "48" and list(host.bar.refused) == ["block_n"]
    assert host.bar.bubble.isHidden(), "the reason goes with the focus"
    host.bar.edits["block_n"].setFocus()
    assert host.bar.bubble.isVisible(), "and comes back with it"


def test_what_was_refused_is_tried_again_with_the_next_change(host, qtbot):
    host.bar.show_problem(Problem(heads=8, kv_heads=8))
    host.type(qtbot, "kv_heads", "5")
    edit = host.bar.edits["heads"]
    edit.setText("10")
    edit.textEdited.emit("10")
    assert host.asked == [{"heads": 10, "kv_heads": 5}] and not host.bar.refused


def test_kv_heads_and_seqlen_k_follow_while_they_are_equal(host, qtbot):
    host.type(qtbot, "heads", "16")
    assert host.asked == [{"heads": 1, "kv_heads": 1}, {"heads": 16, "kv_heads": 16}]
    host.type(qtbot, "seqlen_q", "30")
    assert host.bar.problem == Problem(heads=16, kv_heads=16, seqlen_q=30, seqlen_k=30)
    assert host.bar.edits["seqlen_k"].text() == "30"


def test_what_was_set_apart_stays_apart_also_when_it_is_equal_on_the_way(host, qtbot):
    host.bar.show_problem(Problem(heads=8, kv_heads=1, seqlen_q=300, seqlen_k=128))
    host.type(qtbot, "heads", "16")
    assert host.asked == [{"heads": 1}, {"heads": 16}]
    host.type(qtbot, "seqlen_q", "1280")
    assert host.bar.problem == Problem(heads=16, kv_heads=1, seqlen_q=1280, seqlen_k=128)


@pytest.mark.parametrize(
    ("text", "value"), [("-0.5", -0.5), ("0", 0.0), ("auto", None), ("", None), ("AUTO", None), ("1e-3", 1e-3)]
)
def test_any_sign_of_the_scale_and_none_are_legal(host, qtbot, text, value):
    host.bar.show_problem(Problem(sm_scale=0.25))
    host.type(qtbot, "sm_scale", text)
    assert host.bar.problem.sm_scale == value and not host.bar.refused
    assert host.bar.edits["sm_scale"].text() == text, "the person's own spelling stays"


def test_every_other_control_asks_for_its_field(host, qtbot):
    qtbot.mouseClick(host.bar.causal, Qt.MouseButton.LeftButton)
    host.bar.dtype.setCurrentText("bfloat16")
    host.bar.dtype.textActivated.emit("bfloat16")
    host.bar.popup.choices["spiky"].click()
    host.bar.popup.texts["seed"].setText("7")
    host.bar.popup.texts["seed"].textEdited.emit("7")
    host.bar.popup.texts["std"].textEdited.emit("0.25")
    assert host.asked == [
        {"causal": False},
        {"dtype": "bfloat16"},
        {"distribution": "spiky"},
        {"seed": 7},
        {"std": 0.25},
    ]
    assert host.bar.inputs.text().startswith("spiky · 7")


def test_a_wrong_seed_is_refused_in_the_sheet_of_the_inputs(host, qtbot):
    popup = host.bar.popup
    popup.open_below(host.bar.inputs)
    popup.texts["seed"].setText("-3")
    popup.texts["seed"].textEdited.emit("-3")
    assert host.asked == [] and popup.reason.isVisible() and popup.reason.text().startswith("seed is -3")
    assert popup.texts["seed"].property("wrong") is True and not host.bar.bubble.isVisible()
    popup.texts["seed"].setText("3")
    popup.texts["seed"].textEdited.emit("3")
    assert host.asked == [{"seed": 3}] and not popup.reason.isVisible()
    popup.close()


def test_a_file_brings_its_shapes_and_one_that_is_none_its_reason(host, tmp_path):
    good, bad = tmp_path / "heads.npz", tmp_path / "no.npz"
    q = np.zeros((1, 4, 96, 32), np.float32)
    np.savez(good, q=q, k=q[:, :2, :64], v=q[:, :2, :64])
    bad.write_bytes(b"not a zip file")
    host.bar.open_inputs(str(bad))
    assert host.asked == [] and host.bar.refused["inputs"].startswith("no.npz is not") and host.bar.bubble.isVisible()
    host.bar.open_inputs(str(good))
    assert host.asked[-1]["inputs"] == str(good)
    assert (host.bar.problem.heads, host.bar.problem.kv_heads, host.bar.problem.seqlen_k) == (4, 2, 64)
    assert host.bar.edits["seqlen_q"].text() == "96" and host.bar.inputs.text() == "heads.npz ▾"
    assert not host.bar.refused and not host.bar.bubble.isVisible()
    host.bar.popup.drawn_button.click()
    assert host.asked[-1] == {"inputs": None}


def test_what_the_window_refuses_is_marked_where_it_was_typed(host, qtbot):
    """The tape finds out that the file does not fit, while the problem itself is legal."""
    host.bar.problem_changed.disconnect(host.answer)
    host.bar.problem_changed.connect(
        lambda fields: host.bar.refuse("inputs", f"The file does not fit {sorted(fields)}.")
    )
    host.type(qtbot, "head_dim", "9")
    assert host.bar.refused == {"head_dim": "The file does not fit ['head_dim']."}
    assert host.bar.edits["head_dim"].text() == "9" and host.bar.bubble.isVisible()
    qtbot.keyClick(host.bar.edits["head_dim"], Qt.Key.Key_Escape)
    assert host.bar.edits["head_dim"].text() == "64" and not host.bar.refused
    qtbot.mouseClick(host.bar.causal, Qt.MouseButton.LeftButton)
    assert host.bar.causal.isChecked() and list(host.bar.refused) == ["causal"], "a choice goes back to what holds"
    host.bar.problem_changed.disconnect()
    host.bar.problem_changed.connect(host.answer)
    host.type(qtbot, "head_dim", "8")
    assert not host.bar.refused and host.asked == [{"head_dim": 8}]


def test_the_presets_are_offered_with_their_reasons(host):
    chosen: list[object] = []
    host.bar.preset_chosen.connect(chosen.append)
    actions = host.bar.presets.menu().actions()
    assert [(a.text(), a.toolTip()) for a in actions] == [(p.name, p.why) for p in PRESETS]
    actions[2].trigger()
    assert chosen == [PRESETS[2].state]


def test_run_becomes_cancel_while_it_runs(host, qtbot):
    asked: list[str] = []
    host.bar.run_requested.connect(lambda: asked.append("run"))
    host.bar.cancel_requested.connect(lambda: asked.append("cancel"))
    qtbot.mouseClick(host.bar.run_button, Qt.MouseButton.LeftButton)
    host.bar.show_run(RunView(phase="running", worker="running", device="NVIDIA H200 · Triton 3.6.0"))
    assert host.bar.run_button.text().endswith("Cancel") and host.bar.run_button.objectName() != "primary"
    qtbot.mouseClick(host.bar.run_button, Qt.MouseButton.LeftButton)
    assert asked == ["run", "cancel"]
    assert (host.bar.device_label.text(), host.bar.worker_label.text()) == ("NVIDIA H200 · Triton 3.6.0", "running")


def test_the_run_button_stays_in_its_place(host):
    places = set()
    for worker, device in (
        ("", ""),
        ("worker starting", ""),
        ("worker ready", "AMD EPYC"),
        ("running", "NVIDIA H200 · Triton 3.6.0"),
        ("torch is not installed, so the kernel cannot run here.", "Intel Xeon Platinum 8481C: interpreted on CPU"),
    ):
        for phase in ("none", "running"):
            host.bar.show_run(RunView(phase=phase, worker=worker, device=device))
            places.add(host.bar.run_button.geometry().getRect())
    assert len(places) == 1


def test_a_long_worker_text_is_cut_and_whole_when_hovered(host):
    reason = "torch is not installed, and there is no Triton for Darwin arm64, so the kernel cannot run here."
    host.bar.show_run(RunView(worker=reason))
    assert host.bar.worker_label.text().endswith("…") and reason in host.bar.worker_label.parentWidget().toolTip()


def test_up_and_down_go_to_the_next_natural_number(host, qtbot):
    for name, key in (("block_m", "Up"), ("block_n", "Down"), ("seqlen_q", "Down"), ("head_dim", "Up")):
        qtbot.keyClick(host.bar.edits[name], getattr(Qt.Key, f"Key_{key}"))
    p = host.bar.problem
    assert (p.block_m, p.block_n, p.seqlen_q, p.seqlen_k, p.head_dim) == (256, 32, 768, 768, 80)


def test_undo_elsewhere_brings_the_fields_back_and_asks_nothing(host, qtbot):
    host.type(qtbot, "head_dim", "99")
    host.bar.show_problem(Problem())
    assert host.bar.edits["head_dim"].text() == "64" and host.asked == [{"head_dim": 9}, {"head_dim": 99}]


def shown_rects(bar: ProblemBar) -> dict[str, QRect]:
    """Every visible label and control, in the bar's coordinates."""
    found = {}
    for widget in bar.findChildren(QWidget):
        if widget.isVisible() and widget.window() is bar.window() and not widget.findChildren(QWidget):
            if widget is bar.bubble or (isinstance(widget, QLabel) and not widget.text()):
                continue
            found[f"{type(widget).__name__} {widget.accessibleName() or getattr(widget, 'text', str)()}"] = QRect(
                widget.mapTo(bar, QPoint(0, 0)), widget.size()
            )
    return found


@pytest.mark.parametrize("name", ["dark", "light"])
@pytest.mark.parametrize(
    ("width", "zoom", "rows"), [(1280, 1, 1), (1440, 1, 1), (1920, 1.5, 1), (1280, 1.5, 2), (900, 1, 2)]
)
def test_everything_fits_without_overlap(host, qtbot, name, width, zoom, rows):
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    look = theme.theme(name, zoom)
    theme.apply(app, look)
    host.bar.set_theme(look)
    host.bar.show_run(RunView(worker="worker ready", device="NVIDIA H200 · Triton 3.6.0"))
    host.resize(width, 500)
    qtbot.wait(1)
    rects = shown_rects(host.bar)
    assert len(rects) >= 2 * len(FIELDS) + 6
    for text, rect in rects.items():
        assert host.bar.rect().contains(rect), text
        for other, area in rects.items():
            assert text == other or not rect.intersects(area), (text, other)
    tops = {edit.mapTo(host.bar, QPoint(0, 0)).y() for edit in host.bar.edits.values()}
    assert len(tops) == rows
    on_row = [[n for n, e in host.bar.edits.items() if e.mapTo(host.bar, QPoint(0, 0)).y() == top] for top in tops]
    assert min(map(len, on_row)) >= 3, "no control is alone on its row"
    for label in host.bar.findChildren(QLabel):
        if label.isVisible() and label is not host.bar.bubble:
            assert QFontMetrics(label.font()).horizontalAdvance(label.text()) <= label.width(), label.text()
    theme.apply(app, theme.DARK)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_every_preset_stands_whole_in_its_fields(host, preset):
    host.bar.show_problem(preset.state.problem)
    for name, edit in host.bar.edits.items():
        assert number(name, edit.text()) == getattr(preset.state.problem, name)
        metrics = QFontMetrics(edit.font())
        assert metrics.horizontalAdvance(edit.text()) <= edit.width() - theme.DARK.px(12), name
    assert host.asked == []


def test_tab_goes_from_left_to_right_and_every_control_has_a_name(host, qtbot):
    host.activateWindow()
    host.bar.presets.setFocus()
    left = []
    for _ in range(len(FIELDS) + 4):
        widget = QApplication.focusWidget()
        assert widget is not None and widget.accessibleName(), widget
        left.append(widget.mapTo(host, QPoint(0, 0)).toTuple())
        host.focusNextChild()
    assert left == sorted(left) and len(set(left)) == len(left)
    named = {label.text(): label.buddy() for label in host.bar.findChildren(QLabel) if label.buddy()}
    assert set(named) >= {label for _, label, _, _ in FIELDS} | {"inputs"}


PROBLEMS = st.builds(
    lambda heads, **values: Problem(heads=heads, kv_heads=heads, **values),
    heads=st.integers(1, 64),
    batch=st.integers(0, 8),
    seqlen_q=st.integers(0, 4096),
    seqlen_k=st.integers(0, 4096),
    head_dim=st.integers(1, 256),
    dtype=st.sampled_from(DTYPES),
    causal=st.booleans(),
    sm_scale=st.none() | st.floats(-1e26, 1e26).filter(lambda x: x == 0 or abs(x) > 1e-30),
    block_m=st.sampled_from((16, 32, 64, 128, 256)),
    seed=st.integers(0, 2**40),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PROBLEMS)
def test_any_problem_is_shown_exactly_and_asks_nothing(host, problem):
    host.bar.show_problem(problem)
    for name, edit in host.bar.edits.items():
        assert number(name, edit.text()) == getattr(problem, name)
    assert host.bar.causal.isChecked() is problem.causal and host.bar.dtype.currentText() == problem.dtype
    assert host.asked == [] and not host.bar.refused


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_number_means_that_number(x):
    assert number("sm_scale", text_of(x)) == x


@pytest.mark.parametrize("text", ["1,024", "1 024", " 1024 "])
def test_separators_are_read(text):
    assert number("seqlen_q", text) == 1024


def test_the_same_frame_again_is_free(host, monkeypatch):
    monkeypatch.setattr(host.bar, "_write", lambda problem: pytest.fail("written again"))
    host.bar.show_problem(host.bar.problem)
    with pytest.raises(pytest.fail.Exception):
        host.bar.show_problem(replace(host.bar.problem, seed=1))


def test_the_hopper_kernel_brings_its_blocks_and_refuses_in_words(host, qtbot):
    bar = host.bar
    qtbot.mouseClick(bar.hopper, Qt.MouseButton.LeftButton)
    assert host.asked[-1] == {"backend": "hopper", "block_m": 64}
    assert bar.edits["block_m"].text() == "64"
    assert not bar.edits["block_m"].isEnabled()
    host.type(qtbot, "head_dim", "256")
    assert bar.problem.head_dim == 256
    host.type(qtbot, "sm_scale", "-0.5")
    assert "positive scales" in bar.refused["sm_scale"]
    host.type(qtbot, "sm_scale", "0.5")
    qtbot.mouseClick(bar.hopper, Qt.MouseButton.LeftButton)
    assert bar.problem.backend == "triton"
    assert bar.edits["block_m"].isEnabled()
    host.type(qtbot, "sm_scale", "-0.5")
    qtbot.mouseClick(bar.hopper, Qt.MouseButton.LeftButton)
    assert not bar.hopper.isChecked()
    assert "positive scales" in bar.refused["backend"]
