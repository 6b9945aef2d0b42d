"""The ledger: true amounts in readable units, bars as long as the amounts, points under the right roofs."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPointF, QRect
from PySide6.QtWidgets import QApplication

from kernel.devices import DEVICES, EXAMPLE, find
from kernel.problem import Problem
from kernel.tiling import Tiling
from visualizer import theme
from visualizer.frame import Frame, LedgerView, RunView
from visualizer.panels.ledger import LedgerPanel, amount_forms, amount_text, amounts
from visualizer.panels.roofline import _crosses, attainable, roofline
from visualizer.presets import PRESETS
from visualizer.resolve import resolve
from visualizer.tape import Tape

SIZES = ((900, 600), (430, 235), (400, 206), (440, 480), (330, 206))


@pytest.fixture
def panel(qtbot) -> LedgerPanel:
    theme.load_fonts()
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    theme.apply(app, theme.DARK)
    panel = LedgerPanel(theme.DARK)
    qtbot.addWidget(panel)
    panel.resize(900, 600)
    panel.show()
    return panel


def view_at(problem: Problem, step: int, tflops: float | None = None, device: str | None = None) -> LedgerView:
    """A view by the tiling's own arithmetic; tflops is test data."""
    t = Tiling(problem)
    now, total, naive = t.traffic(step), t.traffic(len(t) - 1), t.naive_traffic()
    return LedgerView(
        read=now.read,
        written=now.written,
        flops=now.flops,
        total_read=total.read,
        total_written=total.written,
        total_flops=total.flops,
        naive_read=naive.read,
        naive_written=naive.written,
        naive_flops=naive.flops,
        intensity=total.flops / (total.read + total.written),
        naive_intensity=naive.flops / (naive.read + naive.written),
        tflops=tflops,
        device=device,
    )


def show(panel: LedgerPanel, view: LedgerView, problem: Problem | None = None) -> list[str]:
    panel.show_frame(Frame(problem=problem or Problem(), run=RunView(), ledger=view))
    return [item.text for item in panel.canvas.sheet.texts]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
@pytest.mark.parametrize("zoom", [1, 1.5])
def test_nothing_is_cut_or_overlaps(panel, qtbot, preset, zoom):
    panel.set_theme(theme.theme("light" if zoom > 1 else "dark", zoom))
    problem = preset.state.problem
    for (width, height), speed in product(SIZES, (None, 2.5, 452.0)):
        panel.resize(round(width * zoom), round(height * zoom))
        qtbot.wait(1)
        device = "NVIDIA H200" if speed else None
        texts = show(panel, view_at(problem, len(Tiling(problem)) // 2, speed, device), problem)
        sheet = panel.canvas.sheet
        assert sheet.elided == [] and any("TFLOP/s" in text for text in texts), "the roofline is always there"
        for item in sheet.texts:
            assert panel.canvas.rect().contains(item.rect), (item.text, width, height, speed)
        for one, other in combinations(sheet.texts, 2):
            assert not one.rect.intersects(other.rect), (one.text, other.text, width, height, speed)


def test_the_bars_are_as_long_as_the_amounts(panel):
    view = view_at(Problem(), 437)
    show(panel, view)
    bars = [s.rect for s in panel.canvas.sheet.shapes if not s.width and s.rect.left() == 0 and s.rect.width() > 12]
    width, expected = panel.canvas.width(), []
    for amount in amounts(view):
        longest = max(amount.total, amount.naive)
        expected += [width * amount.naive / longest, width * amount.total / longest, width * amount.done / longest]
    assert [bar.width() for bar in bars] == pytest.approx([x for x in expected if x > 12], abs=0.01)


def test_the_amounts_are_those_of_the_tape(panel):
    state = PRESETS[0].state
    tape = Tape(state.problem)
    for step in (0, 437, len(tape) - 1):
        panel.show_frame(resolve(state.change(step=step), tape, RunView()))
        traffic, total = tape.tiling.traffic(step), tape.tiling.traffic(len(tape) - 1)
        texts = [item.text for item in panel.canvas.sheet.texts]
        read = f"{amount_text(traffic.read, 'bytes')} of {amount_text(total.read, 'bytes')} · naive 8.75 MiB"
        assert read in texts
    assert panel.caption_label.text() == "6.16 × less traffic than naive"


def test_more_traffic_than_naive_is_not_called_less(panel):
    view = replace(view_at(Problem(), 5), naive_read=1, naive_written=1)
    show(panel, view)
    assert panel.caption_label.text() == ""


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (0, "bytes", "0 B"),
        (1023, "bytes", "1023 B"),
        (999, "bytes", "999 B"),
        (860160, "bytes", "840 KiB"),
        (2621440, "bytes", "2.50 MiB"),
        (537_000_000, "FLOP", "537 MFLOP"),
        (8190, "FLOP", "8.19 kFLOP"),
        (3, "FLOP", "3 FLOP"),
        (2**60, "FLOP", "1,153 PFLOP"),
    ],
)
def test_amounts_in_three_digits(value, kind, text):
    assert amount_text(value, kind) == text


