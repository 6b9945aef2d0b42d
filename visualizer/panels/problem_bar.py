"""The bar at the window's top: the problem's fields, its presets and inputs, the run button, and the worker's state."""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QKeyEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QLabel, QLineEdit, QMenu, QPushButton, QWidget

from kernel.inputs import file_problem
from kernel.problem import DTYPES, Problem, ProblemError
from visualizer.dialogs import ask_open
from visualizer.frame import Frame, RunView
from visualizer.panels.inputs_popup import InputsPopup
from visualizer.panels.number_field import (
    Choice,
    Named,
    Tick,
    number,
    number_field,
    refit,
    stacked,
    text_of,
    tool_button,
)
from visualizer.panels.reason_bubble import ReasonBubble
from visualizer.presets import PRESETS
from visualizer.theme import Theme

# field of Problem, label, what it is, width in digits
FIELDS: Final = (
    ("batch", "batch", "Sequences in the batch.", 3),
    ("heads", "heads", "Query heads.", 3),
    ("kv_heads", "kv heads", "Key and value heads; equal to heads until set apart.", 3),
    ("seqlen_q", "seqlen", "Query rows of each head.", 6),
    ("seqlen_k", "seqlen k", "Keys of each head; equal to seqlen until set apart.", 6),
    ("head_dim", "head dim", "Numbers in one row of q, k and v.", 3),
    ("dtype", "dtype", "Type of q, k, v and o.", 8),
    ("block_m", "BLOCK_M", "Query rows of one program.", 4),
    ("block_n", "BLOCK_N", "Keys of one tile.", 4),
    ("sm_scale", "sm_scale", "Scale of the scores; auto, or nothing, means 1/√(head dim).", 6),
)
SECOND_ROW: Final = 1 + [name for name, *_ in FIELDS].index("block_m")  # the presets stand before the fields
USUAL_DEVICE: Final = "NVIDIA H200 · Triton 3.6.0"
FOLLOWERS: Final = {"heads": "kv_heads", "seqlen_q": "seqlen_k"}


