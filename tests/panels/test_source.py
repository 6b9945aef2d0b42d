"""The source panel: the kernel's own text, whole, with the right lines marked and values that cover no code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QHelpEvent

from kernel.source import kernel_source
from kernel.tiling import STEPS
from visualizer import theme
from visualizer.frame import QUANTITIES, Frame, RunView, SourceView
from visualizer.panels.code import QUANTITY_NAMES, contrast, rows_of, spans
from visualizer.panels.source import SourcePanel
from visualizer.presets import PRESETS
from visualizer.resolve import resolve
from visualizer.state import OPENING
from visualizer.steps import SENTENCES
from visualizer.tape import Tape

SOURCE = kernel_source()
SIZES = ((900, 600), (925, 220), (440, 480), (430, 235))


@pytest.fixture
def panel(qtbot) -> SourcePanel:
    theme.load_fonts()
    panel = SourcePanel(theme.DARK)
    qtbot.addWidget(panel)
    panel.resize(900, 600)
    panel.show()
    return panel


def frame_of(step: str, note: str = "l[17] = 46.82") -> Frame:
    view = SourceView(source=SOURCE, step=step, lines=SOURCE.step_lines[step], note=note, quantity=SENTENCES[step][0])
    return Frame(problem=OPENING.problem, run=RunView(), source=view)


def shown_lines(panel: SourcePanel) -> list[str]:
    """The source lines put together again from the rows."""
    lines: dict[int, str] = {}
    for row in panel.text.rows:
        if not row.text and not row.first:
            continue  # the note's own
        text = row.text if row.first else row.text.lstrip()
        whole = lines.get(row.line, "")
        lines[row.line] = whole + " " + text if whole and not whole.endswith(" ") and not row.first else whole + text
    return list(lines.values())


@pytest.mark.parametrize("size", SIZES)
def test_every_line_of_the_file_is_shown_whole(panel, size):
    panel.resize(*size)
    panel.show_frame(frame_of("load_k"))
    text = Path(__file__).parents[2].joinpath(SOURCE.path).read_text(encoding="utf-8").splitlines()
    assert shown_lines(panel) == text[SOURCE.first_line - 1 :]
    assert max(len(row.text) for row in panel.text.rows) <= panel.text.columns
    assert panel.text.text_left(panel.text.columns) <= panel.text.viewport().width()


@given(
    st.lists(
        st.text(st.characters(codec="ascii", exclude_characters="\n\r", categories=("L", "P", "Zs")), max_size=90)
    ),
    st.integers(20, 60),
)
def test_cutting_a_line_loses_nothing_and_fits(lines, columns):
    rows = rows_of(tuple(lines), 1, columns)
    assert all(len(row.text) <= columns for row in rows)
    assert [row.line for row in rows if row.first] == list(range(1, len(lines) + 1))
    for number, line in enumerate(lines, 1):
        joined = "".join(row.text for row in rows if row.line == number)
        assert joined.replace(" ", "") == line.replace(" ", "")


@pytest.mark.parametrize("size", SIZES)
def test_the_lines_of_the_step_are_marked_and_in_sight(panel, size):
    panel.resize(*size)
    for step in STEPS:
        panel.show_frame(frame_of(step))
        rows = [panel.text.rows[at] for at in panel.text.marked]
        assert {row.line for row in rows} == set(SOURCE.step_lines[step])
        assert panel.text.note_at is not None
        seen = panel.text.viewport().rect()
        assert seen.contains(panel.text.row_rect(panel.text.note_at[0])), step
        in_sight = [at for at in panel.text.marked if seen.contains(panel.text.row_rect(at))]
        assert len(in_sight) == min(len(panel.text.marked), panel.text.rows_in_sight), step


@pytest.mark.parametrize("size", SIZES)
def test_the_note_covers_no_code_or_goes_to_the_caption(panel, size):
    panel.resize(*size)
    note = "m_new[17] = 4.387   moved in 38 of 128 rows"
    for step in STEPS:
        panel.show_frame(frame_of(step, note))
        if panel.text.note_at is None:
            assert note in panel.caption_label.text()
            continue
        row, column = panel.text.note_at
        assert column >= len(panel.text.rows[row].text) + 2
        assert column + len(note) <= panel.text.columns
        assert panel.text.marked[0] <= row <= panel.text.marked[-1] + 1
        assert panel.caption_label.text() == SOURCE.path


@pytest.mark.parametrize("size", SIZES[:2])
def test_the_note_stands_beside_what_writes_the_value(panel, size):
    panel.resize(*size)
    for step, text in (("accumulate", "acc = tl.dot("), ("exponentiate", "p = tl.exp2(s *"), ("row_max", "m_new = ")):
        panel.show_frame(frame_of(step, "x = 1"))
        assert panel.text.note_at is not None
        assert panel.text.rows[panel.text.note_at[0]].text.strip().startswith(text)
        rect = panel.text.row_rect(panel.text.note_at[0])
        assert rect.top() >= 0 and rect.bottom() < panel.text.viewport().height()


def test_of_a_step_in_several_places_the_first_that_writes_is_shown(panel):
    hopper = kernel_source("hopper")
    panel.resize(900, 220)
    for step in ("accumulate", "scores", "row_max", "store"):
        view = SourceView(
            source=hopper, step=step, lines=hopper.step_lines[step], note="x = 1", quantity=SENTENCES[step][0]
        )
        panel.show_frame(Frame(problem=OPENING.problem, run=RunView(), source=view))
        assert panel.text.note_at is not None
        row = panel.text.note_at[0]
        rect = panel.text.row_rect(row)
        assert rect.top() >= 0 and rect.bottom() < panel.text.viewport().height(), step
        first = next(at for at in panel.text.marked if panel.text.rows[at].line == hopper.step_lines[step][0])
        assert row - first <= len(panel.text.marked), step
    assert panel.text.rows[panel.text.note_at[0]].text.strip().startswith("lse = ")


def test_it_does_not_scroll_while_the_lines_are_in_sight(panel, qtbot):
    panel.resize(900, 600)
    panel.show_frame(frame_of("scores"))
    before = panel.text.verticalScrollBar().value()
    panel.show_frame(frame_of("row_max"))
    assert panel.text.verticalScrollBar().value() == before
    panel.show_frame(frame_of("store"))
    assert panel.text.verticalScrollBar().value() != before


def test_a_click_on_a_line_names_its_step_and_one_elsewhere_nothing(panel, qtbot):
    panel.show_frame(frame_of("scores"))
    clicked: list[str] = []
    panel.line_clicked.connect(clicked.append)
    for step in ("row_max", "alpha"):
        at = next(n for n, row in enumerate(panel.text.rows) if row.line == SOURCE.step_lines[step][0])
        point = panel.text.row_rect(at).center()
        qtbot.mouseClick(panel.text.viewport(), Qt.MouseButton.LeftButton, pos=point)
    blank = next(n for n, row in enumerate(panel.text.rows) if not row.text and 0 < panel.text.row_rect(n).top() < 300)
    qtbot.mouseClick(panel.text.viewport(), Qt.MouseButton.LeftButton, pos=panel.text.row_rect(blank).center())
    assert clicked == ["row_max", "alpha"]


def test_hovering_says_the_step(panel, qtbot):
    panel.show_frame(frame_of("scores"))
    at = panel.text.marked[0]
    point = panel.text.row_rect(at).center()
    qtbot.mouseMove(panel.text.viewport(), point)
    assert panel.text.viewport().cursor().shape() == Qt.CursorShape.PointingHandCursor
    from PySide6.QtWidgets import QApplication, QToolTip

    QApplication.sendEvent(
        panel.text.viewport(), QHelpEvent(QHelpEvent.Type.ToolTip, point, panel.text.viewport().mapToGlobal(point))
    )
    assert QToolTip.text().startswith("scores: s = q·kᵀ")
    QToolTip.hideText()


def test_keys_choose_a_step_and_enter_goes_there(panel, qtbot):
    panel.show_frame(frame_of("scores"))
    clicked: list[str] = []
    panel.line_clicked.connect(clicked.append)
    panel.text.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.keyClick(panel.text, Qt.Key.Key_Return)
    qtbot.keyClick(panel.text, Qt.Key.Key_Down)
    qtbot.keyClick(panel.text, Qt.Key.Key_Down)
    qtbot.keyClick(panel.text, Qt.Key.Key_Return)
    qtbot.keyClick(panel.text, Qt.Key.Key_Up)
    qtbot.keyClick(panel.text, Qt.Key.Key_Return)
    assert clicked == ["scores", "row_max", "mask"]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_every_step_of_a_program_is_shown(panel, preset):
    tape = Tape(preset.state.problem)
    for index in range(min(len(tape), 40)):
        frame = resolve(preset.state.change(step=index), tape, RunView())
        panel.show_frame(frame)
        assert panel.text.view is frame.source
        assert panel.text.marked


def test_quantities_keywords_and_comments_have_their_colours(panel):
    found = spans(SOURCE.lines)
    words = {(SOURCE.lines[at][span.start : span.end], span.kind) for at, line in enumerate(found) for span in line}
    assert {name for name, _ in words} >= QUANTITY_NAMES - {"lse"}
    assert ("m_new", "m") in words and ("for", "keyword") in words and ("alpha", "alpha") in words
    assert any(kind == "comment" and text.startswith("# load_k:") for text, kind in words)
    assert not any(kind == "k" and text != "k" for text, kind in words)


@pytest.mark.parametrize("look", [theme.DARK, theme.LIGHT], ids=["dark", "light"])
@pytest.mark.parametrize("step", STEPS)
def test_words_read_well_on_the_marked_ground(panel, look, step):
    panel.set_theme(look)
    panel.show_frame(frame_of(step))
    ground = panel.text.tint()
    assert contrast(QColor(look.text), ground) >= 7
    for name in (*QUANTITIES, SENTENCES[step][0]):
        assert contrast(look.word(name), ground) >= 4.5, name
    assert ground != QColor(look.panel)


def test_contrast_is_the_one_of_the_guidelines():
    assert contrast(QColor("#000"), QColor("#fff")) == pytest.approx(21)
    assert contrast(QColor("#767676"), QColor("#fff")) == pytest.approx(4.54, abs=0.01)


def test_another_zoom_lays_out_anew(panel):
    panel.show_frame(frame_of("scores"))
    before = panel.text.columns
    panel.set_theme(replace(theme.DARK, zoom=1.5))
    assert panel.text.columns < before
    assert max(len(row.text) for row in panel.text.rows) <= panel.text.columns
    assert panel.text.row_rect(1).height() > 20


def test_an_empty_problem_says_so(panel):
    panel.show_frame(Frame(problem=OPENING.problem, run=RunView(), empty="seqlen_q is 0: no program runs."))
    assert panel._nothing.isVisible() and panel._nothing.text() == "seqlen_q is 0: no program runs."


def test_points_outside_the_text_belong_to_no_step(panel):
    panel.show_frame(frame_of("scores"))
    assert panel.text.row_at(10**6) is None and panel.text.step_at(None) == ""
    assert panel.text.row_at(QPoint(0, 0).y()) == panel.text.verticalScrollBar().value()


# what stands on the line beside which the values of a step are shown, in the portable kernel and in Hopper's
TARGETS = {
    "load_q": ("q = load_tile(q_ptr", "_load(desc_q"),
    "load_k": ("k = load_keys(keys", "_load(desc_k"),
    "scores": ("scores += (tl.dot(", "s = _scores("),
    "mask": ("s = tl.where(", "s = keep(s"),
    "row_max": ("m_new = tl.maximum(", "m_new = gl."),
    "alpha": ("alpha = tl.exp2(", "alpha = gl.exp2("),
    "exponentiate": ("p = tl.exp2(", "p = gl.exp2("),
    "denominator": ("l = l * alpha", "l = l * gl.convert_layout(alpha"),
    "rescale": ("acc = acc * alpha", "acc = acc * gl.convert_layout(alpha"),
    "load_v": ("v = load_keys(values", "_load(desc_v"),
    "accumulate": ("acc = tl.dot(", "acc = warpgroup_mma"),
    "normalise": ("o = acc * (1.0 / l)", "out = acc.to("),
    "store": ("tl.store(lse_ptr", "lse = "),
}


@pytest.mark.parametrize("backend", ["triton", "hopper"])
@pytest.mark.parametrize("size", [(900, 600), (845, 205), (480, 480)])
def test_the_note_stands_at_the_marked_line_that_writes_the_values(panel, size, backend):
    source = kernel_source(backend)
    panel.resize(*size)
    known = {"CAUSAL": True, "SIGN": 1, "CAREFUL": False, "PARTIAL": True, "rest_ptr": None, "LAZY": False}
    for step in STEPS:
        lines, note = source.lines_run(step, known), "acc[17, 0] = 4.387"
        view = SourceView(source=source, step=step, lines=lines, note=note, quantity=SENTENCES[step][0])
        panel.show_frame(Frame(problem=OPENING.problem, run=RunView(), source=view))
        text = panel.text
        assert text.note_at is not None
        at, column = text.note_at
        assert at in text.marked and column + len(note) < text.columns
        line = text.rows[at].line
        words = source.lines[line - source.first_line].strip()
        assert words.startswith(TARGETS[step][backend == "hopper"]), step
        last = max(n for n, row in enumerate(text.rows) if row.line == line)
        assert at == last
        code = text.rows[at].text or text.rows[at - 1].text
        if text.rows[at].text:
            assert column == len(code) + 3
        else:  # under the code, since beside it there is no room
            assert text.rows[at - 1].line == line and len(code) + 3 + len(note) + 1 > text.columns


def test_a_row_of_the_notes_own_goes_with_the_note(panel):
    panel.show_frame(frame_of("load_k"))
    plain = [row for row in panel.text.rows if row.text or row.first]
    assert len(panel.text.rows) == len(plain) + 1
    panel.show_frame(frame_of("rescale"))
    assert panel.text.rows == plain
    assert panel.text.verticalScrollBar().maximum() == len(plain) - panel.text.rows_in_sight