@given(st.integers(0, 2**55), st.sampled_from(["bytes", "FLOP"]))
def test_an_amount_is_readable_and_within_half_a_percent(value, kind):
    number, unit = amount_text(value, kind).split()
    step = 1024 if kind == "bytes" else 1000
    power = "BKMGTP".index(unit[0]) if kind == "bytes" else ["F", "k", "M", "G", "T", "P"].index(unit[0])
    assert len(number.replace(",", "")) <= 5
    assert float(number.replace(",", "")) * step**power == pytest.approx(value, rel=0.0051)


def test_the_forms_of_an_amount_get_shorter():
    for amount in amounts(view_at(Problem(), 437)):
        lengths = [len(form) for form in amount_forms(amount)]
        assert all(a >= b for a, b in pairwise(lengths)) and lengths[0] > lengths[-1]


def test_known_devices_are_found_by_the_names_that_cuda_gives_them():
    names = ("NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA GeForce RTX 4090")
    assert [find(name) for name in names] == list(DEVICES)
    assert find("Tesla T4") is None and find(None) is None and find("") is None
    assert (EXAMPLE.name, EXAMPLE.tflops("bfloat16"), EXAMPLE.bandwidth) == ("H200 SXM", 989.0, 4.8)
    assert EXAMPLE.tflops("float32") == 67.0


def test_the_roofs_meet_at_the_ridge():
    ridge = 989.0 / 4.8
    assert attainable(EXAMPLE, "float16", ridge) == pytest.approx(989)
    assert attainable(EXAMPLE, "float16", ridge / 2) == pytest.approx(989 / 2)
    assert attainable(EXAMPLE, "float16", ridge * 9) == 989


@pytest.mark.parametrize(("device", "name"), [("NVIDIA H200", "H200 SXM:"), ("Tesla T4", "H200 SXM as an example:")])
def test_an_unknown_device_is_not_passed_off_as_a_known_one(panel, device, name):
    texts = show(panel, view_at(Problem(), 437, 30.0, device))
    assert any(text.startswith(name) and "989 TFLOP/s dense 16-bit, 4.8 TB/s" in text for text in texts)


def test_the_roofline_names_its_points(panel):
    view = view_at(Problem(), 437, 452.0, "NVIDIA H200")
    texts = show(panel, view)
    assert {"naive 30.1", "this kernel 104", "measured 452 TFLOP/s", "FLOP per byte"} <= set(texts)
    assert not any("measured" in text for text in show(panel, view_at(Problem(), 437)))
    assert any("67 TFLOP/s float32" in text for text in show(panel, view, Problem(dtype="float32")))


def test_points_stand_on_the_roof_and_the_measured_one_where_it_was_measured(panel):
    view = view_at(Problem(), 437, 200.0, "NVIDIA H200")
    sheet = roofline(QRect(0, 0, 600, 400), view, "float16", theme.DARK)
    roof = next(s for s in sheet.shapes if s.width == 2)
    boxes = [s.rect.center() for s in sheet.shapes if not s.width]
    naive, _, ours, _, measured = boxes  # where nothing was measured, hollow: a box in a box
    (x0, y0), (x1, y1) = ((p.x(), p.y()) for p in roof.points[:2])
    for point in (naive, ours):
        assert point.y() == pytest.approx(y0 + (point.x() - x0) * (y1 - y0) / (x1 - x0), abs=0.01)
    assert measured.x() == pytest.approx(ours.x()) and measured.y() > ours.y()


@given(*[st.integers(-20, 40)] * 4)
def test_whether_a_line_goes_through_a_place(x0, y0, x1, y1):
    place = QRect(0, 0, 20, 10)
    on_the_way = [(x0 + (x1 - x0) * n / 500, y0 + (y1 - y0) * n / 500) for n in range(501)]
    found = _crosses(place, QPointF(x0, y0), QPointF(x1, y1))
    if any(0 <= x <= 20 and 0 <= y <= 10 for x, y in on_the_way):
        assert found
    elif not any(-0.2 <= x <= 20.2 and -0.2 <= y <= 10.2 for x, y in on_the_way):
        assert not found


def test_the_roofline_is_laid_out_once_for_a_run(panel, monkeypatch):
    import visualizer.panels.ledger as ledger

    show(panel, view_at(Problem(), 437))
    monkeypatch.setattr(ledger, "roofline", lambda *_: pytest.fail("laid out again"))
    show(panel, view_at(Problem(), 438))
    with pytest.raises(pytest.fail.Exception):
        show(panel, view_at(Problem(), 438, 452.0, "NVIDIA H200"))


def test_an_empty_problem_says_so(panel):
    panel.show_frame(Frame(problem=Problem(seqlen_q=0), run=RunView(), empty="seqlen_q is 0: no program runs."))
    assert panel._nothing.text() == "seqlen_q is 0: no program runs."


def test_keys_of_nothing(panel):
    problem = Problem(seqlen_k=0)
    tape = Tape(problem)
    panel.show_frame(resolve(PRESETS[0].state.change(seqlen_k=0, step=0), tape, RunView()))
    assert any(text.text.startswith("0 FLOP of 0 FLOP") for text in panel.canvas.sheet.texts)
