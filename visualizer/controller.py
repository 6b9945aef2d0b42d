"""The only holder of the State: changes come in, checked; Frames go out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import QObject, QTimer, Signal

from kernel.bench_saved import SavedError, read_saved, says_it_is_saved
from kernel.inputs import file_problem
from kernel.plain_file import shown_name
from kernel.problem import Problem, ProblemError
from visualizer import moves
from visualizer.jump import Jump
from visualizer.past import Past
from visualizer.presets import Preset
from visualizer.resolve import resolve, resolve_place
from visualizer.runs import Runs
from visualizer.state import OPENING, NoSession, State, StateError, load, save
from visualizer.tape import Tape

FILL_SECONDS: Final = 0.006
FILL_SECONDS_PLAYING: Final = 0.002
FILL_EVERY_MS: Final = 10
REACH_SECONDS: Final = 0.008
REFRESH_SECONDS: Final = 0.2
QUIET_SECONDS: Final = 0.1
MAX_HEAD: Final = 1 << 24  # numbers of one tensor of one head: drawn in about a second
MAX_ROWS: Final = 1 << 24  # rows of all heads: each has an L of the mirror
TENSOR_SUFFIXES: Final = (".npz", ".safetensors")


class Controller(QObject):
    """State in, Frame out; undo, sessions, and the kernel's runs.

    `refused` carries the problem field to blame and one sentence, `said` a sentence on anything else; both leave what
    was shown as it was. `trouble` is why the State's benchmark is not shown, or "". Only the constructor raises
    ProblemError, when the first state's problem cannot be.
    """

    frame = Signal(object)
    problem_changed = Signal(object)
    refused = Signal(str, str)
    said = Signal(str)
    state_changed = Signal()
    run_changed = Signal()

    def __init__(self, state: State = OPENING) -> None:
        super().__init__()
        self.tape = new_tape(state.problem)
        self.state = self._clipped(state)
        self.session: Path | None = None
        self.saved = self.state
        self.past = Past()
        self.runs = Runs(state.problem, self)
        self._read_bench()
        self.runs.changed.connect(self._run_changed)
        self.runs.said.connect(self.said)
        self.is_playing = False
        self._busy_until = 0.0
        self._refreshed = 0.0
        self._timer = QTimer(self)
        self._timer.setInterval(FILL_EVERY_MS)
        self._timer.timeout.connect(self._fill)
        self._coming = QTimer(self)
        self._coming.timeout.connect(self._reach)
        self.jumping = Jump(self)
        self.jumping.found.connect(lambda step: self.change(step=step))
        self.jumping.said.connect(self.said)
        self._begin()

    def change(self, **fields: Any) -> bool:
        """Changes fields of the State or of its Problem; False, with `refused` emitted, when that cannot be."""
        try:
            self._take(self.state.change(**fields), carry="step" not in fields)
        except ProblemError as error:
            self.refused.emit(error.field, str(error))
            return False
        return True

    def go_to(self, state: State, *, remember: bool = True) -> bool:
        """Takes a whole State; False, with `said` emitted, when its problem cannot be."""
        try:
            self._take(state, remember)
        except ProblemError as error:
            self.said.emit(str(error))
            return False
        self.problem_changed.emit(self.state.problem)  # the same one, too: what was typed and refused is given up
        return True

    def visit(self, state: State) -> bool:
        """Goes to a preset's or lesson's State; a benchmark that is open stays, and shows what fits there."""
        return self.go_to(state.change(bench=self.state.bench))

    def _take(self, state: State, remember: bool = True, carry: bool = False) -> None:
        """Makes `state` the State and shows it, or raises ProblemError and leaves everything as it was.

        carry: where the problem changes, the step goes to the position that is most like the present one.
        """
        self.jumping.stop()
        before = self.state
        problem_changed = state.problem != before.problem
        if problem_changed:
            tape = new_tape(state.problem)
            if carry:
                state = state.change(step=moves.carry(self.tape.tiling, before.step, tape.tiling))
            self.tape.inputs.cancel()
            self.tape = tape
        self.state = self._clipped(state)
        if remember:
            self.past.note(before, self.state)
        if problem_changed:
            self.runs.show_problem(state.problem)
            self.problem_changed.emit(state.problem)
            self._timer.start()
        if self.state.bench != before.bench:
            self._read_bench()
        self._busy_until = time.monotonic() + QUIET_SECONDS
        if self.state != before:
            self.refresh()
            self.state_changed.emit()

    def refresh(self) -> None:
        """Emits the Frame of what is; where its values are far, first one that says so, and the whole when it can."""
        self._refreshed = time.monotonic()
        if len(self.tape) and not self.tape.is_near(self.state.step):
            self._coming.start()
            place = resolve_place(self.state, self.tape, self.runs.view)
            self._begin()
            self.frame.emit(place)
        else:
            self._coming.stop()
            self.frame.emit(resolve(self.state, self.tape, self.runs.view))

    @property
    def is_coming(self) -> bool:
        """Whether the last Frame lacks the values of its step, and another one follows."""
        return self._coming.isActive()

    def arrive(self) -> None:
        """Waits for a jump, and for the values of what is shown: afterwards the last Frame is whole."""
        self.jumping.arrive()
        while self.is_coming:
            self._reach()

    def _reach(self) -> None:
        if self.tape.reach(self.state.step, REACH_SECONDS):
            self.refresh()

    def _begin(self) -> None:
        """Draws the inputs of the step at hand on another thread, while this one has other things to do."""
        if len(self.tape):
            self.tape.inputs.begin(self.tape.tiling.locate(self.state.step).head)

    def start_filling(self) -> None:
        """Runs the rest of the tape in idle moments."""
        self._timer.start()

    def stop_filling(self) -> None:
        self._timer.stop()

    def step_by(self, steps: int) -> None:
        self.change(step=max(0, self.state.step + steps))

    def by_tile(self, forward: bool) -> None:
        if len(self.tape):
            self.change(step=moves.by_tile(self.tape.tiling, self.state.step, forward))

    def by_program(self, forward: bool) -> None:
        if len(self.tape):
            self.change(step=moves.by_program(self.tape.tiling, self.state.step, forward))

    def jump(self, event: str, forward: bool) -> None:
        """Goes to the next or previous event (visualizer.events), or says that there is none; a change gives it up."""
        if len(self.tape):
            self.jumping.start(self.tape, self.state.step, event, self.state.row, forward)

    def go_to_line(self, step_name: str) -> None:
        """Goes to the next execution of a step's source line, from the start again after the last one."""
        if not len(self.tape):
            return
        tiling = self.tape.tiling
        found = 0 if step_name == "load_q" else moves.by_step_name(tiling, 0, step_name, True)
        found = moves.by_step_name(tiling, self.state.step, step_name, True) or found
        if found is None:
            self.said.emit(f"No step of this problem runs {step_name}: there are no such tiles in it.")
        else:
            self.change(step=found)

    def undo(self) -> None:
        state = self.past.undo(self.state)
        if state is not None:
            self.go_to(state, remember=False)

    def redo(self) -> None:
        state = self.past.redo(self.state)
        if state is not None:
            self.go_to(state, remember=False)

    def open_preset(self, preset: Preset) -> None:
        self.visit(preset.state)

    def open_file(self, path: Path) -> bool:
        """Opens a session, tensors (.npz, .safetensors) or a saved benchmark; False, with a sentence, if it cannot.

        A benchmark is shown in the run panel, beside the rest of what is there.
        """
        self.trouble = ""
        try:
            if path.suffix.lower() in TENSOR_SUFFIXES:
                return self.go_to(self.state.change(problem=file_problem(str(path), self.state.problem)))
            state = load(path)
        except (StateError, ProblemError) as error:
            if isinstance(error, StateError) and says_it_is_saved(path):
                return self._open_saved(path)
            if isinstance(error, NoSession):
                kinds = (
                    'session, no saved result of "flashscope bench kernel --json" and no tensors (.npz, .safetensors)'
                )
                self.said.emit(f"{shown_name(path)} is no {kinds}; it may be cut off.")
            else:
                self.said.emit(str(error))
            return False
        was_open = state.bench is not None and state.bench == self.state.bench
        if not self.go_to(state):
            return False
        if was_open:
            self._read_bench()  # the file may have changed since
        self.session, self.saved = path, self.state
        self.state_changed.emit()
        return True

    def _open_saved(self, path: Path) -> bool:
        try:
            saved = read_saved(path)
        except SavedError as error:
            self.said.emit(str(error))
            return False
        self.change(bench=str(path.absolute()))
        self.runs.show_saved(saved)  # also where this file was open before, and has changed since
        return True

    def _read_bench(self) -> None:
        """Shows the State's benchmark; where it cannot be read, says so, and the State keeps its place."""
        self.trouble, saved = "", None
        if self.state.bench is not None:
            try:
                saved = read_saved(Path(self.state.bench))
            except SavedError as error:
                self.trouble = f"Shown without the saved benchmark: {error}"
                self.said.emit(self.trouble)
        self.runs.show_saved(saved)

    def save_file(self, path: Path) -> bool:
        """Writes the session; False, with a sentence emitted, when it cannot be written."""
        try:
            save(self.state, path)
        except StateError as error:
            self.said.emit(str(error))
            return False
        self.session, self.saved = path, self.state
        self.state_changed.emit()
        return True

    @property
    def is_modified(self) -> bool:
        """Whether the open session file differs from what is shown."""
        return self.session is not None and self.state != self.saved

    def run_kernel(self) -> None:
        self.runs.start(self.state.problem, self.tape.inputs)
        if self.runs.is_running:
            self.change(bench=None)

    def cancel(self) -> None:
        self.runs.cancel()

    def belongs_to(self, session: Path) -> None:
        """Says that what is shown came from this session file, and marks what has changed since it was saved."""
        try:
            self.saved = load(session)
        except StateError:
            return
        self.session = session

    def _run_changed(self) -> None:
        self.refresh()
        self.run_changed.emit()

    def _clipped(self, state: State) -> State:
        return state.change(step=min(max(0, state.step), max(0, len(self.tape) - 1)))

    def _fill(self) -> None:
        """A little of the rest of the tape, out of the person's way."""
        now = time.monotonic()
        if self.is_coming or self.jumping.is_looking or (now < self._busy_until and not self.is_playing):
            return
        more = self.tape.fill(FILL_SECONDS_PLAYING if self.is_playing else FILL_SECONDS)
        if not more:
            self._timer.stop()
        if not more or now - self._refreshed > REFRESH_SECONDS:
            self.refresh()


def new_tape(problem: Problem) -> Tape:
    """The problem's tape. Raises ProblemError, also when it is too large to be looked at, or there is no memory."""
    p = problem
    field, seqlen = max(("seqlen_q", p.seqlen_q), ("seqlen_k", p.seqlen_k), key=lambda pair: pair[1])
    if seqlen * p.head_dim > MAX_HEAD:
        most = MAX_HEAD // p.head_dim
        raise ProblemError(field, f"{field} is {seqlen:,}; the window shows up to {most:,} at head_dim {p.head_dim}.")
    if p.num_heads * p.seqlen_q > MAX_ROWS:
        rows = f"{p.num_heads:,} heads of {p.seqlen_q:,} rows"
        raise ProblemError("heads", f"{rows} are more than the window shows; make it at most {MAX_ROWS:,} rows in all.")
    try:
        return Tape(problem)
    except MemoryError as error:
        sentence = "This problem does not fit in memory; make batch, heads or seqlen smaller."
        raise ProblemError("seqlen_q", sentence) from error
