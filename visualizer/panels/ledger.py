"""The ledger: bytes and FLOPs so far against the whole run and the naive algorithm, and where that puts the kernel."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from PySide6.QtCore import QPointF, QRect, QRectF, QSize
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QVBoxLayout, QWidget

from visualizer.frame import Frame, LedgerView
from visualizer.numbers import three
from visualizer.panels.canvas import RIGHT, Canvas, Sheet
from visualizer.panels.panel import Panel
from visualizer.panels.roofline import roofline
from visualizer.theme import Theme

WHY = (
    "Naive attention writes s and p, seqlen × seqlen numbers per head, to memory and reads them back. "
    "This kernel keeps them on the chip, and reads k and v once for each block of rows."
)


class Amount(NamedTuple):
    """One bar: done so far, in the whole run, and by the naive algorithm; kind is "bytes" or "FLOP"."""

    name: str
    done: int
    total: int
    naive: int
    kind: str


def amounts(view: LedgerView) -> tuple[Amount, ...]:
    return (
        Amount("read", view.read, view.total_read, view.naive_read, "bytes"),
        Amount("written", view.written, view.total_written, view.naive_written, "bytes"),
        Amount("computed", view.flops, view.total_flops, view.naive_flops, "FLOP"),
    )


def amount_text(value: int, kind: str) -> str:
    """A number of bytes (in steps of 1,024) or FLOP (in steps of 1,000) in three digits with its unit."""
    step, units = (
        (1024, ("B", "KiB", "MiB", "GiB", "TiB")) if kind == "bytes" else (1000, ("", "k", "M", "G", "T", "P"))
    )
    size, at = float(value), 0
    while size >= step - 0.5 and at < len(units) - 1:
        size, at = size / step, at + 1
    unit = units[at] if kind == "bytes" else f"{units[at]}FLOP"
    return f"{size:.0f} {unit}" if at == 0 else f"{three(size)} {unit}"


def amount_forms(amount: Amount) -> tuple[str, ...]:
    """The amount in words, from the fullest to the shortest form."""
    done, total, naive = (amount_text(n, amount.kind) for n in (amount.done, amount.total, amount.naive))
    short = done.split()[0] if done.split()[1] == total.split()[1] else done
    return f"{done} of {total} · naive {naive}", f"{short} of {total} · naive {naive}", f"{short} of {total}", total


class LedgerPanel(Panel):
    """Three amounts as bars above the roofline."""

    name: ClassVar[str] = "ledger"
    title: ClassVar[str] = "Ledger"

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._rest: tuple[object, Sheet] = (None, Sheet())
        self._bars = QRect()
        self.canvas = Canvas(self._compose)
        self.canvas.setAccessibleName("Ledger")
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.canvas)

    def draw(self, frame: Frame) -> None:
        view = frame.ledger
        assert view is not None
        ours, naive = view.total_read + view.total_written, view.naive_read + view.naive_written
        caption = f"{three(naive / ours)} × less traffic than naive" if 0 < ours < naive else ""
        if caption != self.caption_label.text():
            self.caption_label.setText(caption)
        rest = self._rest
        self.canvas.lay_out()
        self.canvas.update(self._bars if self._rest is rest else self.canvas.rect())

    def restyle(self) -> None:
        self.canvas.refresh()

    def _compose(self, size: QSize) -> Sheet:
        sheet = Sheet()
        if self.frame is None or self.frame.ledger is None:
            return sheet
        view, px = self.frame.ledger, self.theme.px
        roomy, tight = size.height() >= px(330), size.height() < px(185)
        top, height = 0 if tight else px(19), px(34 if roomy else 24 if tight else 27)
        self._bars = QRect(0, top, size.width(), 3 * height)
        for at, amount in enumerate(amounts(view)):
            self._bar(sheet, QRect(0, top + at * height, size.width(), height), amount)
        dtype = self.frame.problem.dtype
        key = (size, self.theme, dtype, view.intensity, view.naive_intensity, view.tflops, view.device)
        if self._rest[0] != key:
            self._rest = key, self._compose_rest(size, view, dtype, roomy, tight)
        sheet.add(self._rest[1])
        return sheet

    def _compose_rest(self, size: QSize, view: LedgerView, dtype: str, roomy: bool, tight: bool) -> Sheet:
        """What stays from step to step: the legend above the bars, and what is below them."""
        sheet, px = Sheet(), self.theme.px
        if not tight:
            self._legend(sheet)
        top = self._bars.bottom() + 1
        if roomy:
            words = QRect(0, top + px(4), size.width(), size.height() - top)
            top += px(4) + sheet.wrapped(words, WHY, self.theme.ui_font(12), self.theme.muted)
        top += px(10 if roomy else 4)
        area = QRect(0, top, size.width(), size.height() - top)
        if area.height() >= px(56):
            sheet.add(roofline(area, view, dtype, self.theme))
        return sheet

    def _legend(self, sheet: Sheet) -> None:
        theme, px = self.theme, self.theme.px
        font, left = theme.ui_font(11), 0
        metrics = QFontMetrics(font)
        for name, color in (("so far", theme.text), ("whole run", theme.done), ("naive attention", theme.to_come)):
            sheet.box(QRectF(left, px(4), px(9), px(9)), color)
            left += px(14)
            where = QRect(left, 0, metrics.horizontalAdvance(name) + px(2), px(17))
            sheet.text(where, name, font, theme.muted)
            left += where.width() + px(12)

    def _bar(self, sheet: Sheet, area: QRect, amount: Amount) -> None:
        """The words, and below them the three lengths over each other, on the scale of the longest."""
        theme, px = self.theme, self.theme.px
        line = QRect(area.left(), area.top(), area.width(), px(16))
        name = sheet.text(line, amount.name, theme.ui_font(12), theme.muted)
        room = line.adjusted(name.rect.width() + px(10), 0, 0, 0)
        metrics = QFontMetrics(theme.code_font(12))
        forms = amount_forms(amount)
        fits = [form for form in forms if metrics.horizontalAdvance(form) <= room.width()] or [forms[-1]]
        sheet.text(room, fits[0], theme.code_font(12), theme.text, RIGHT)
        top, height = area.top() + px(18), area.height() - px(18 + 4)
        scale = area.width() / max(amount.total, amount.naive, 1)
        for value, color in ((amount.naive, theme.to_come), (amount.total, theme.done), (amount.done, theme.text)):
            if value:
                sheet.box(QRectF(area.left(), top, max(1.0, value * scale), height), color)
        if amount.naive < amount.total:
            x = area.left() + amount.naive * scale
            sheet.line([QPointF(x, top), QPointF(x, top + height)], theme.text)