class ProblemBar(QFrame):
    """Shows a problem and asks for another; fields that do not fit beside each other go to a second row.

    `problem_changed` carries the fields of Problem that a person changed, as soon as the text is a legal problem. Until
    then the reason stands under the field, the text stays in it, and nothing is asked; it is tried again together with
    the next change here, and given up when the problem comes from elsewhere. kv heads follow heads, and seqlen k
    follows seqlen, if they were equal when the editing of that field began: 8 query heads on 1 key head stay on 1 while
    "16" is being typed. Up and down change a number by a natural step; Escape brings back the number that holds.
    """

    problem_changed = Signal(dict)
    preset_chosen = Signal(object)  # the State of a preset
    run_requested = Signal()
    cancel_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.theme = theme
        self.problem = Problem()
        self.run = RunView()
        self.refused: dict[str, str] = {}
        self._apart: dict[str, bool] = {}
        self._asking = self._explained = ""
        self._worker_texts = "", ""
        self._has_place = False
        self.setObjectName("bar")
        self.setAccessibleName("Problem")
        self.bubble = ReasonBubble(self)
        self._build()
        self._write(self.problem)
        self.set_theme(theme)
        self.show_run(self.run)

    def show_frame(self, frame: Frame) -> None:
        """Shows the frame's problem and run; quick when neither is new."""
        self.show_problem(frame.problem)
        self.show_run(frame.run)

    def show_problem(self, problem: Problem) -> None:
        """Sets the texts without asking anything: all fields show the problem, except what waits, refused, while it is
        the bar that asks. A field whose text already means the value keeps its text and cursor."""
        if problem is not self.problem or (self.refused and not self._asking):
            self._write(problem)

    def show_run(self, run: RunView) -> None:
        """Run or Cancel, and where and how the worker is."""
        if run is self.run and self.worker_label.text():
            return
        running = run.phase == "running"
        self.run = run
        device, state = run.device, run.worker
        if not device and run.result is not None:
            device = run.result.device
        self.run_button.setText("■  Cancel" if running else "▶  Run kernel")
        self.run_button.setObjectName("" if running else "primary")
        self.run_button.style().unpolish(self.run_button)
        self.run_button.style().polish(self.run_button)
        self.run_button.setToolTip(
            "Stop the run; the worker starts anew." if running else "Run the kernel on this problem and check it."
        )
        self.run_button.setAccessibleName("Cancel the run" if running else "Run kernel")
        self._worker_texts = device, state or "worker not started"
        self._worker.setToolTip(f"{device}\n{state}".strip())
        self._dress_worker()
        self._arrange()

    def _dress_worker(self) -> None:
        good = "good" if "ready" in self.run.worker else "bad" if self.run.phase == "failed" else "muted"
        self.worker_label.setStyleSheet(f"color: {getattr(self.theme, good)}; font-size: {self.theme.px(11)}px;")

    def refuse(self, name: str, message: str) -> None:
        """Puts the reason under the field, or under the one that has just asked: the file of inputs may be to blame for
        what was typed in heads. What is chosen, not typed, goes back to what holds."""
        name = self._asking or name
        self.refused.pop(name, None)
        self.refused[name] = message
        if name not in self.edits and name not in self.popup.texts:
            self._show_choices(self.problem)
        self._explained = name
        self._mark()
        self._explain()

    def set_theme(self, theme: Theme) -> None:
        """Takes another dress or zoom."""
        self.theme = theme
        px = theme.px
        self.setStyleSheet(f"""
            QFrame#bar {{ background: {theme.panel}; border: none; border-bottom: 1px solid {theme.border}; }}
            QFrame#bar QLabel#field {{ color: {theme.muted}; font-size: {px(11)}px; }}
            QFrame#bar QLabel#app {{ font-size: {px(15)}px; font-weight: 600; }}
            QFrame#bar QLineEdit, QFrame#bar QComboBox {{ padding: {px(1)}px {px(5)}px; font-size: {px(12)}px; }}
            QFrame#bar QToolButton {{ background: {theme.field}; border: 1px solid {theme.border};
                padding: {px(1)}px {px(6)}px; font-size: {px(12)}px; }}
            QFrame#bar QToolButton:focus {{ border: 1px solid {theme.accent}; }}
            QFrame#bar QComboBox::drop-down {{ border: none; width: {px(18)}px; }}
            QFrame#bar QLabel#device {{ font-size: {px(12)}px; }}
            QFrame#bar QToolButton::menu-indicator {{ image: none; }}
        """)
        self.bubble.set_theme(theme)
        digit = QFontMetrics(theme.code_font(12)).horizontalAdvance("0")
        for name, _, _, digits in FIELDS:
            if name != "dtype":
                self.edits[name].setFixedWidth(digits * digit + px(15))
        self.dtype.setFixedWidth(8 * digit + px(34))
        self.causal.theme = self.hopper.theme = self.dtype.theme = theme
        self._dress_worker()
        for group in self._groups:
            refit(group, px)
        refit(self._worker, px)
        self.run_button.setFixedSize(px(124), px(30))
        self.popup.set_theme(theme)
        self._arrange()
        self._mark()

    def choose_file(self) -> None:
        """Asks for a file of tensors, and for the problem that fits them."""
        path = ask_open(self, "Inputs from a file", "", "Tensors (*.npz *.safetensors)")
        if path is not None:
            self.open_inputs(str(path))

    def open_inputs(self, path: str) -> None:
        """Asks for the problem whose q, k and v are in the file; reads only the shapes."""
        try:
            self._ask(file_problem(path, self.problem))
        except ProblemError as error:
            self.refuse("inputs", str(error))

    def _build(self) -> None:
        self.presets = tool_button("Presets ▾", "Presets", "Problems worth looking at.")
        menu = QMenu(self.presets)
        menu.setToolTipsVisible(True)
        for preset in PRESETS:
            action = menu.addAction(preset.name)
            action.setToolTip(preset.why)
            action.triggered.connect(lambda _=False, state=preset.state: self.preset_chosen.emit(state))
        self.presets.setMenu(menu)
        self.presets.setPopupMode(self.presets.ToolButtonPopupMode.InstantPopup)
        app = QLabel("FlashScope")
        app.setObjectName("app")
        self._groups = [stacked(app, self.presets)]
        self.edits: dict[str, QLineEdit] = {}
        for name, label, tip, _ in FIELDS:
            if name == "dtype":
                self.dtype = Choice()
                self.dtype.addItems(list(DTYPES))
                self.dtype.setToolTip(tip)
                self.dtype.textActivated.connect(lambda text: self._try("dtype", text))
                self._groups.append(stacked(Named(label), self.dtype))
            else:
                edit = number_field(label, tip)
                edit.textEdited.connect(lambda text, name=name: self._try(name, number(name, text)))
                edit.editingFinished.connect(lambda name=name: self._apart.pop(name, None))
                edit.setPlaceholderText("auto" if name == "sm_scale" else "")
                self.edits[name] = edit
                self._groups.append(stacked(Named(label), edit))
        self.causal = Tick("causal")
        self.causal.setAccessibleName("causal")
        self.causal.setToolTip("Row i sees the keys up to i + seqlen k - seqlen: the last query sees the last key.")
        self.causal.clicked.connect(lambda on: self._try("causal", on))
        self.hopper = Tick("Hopper")
        self.hopper.setAccessibleName("Hopper kernel")
        self.hopper.setToolTip("The kernel for Hopper GPUs instead of the portable one; it prescribes the blocks.")
        self.hopper.clicked.connect(lambda on: self._try("backend", "hopper" if on else "triton"))
        self._groups.append(stacked(self.hopper, self.causal))
        self.inputs = tool_button("", "Inputs", "The values of q, k and v: a distribution and its seed, or a file.")
        self.inputs.clicked.connect(lambda: self.popup.open_below(self.inputs))
        self._groups.append(stacked(Named("inputs"), self.inputs))
        self.popup = InputsPopup(self.theme, self)
        self.popup.wanted.connect(self._try)
        self._typed = self.edits | self.popup.texts
        for edit in self._typed.values():
            edit.installEventFilter(self)
        self.popup.file_wanted.connect(self.choose_file)
        self.run_button = QPushButton()
        self.run_button.setObjectName("primary")
        self.run_button.clicked.connect(self._run_or_cancel)
        self.device_label, self.worker_label = QLabel(), QLabel()
        self.device_label.setObjectName("device")
        for label in (self.device_label, self.worker_label):
            label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._worker = stacked(self.device_label, self.worker_label)
        for widget in (*self._groups, self.run_button, self._worker):
            widget.setParent(self)
        fields = (self.edits.get(f[0], self.dtype) for f in FIELDS)
        order = [self.presets, *fields, self.hopper, self.causal, self.inputs]
        for before, after in zip(order, [*order[1:], self.run_button], strict=True):
            QWidget.setTabOrder(before, after)

    def _field(self, name: str) -> QWidget:
        """The widget that a field of Problem is set with."""
        others = {"dtype": self.dtype, "causal": self.causal, "backend": self.hopper}
        return self.edits.get(name) or others.get(name) or self.inputs

    def _write(self, problem: Problem) -> None:
        old, self.problem = self.problem, problem
        for name, edit in self.edits.items():
            value = getattr(problem, name)
            if self._asking and name in self.refused and value == getattr(old, name):
                continue
            if number(name, edit.text()) != value:
                edit.setText(text_of(value))
            self.refused.pop(name, None)
        self.edits["sm_scale"].setToolTip(f"{FIELDS[-1][2]} Now {problem.scale:.6g}.")
        for name in [n for n in self.refused if n not in self.edits]:
            if not self._asking or getattr(old, name) != getattr(problem, name):
                del self.refused[name]
        self._show_choices(problem)
        source = problem.inputs.replace("\\", "/").rsplit("/", 1)[-1] if problem.inputs else problem.distribution
        shown = source if len(source) <= 14 else source[:13] + "…"
        self.inputs.setText(f"{shown} ▾" if problem.inputs else f"{shown} · {text_of(problem.seed)[:6]} ▾")
        self._mark()
        self.popup.show_problem(problem)
        self._arrange()

    def _show_choices(self, problem: Problem) -> None:
        self.dtype.setCurrentText(problem.dtype)
        self.causal.setChecked(problem.causal)
        self.hopper.setChecked(problem.backend == "hopper")
        for name in ("block_m", "block_n"):
            self.edits[name].setEnabled(problem.backend != "hopper")
        self.popup.show_problem(problem)

    def _try(self, name: str, value: Any) -> None:
        """Asks for the problem with one field changed, if it is legal; also with what was refused before, if that is
        legal now."""
        values = {name: value}
        follower = FOLLOWERS.get(name)
        if follower is not None:
            p = self.problem
            apart = self._apart.setdefault(name, getattr(p, name) != getattr(p, follower) or follower in self.refused)
            if not apart:
                values[follower] = value
        if name in self.popup.texts and isinstance(value, str):
            values[name] = number(name, value)
        waiting = {n: number(n, self.edits[n].text()) for n in self.refused if n in self.edits and n not in values}
        try:
            wanted = self.problem.change(**waiting, **values)
        except ProblemError:
            try:
                wanted = self.problem.change(**values)
            except ProblemError as error:
                self.refuse(name, str(error))
                return
            waiting = {}
        chosen = [n for n in self.refused if n not in self.edits and n not in self.popup.texts]
        for accepted in (*waiting, *values, *chosen):
            self.refused.pop(accepted, None)
        self._mark()
        self._asking = name
        try:
            self._ask(wanted)
        finally:
            self._asking = ""

    def _ask(self, wanted: Problem) -> None:
        names = wanted.__dataclass_fields__
        changed = {n: getattr(wanted, n) for n in names if getattr(wanted, n) != getattr(self.problem, n)}
        if changed:
            self.problem_changed.emit(changed)

    def _mark(self) -> None:
        """Marks the refused fields; a reason that holds no longer goes."""
        for name in (*self._typed, "dtype", "causal", "backend", "inputs"):
            widget, wrong = self.popup.texts.get(name) or self._field(name), name in self.refused
            if bool(widget.property("wrong")) != wrong:
                widget.setProperty("wrong", wrong)
                widget.style().unpolish(widget)
                widget.style().polish(widget)
            widget.setAccessibleDescription(self.refused.get(name, ""))
        self.popup.show_reason(next((m for n, m in self.refused.items() if n in self.popup.texts), ""))
        if self._explained not in self.refused:
            self.bubble.hide()

    def _explain(self) -> None:
        """The reason under its field, over whatever is below the bar: nothing moves while a person types."""
        if self._explained in self.refused and self._explained not in self.popup.texts:
            self.bubble.stand_under(self._field(self._explained), self, self.refused[self._explained])

    def _run_or_cancel(self) -> None:
        (self.cancel_requested if self.run.phase == "running" else self.run_requested).emit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Up, down and Escape in a number's field; its reason when it gets the focus."""
        kind = event.type()
        if kind not in (QEvent.Type.FocusIn, QEvent.Type.KeyPress, QEvent.Type.ShortcutOverride):
            return False
        name = next(n for n, edit in self._typed.items() if edit is watched)
        if kind == QEvent.Type.FocusIn and name in self.refused:
            self._explained = name
            self._explain()
        if not isinstance(event, QKeyEvent) or event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            return False
        key, ways = event.key(), {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1}
        if not (name in self.refused if key == Qt.Key.Key_Escape else name in self.edits and key in ways):
            return False
        if kind == QEvent.Type.ShortcutOverride:
            event.accept()
        elif key == Qt.Key.Key_Escape:
            del self.refused[name]
            self._typed[name].setText(text_of(getattr(self.problem, name)))
            self._mark()
        else:
            self._step(name, ways[Qt.Key(key)])
        return True

    def _step(self, name: str, way: int) -> None:
        """The next number up or down: whole blocks of rows or keys, powers of two, sixteens of head_dim, or ones."""
        p, value = self.problem, getattr(self.problem, name)
        if name == "sm_scale":
            wanted: float = p.scale * 2.0**way
        elif name.startswith("block"):
            wanted = value * 2 if way > 0 else value // 2
        else:
            by = {"seqlen_q": p.block_m, "seqlen_k": p.block_n, "head_dim": 16}.get(name, 1)
            wanted = (value // by + 1) * by if way > 0 else (value - 1) // by * by
        self.edits[name].setText(text_of(wanted))
        self._try(name, wanted)

    def _arrange(self) -> None:
        """Places the groups from left to right, in as many rows as the width needs, the run button at the right."""
        px = self.theme.px
        margin, gap, top, height = px(14), px(7), px(6), px(38)
        metrics = QFontMetrics(self.theme.ui_font(12))
        worker = metrics.horizontalAdvance(USUAL_DEVICE) + px(4)  # whatever is said, the run button stays in its place
        for label, text in zip((self.device_label, self.worker_label), self._worker_texts, strict=True):
            label.setText(metrics.elidedText(text, Qt.TextElideMode.ElideRight, worker))
        right = self.run_button.width() + px(14) + worker
        self._worker.setGeometry(self.width() - margin - worker, top, worker, height)
        self.run_button.move(self.width() - margin - right, top + (height - self.run_button.height()) // 2)
        widths = [group.sizeHint().width() for group in self._groups]
        self._one_row = 2 * margin + sum(widths) + gap * len(widths) + px(8) + right
        if self._one_row < self.width():
            gap += min(px(7), (self.width() - self._one_row) // len(widths))
        indent, row = margin + widths[0] + gap + px(8), 0
        # before it has a place its width means nothing, and rows for that would make the window too high
        x, end = margin, self.width() - margin - right - gap if self._has_place else 1 << 20
        wraps = x + sum(widths) + gap * (len(widths) - 1) + px(8) > end
        for at, (group, width) in enumerate(zip(self._groups, widths, strict=True)):
            # a second row has all that is not about the tensors' shapes, never one lonely control
            if at and x > indent and (x + width > end or (wraps and row == 0 and at == SECOND_ROW)):
                row, x, end = row + 1, indent, self.width() - margin
            group.setGeometry(x, top + row * (height + px(4)), width, height)
            x += width + gap + (px(8) if at == 0 else 0)
        wanted = 2 * top + (row + 1) * height + row * px(4)
        if self.height() != wanted or self.minimumHeight() != wanted:
            self.setFixedHeight(wanted)
        if not self.bubble.isHidden():
            self._explain()

    def sizeHint(self) -> QSize:
        return QSize(self._one_row, self.height())

    def minimumSizeHint(self) -> QSize:
        return QSize(self.theme.px(480), self.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._has_place = True
        self._arrange()

    def showEvent(self, event: QShowEvent) -> None:
        self._arrange()
