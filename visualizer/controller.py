"""The only holder of the State: changes come in, checked; Frames go out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import QObject, QTimer, Signal

from kernel.inputs import file_problem
from kernel.problem import ProblemError
from visualizer import moves
from visualizer.past import Past
from visualizer.presets import Preset
from visualizer.resolve import resolve
from visualizer.runs import Runs
from visualizer.state import OPENING, State, StateError, load, save
from visualizer.tape import Tape

FILL_SECONDS: Final = 0.006
FILL_SECONDS_PLAYING: Final = 0.002
FILL_EVERY_MS: Final = 10
REFRESH_SECONDS: Final = 0.2
QUIET_SECONDS: Final = 0.1
TENSOR_SUFFIXES: Final = (".npz", ".safetensors")


class Controller(QObject):
    """State in, Frame out; undo, sessions, and the kernel's runs.

    `refused` carries the problem field to blame and one sentence, `said` a sentence on anything else; both leave what
    was shown as it was. Raises ProblemError from the constructor only, when the first state's problem cannot be.
    """

    frame = Signal(object)
    problem_changed = Signal(object)
    refused = Signal(str, str)
    said = Signal(str)
    state_changed = Signal()

    def __init__(self, state: State = OPENING) -> None:
        super().__init__()
        self.tape = Tape(state.problem)
        self.state = self._clipped(state)
        self.session: Path | None = None
        self.saved = self.state
        self.past = Past()
        self.runs = Runs(self)
        self.runs.changed.connect(self.refresh)
        self.is_playing = False
        self._busy_until = 0.0
        self._refreshed = 0.0
        self._timer = QTimer(self)
        self._timer.setInterval(FILL_EVERY_MS)
        self._timer.timeout.connect(self._fill)

    def change(self, **fields: Any) -> bool:
        """Changes fields of the State or of its Problem; False, with a sentence emitted, when that cannot be."""
        try:
            after = self.state.change(**fields)
        except ProblemError as error:
            self.refused.emit(error.field, str(error))
            return False
        return self.go_to(after)

    def go_to(self, state: State, *, remember: bool = True) -> bool:
        """Takes a whole State; False, with a sentence emitted, when its problem cannot be."""
        before = self.state
        problem_changed = state.problem != before.problem
        if problem_changed:
            try:
                tape = Tape(state.problem)
            except ProblemError as error:
                self.refused.emit(error.field, str(error))
                return False
            except MemoryError:
                self.refused.emit(
                    "seqlen_q", "This problem does not fit in memory; make batch, heads or seqlen smaller."
                )
                return False
            if state.step == before.step:
                state = state.change(step=moves.carry(self.tape.tiling, before.step, tape.tiling))
            self.tape = tape
        self.state = self._clipped(state)
        if remember:
            self.past.note(before, self.state)
        if problem_changed:
            self.runs.problem = state.problem
            self.problem_changed.emit(state.problem)
            self._timer.start()
        self._busy_until = time.monotonic() + QUIET_SECONDS
        if self.state != before:
            self.refresh()
            self.state_changed.emit()
        return True

    def refresh(self) -> None:
        """Emits the Frame of what is."""
        self._refreshed = time.monotonic()
        self.frame.emit(resolve(self.state, self.tape, self.runs.view))

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
        """Goes to the next or previous event of Tape.find, or says that there is none."""
        if not len(self.tape):
            return
        found = self.tape.find(self.state.step, event, self.state.row, forward=forward)
        if found is None:
            where = "from here to the end" if forward else "before this step"
            self.said.emit(f"No “{event}” was found {where}.")
        else:
            self.change(step=found)

    def go_to_line(self, step_name: str) -> None:
        """Goes to the next execution of a step's source line, round to the first one after the last."""
        steps = range(self.state.step + 1, len(self.tape)), range(min(self.state.step, len(self.tape)))
        limit = 0
        for part in steps:
            for index in part:
                limit += 1
                if self.tape.tiling.locate(index).step == step_name:
                    self.change(step=index)
                    return
                if limit > 200_000:
                    break
        self.said.emit(f"No step of this problem runs {step_name}: there are no such tiles in it.")

    def undo(self) -> None:
        state = self.past.undo(self.state)
        if state is not None:
            self.go_to(state, remember=False)

    def redo(self) -> None:
        state = self.past.redo(self.state)
        if state is not None:
            self.go_to(state, remember=False)

    def open_preset(self, preset: Preset) -> None:
        self.go_to(preset.state)

    def open_file(self, path: Path) -> bool:
        """Opens a session, or the tensors in a .npz or .safetensors file; False, with a sentence, when it cannot be."""
        try:
            if path.suffix in TENSOR_SUFFIXES:
                return self.go_to(self.state.change(problem=file_problem(str(path), self.state.problem)))
            state = load(path)
        except (StateError, ProblemError) as error:
            self.said.emit(str(error))
            return False
        if not self.go_to(state):
            return False
        self.session, self.saved = path, self.state
        self.state_changed.emit()
        return True

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
        self.runs.start(self.state.problem)

    def cancel(self) -> None:
        self.runs.cancel()

    def _clipped(self, state: State) -> State:
        return state.change(step=min(max(0, state.step), max(0, len(self.tape) - 1)))

    def _fill(self) -> None:
        """A little of the rest of the tape, out of the person's way."""
        now = time.monotonic()
        if now < self._busy_until and not self.is_playing:
            return
        more = self.tape.fill(FILL_SECONDS_PLAYING if self.is_playing else FILL_SECONDS)
        if not more:
            self._timer.stop()
        if not more or now - self._refreshed > REFRESH_SECONDS:
            self.refresh()
