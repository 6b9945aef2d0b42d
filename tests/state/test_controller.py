"""The Controller: what it takes and refuses, what it shows, sessions, and runs of a worker that tests drive."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QObject, Signal

from kernel.problem import Problem, ProblemError
from kernel.results import Hello, RunResult
from visualizer.controller import Controller
from visualizer.events import find
from visualizer.frame import Frame
from visualizer.presets import PRESETS
from visualizer.runs import STOPPED
from visualizer.state import OPENING, State, save
from visualizer.tape import Tape

TOY = PRESETS[1].state


class Watched(Controller):
    """A Controller that keeps what it emits."""

    def __init__(self, state: State = TOY) -> None:
        super().__init__(state)
        self.frames: list[Frame] = []
        self.sentences: list[str] = []
        self.refusals: list[tuple[str, str]] = []
        self.frame.connect(self.frames.append)
        self.said.connect(self.sentences.append)
        self.refused.connect(lambda field, sentence: self.refusals.append((field, sentence)))


class FakeWorker(QObject):
    """Speaks like a WorkerClient; tests emit what a process would."""

    ready = Signal(object)
    progress = Signal(int, str, object)
    finished = Signal(int, object)
    failed = Signal(int, str)
    died = Signal(str)
    silent = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.number = 0
        self.hello: Hello | None = HELLO

    def start(self) -> None:
        self.calls.append("start")

    def run(self, problem: Problem, inputs: object = None) -> int:
        self.calls.append("run")
        self.number += 1
        return self.number

    def cancel(self) -> None:
        self.calls.append("cancel")

    def close(self) -> None:
        self.calls.append("close")


def result(problem: Problem, sentence: str = "The kernel matches.") -> RunResult:
    heads, rows, blocks = problem.num_heads, problem.seqlen_q, -(-problem.seqlen_q // problem.block_m)
    return RunResult(
        backend="interpreter",
        device="CPU",
        versions={},
        block_m=problem.block_m,
        block_n=problem.block_n,
        ok=True,
        sentence=sentence,
        o_error=1e-4,
        o_error_eager=1e-4,
        o_bound=2e-4,
        lse_error=1e-6,
        lse_bound=1e-3,
        rows_checked=heads * rows,
        first_bad=None,
        lse=np.zeros((heads, rows), np.float32),
        o_tiles=np.zeros((heads, blocks), np.float32),
        lse_tiles=np.zeros((heads, blocks), np.float32),
        mirror_o_differing=0,
        mirror_lse_differing=0,
        mirror_o_max=0.0,
        mirror_lse_max=0.0,
        compared_programs=-1,
        first_differing=None,
        times=(),
        compiled=None,
    )


HELLO = Hello(backend="interpreter", device="CPU", versions={"triton": "3.7.1"}, reason="", seconds=1.0)


@pytest.fixture
def controller(qapp) -> Watched:
    return Watched()


@pytest.fixture
def worker(controller: Watched) -> FakeWorker:
    worker = FakeWorker()
    controller.runs.attach(worker)
    return worker


def test_a_change_is_shown(controller: Watched) -> None:
    assert controller.change(step=7, row=3)
    assert controller.state == replace(TOY, step=7, row=3)
    frame = controller.frames[-1]
    assert frame.transport is not None and frame.transport.index == 7
    assert frame.rows is not None and frame.rows.row == 3


def test_nothing_is_drawn_when_nothing_changes(controller: Watched) -> None:
    controller.change(step=TOY.step)
    assert controller.frames == []


@pytest.mark.parametrize(("asked", "taken"), [(-5, 0), (10**9, 105), (4, 4)])
def test_steps_stay_on_the_tape(controller: Watched, asked: int, taken: int) -> None:
    assert len(controller.tape) == 106
    controller.change(step=asked)
    assert controller.state.step == taken


def test_a_problem_that_cannot_be_changes_nothing(controller: Watched) -> None:
    before, tape = controller.state, controller.tape
    assert not controller.change(block_m=24)
    assert controller.refusals == [("block_m", "block_m is 24; it must be a power of two: 16, 32, 64, 128 or 256.")]
    assert controller.state is before and controller.tape is tape and controller.frames == []
    assert not controller.past.can_undo


def test_the_tape_is_new_only_for_a_new_problem(controller: Watched) -> None:
    tape = controller.tape
    controller.change(step=9, row=2, lse_unit="ln")
    assert controller.tape is tape
    controller.change(seed=21)
    assert controller.tape is not tape


def test_the_position_is_kept_in_another_problem(controller: Watched) -> None:
    controller.change(step=60)
    before = controller.tape.tiling.locate(60)
    controller.change(heads=4, kv_heads=4, seqlen_k=128)
    assert controller.tape.tiling.locate(controller.state.step) == before


def test_a_session_of_another_problem_keeps_its_own_step(controller: Watched, tmp_path: Path) -> None:
    controller.change(step=60)
    save(OPENING.change(step=60), tmp_path / "s.json")
    assert controller.open_file(tmp_path / "s.json")
    assert controller.state == OPENING.change(step=60)
    controller.undo()
    assert controller.state == replace(TOY, step=60)


def test_an_empty_problem_says_why(controller: Watched) -> None:
    controller.change(step=60)
    assert controller.change(seqlen_q=0)
    assert controller.frames[-1].empty == "seqlen_q is 0: there are no query rows, so no program runs."
    controller.step_by(1)
    controller.by_tile(True)
    controller.by_program(False)
    controller.jump("store", True)
    controller.go_to_line("load_k")
    assert controller.state.step == 0
    controller.undo()
    assert controller.state.step == 60


def test_no_memory_is_a_refusal(controller: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(problem: Problem) -> None:
        raise MemoryError

    monkeypatch.setattr("visualizer.controller.Tape", full)
    assert not controller.change(seed=3)
    assert controller.refusals[0][1] == "This problem does not fit in memory; make batch, heads or seqlen smaller."
    assert controller.state == TOY


@pytest.mark.parametrize(
    ("fields", "blamed", "said"),
    [
        ({"seqlen_k": 1 << 20}, "seqlen_k", "seqlen_k is 1,048,576; the window shows up to 262,144 at head_dim 64."),
        ({"seqlen_q": 300_000}, "seqlen_q", "seqlen_q is 300,000; the window shows up to 262,144 at head_dim 64."),
        (
            {"heads": 1 << 19, "kv_heads": 1},
            "heads",
            "524,288 heads of 64 rows are more than the window shows; make it at most 16,777,216 rows in all.",
        ),
    ],
)
def test_what_would_freeze_the_window_is_refused(controller: Watched, fields: dict, blamed: str, said: str) -> None:
    if "heads" not in fields:
        controller.change(head_dim=64)
    before = controller.state
    assert not controller.change(**fields)
    assert controller.refusals == [(blamed, said)]
    assert controller.state == before


def test_undo_and_redo(controller: Watched) -> None:
    controller.change(step=50)
    controller.change(head_dim=32)
    controller.change(row=5)
    states = [controller.state]
    for _ in range(3):
        controller.undo()
        states.append(controller.state)
    assert states[-1] == TOY
    assert states[1].problem.head_dim == 32 and states[2].problem.head_dim == 16
    controller.undo()
    for state in states[2::-1]:
        controller.redo()
        assert controller.state == state
    assert controller.frames[-1].problem.head_dim == 32


def test_a_preset_is_one_act(controller: Watched) -> None:
    controller.change(step=33)
    controller.open_preset(PRESETS[3])
    assert controller.state == PRESETS[3].state
    controller.undo()
    assert controller.state == replace(TOY, step=33)


@pytest.mark.parametrize("step_name", ["load_q", "mask", "row_max", "store"])
def test_a_source_line_leads_to_its_next_execution_and_round(controller: Watched, step_name: str) -> None:
    locate = controller.tape.tiling.locate
    expected = [i for i in range(len(controller.tape)) if locate(i).step == step_name]
    visited = []
    for _ in expected:
        controller.go_to_line(step_name)
        visited.append(controller.state.step)
    controller.go_to_line(step_name)
    assert sorted(visited) == expected
    assert controller.state.step == visited[0]


def test_a_line_that_never_runs_is_said(controller: Watched) -> None:
    controller.change(causal=False)
    controller.go_to_line("mask")
    assert controller.sentences == ["No step of this problem runs mask: there are no such tiles in it."]


def test_jumps_go_to_events_or_say_that_there_is_none(controller: Watched) -> None:
    controller.jump("store", True)
    assert controller.tape.tiling.locate(controller.state.step).step == "store"
    controller.jump("store", False)
    assert controller.sentences == ["There is no store before this step."]


def test_a_long_search_says_so_and_can_be_given_up(controller: Watched, monkeypatch: pytest.MonkeyPatch, qtbot) -> None:
    monkeypatch.setattr("visualizer.jump.LOOK_SECONDS", 0)
    controller.jump("max moved", True)
    assert controller.jumping.is_looking and controller.state.step == 0
    qtbot.waitUntil(lambda: not controller.jumping.is_looking)
    moved, controller.sentences[:] = controller.state.step, []
    assert moved == find(controller.tape, 0, "max moved", 0)

    monkeypatch.setattr("visualizer.jump.PATIENCE_SECONDS", 0)
    controller.jump("non-finite", True)
    assert controller.sentences == ["Looking for the next NaN or infinity …  Esc stops it."]
    controller.jumping.stop()
    assert (controller.state.step, controller.sentences[1:]) == (moved, [""])
    controller.jump("max moved", True)
    controller.step_by(1)
    assert not controller.jumping.is_looking and controller.sentences[-1] == ""
    controller.jump("non-finite", False)
    controller.arrive()
    assert controller.sentences[-2:] == ["", "There is no NaN or infinity before this step."]
    assert controller.state.step == moved + 1


def test_a_session_is_saved_and_opened(controller: Watched, tmp_path: Path) -> None:
    controller.change(step=41, row=6)
    path = tmp_path / "moment.flashscope.json"
    assert controller.save_file(path)
    assert (controller.session, controller.is_modified) == (path, False)
    controller.change(step=42)
    assert controller.is_modified
    other = Watched(OPENING)
    assert other.open_file(path)
    assert other.state == replace(TOY, step=41, row=6)
    assert not other.is_modified
    other.undo()
    assert other.state == OPENING


BAD_SESSIONS = {
    "cut off": b'{"flashscope": 1, "problem": {"batch"',
    "not text": b"\xff\xfe\x00",
    "a list": b"[1, 2]",
    "no session": b'{"name": "x"}',
    "unknown field": b'{"flashscope": 1, "colour": "red"}',
    "absurd length": b'{"flashscope": 1, "problem": {"seqlen_q": 1000000000}}',
    "negative": b'{"flashscope": 1, "problem": {"seqlen_q": -1}}',
    "a word": b'{"flashscope": 1, "problem": {"seqlen_q": "many"}}',
    "not a number": b'{"flashscope": 1, "problem": {"sm_scale": NaN}}',
    "no such inputs": b'{"flashscope": 1, "problem": {"inputs": "/nowhere/x.npz"}}',
    "too large": b" " * (1 << 20) + b"{}",
}


@pytest.mark.parametrize("content", BAD_SESSIONS.values(), ids=BAD_SESSIONS.keys())
def test_a_bad_session_is_one_sentence_and_changes_nothing(controller: Watched, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    assert not controller.open_file(path)
    (sentence,) = controller.sentences
    assert "\n" not in sentence and sentence.endswith(".")
    assert controller.state == TOY and controller.session is None and controller.frames == []


def test_tensors_are_opened_with_their_shapes(controller: Watched, tmp_path: Path) -> None:
    path = tmp_path / "qkv.npz"
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, h, n, 24)).astype(np.float32) for h, n in ((4, 40), (2, 50), (2, 50)))
    np.savez(path, q=q, k=k, v=v)
    assert controller.open_file(path)
    p = controller.state.problem
    assert (p.batch, p.heads, p.kv_heads, p.seqlen_q, p.seqlen_k, p.head_dim) == (2, 4, 2, 40, 50, 24)
    assert (p.dtype, p.inputs, p.block_m) == ("float32", str(path), 16)
    controller.change(step=0)
    chip = controller.frames[-1].chip
    assert chip is not None and chip.q is not None
    assert np.array_equal(chip.q, q[0, 0, :16])


def test_objects_in_a_tensor_file_are_refused(controller: Watched, tmp_path: Path) -> None:
    path = tmp_path / "evil.npz"
    np.savez(path, q=np.array([{"a": 1}], object), k=np.zeros(1), v=np.zeros(1))
    assert not controller.open_file(path)
    assert controller.sentences == ["q in evil.npz holds Python objects; it must hold numbers."]
    assert controller.state == TOY


def test_a_folder_that_cannot_be_written_is_said(controller: Watched, tmp_path: Path) -> None:
    assert not controller.save_file(tmp_path / "missing" / "x.flashscope.json")
    assert "cannot be written" in controller.sentences[0]
    assert controller.session is None


def test_a_restored_state_knows_what_its_session_has_saved(tmp_path: Path, qapp) -> None:
    save(TOY, tmp_path / "a.json")
    controller = Watched(replace(TOY, step=5))
    controller.belongs_to(tmp_path / "a.json")
    assert controller.is_modified
    other = Watched()
    other.belongs_to(tmp_path / "gone.json")
    assert (other.session, other.is_modified) == (None, False)


def test_the_first_state_must_be_possible(qapp) -> None:
    with pytest.raises(ProblemError, match="no file"):
        Controller(State(problem=Problem(inputs="/nowhere/x.npz")))


def test_the_rest_of_the_tape_is_filled_while_nothing_happens(controller: Watched, qtbot) -> None:
    controller.change(step=len(controller.tape) - 1)
    controller.start_filling()
    qtbot.waitUntil(lambda: controller.tape.is_filled, timeout=20_000)
    lse = controller.frames[-1].lse
    assert lse is not None
    assert lse.stored_rows == 64 and not np.isnan(lse.exact).any()


def test_filling_follows_a_new_problem(controller: Watched, qtbot) -> None:
    controller.change(seed=5)
    qtbot.waitUntil(lambda: controller.tape.is_filled, timeout=20_000)


def test_a_run_from_start_to_result(controller: Watched, worker: FakeWorker) -> None:
    worker.ready.emit(HELLO)
    view = controller.runs.view
    assert (view.worker, view.device) == ("worker ready", "CPU · Triton 3.7.1")
    controller.run_kernel()
    worker.progress.emit(1, "mirror", 0.5)
    view = controller.frames[-1].run
    assert (view.phase, view.stage, view.fraction) == ("running", "mirror", 0.5)
    assert controller.runs.is_running
    worker.finished.emit(1, result(TOY.problem))
    view = controller.frames[-1].run
    assert (view.phase, view.stale) == ("done", False)
    assert controller.frames[-1].lse is not None and controller.frames[-1].lse.kernel is not None


def test_late_messages_of_another_run_are_dropped(controller: Watched, worker: FakeWorker) -> None:
    controller.run_kernel()
    controller.run_kernel()
    worker.finished.emit(1, result(TOY.problem, "old"))
    worker.failed.emit(1, "old")
    assert controller.runs.view.phase == "running"
    controller.cancel()
    worker.progress.emit(2, "mirror", 0.9)
    worker.finished.emit(2, result(TOY.problem, "cancelled"))
    assert controller.runs.view.phase == "cancelled"
    assert controller.runs.view.result is None
    assert worker.calls == ["start", "run", "run", "cancel"]


def test_a_result_is_stale_while_another_problem_is_shown(controller: Watched, worker: FakeWorker) -> None:
    controller.run_kernel()
    controller.change(seed=99)
    worker.finished.emit(1, result(TOY.problem))
    frame = controller.frames[-1]
    assert frame.run.stale and frame.lse is not None and frame.lse.kernel is None
    controller.undo()
    frame = controller.frames[-1]
    assert not frame.run.stale and frame.lse is not None and frame.lse.kernel is not None


def test_failures_and_deaths_are_said_and_the_result_stays(controller: Watched, worker: FakeWorker) -> None:
    failures: list[str] = []
    controller.runs.failed.connect(failures.append)
    worker.ready.emit(HELLO)
    controller.run_kernel()
    worker.finished.emit(1, result(TOY.problem))
    controller.run_kernel()
    worker.failed.emit(2, "The GPU has no memory left; make the problem smaller.")
    assert (controller.runs.view.phase, controller.runs.view.worker) == ("failed", "worker ready")
    assert controller.runs.view.result is not None
    controller.run_kernel()
    worker.hello = None
    worker.failed.emit(3, "The worker was killed (SIGKILL); the next run starts it again.")
    assert controller.runs.view.worker == STOPPED
    worker.died.emit("The worker was killed; the next run starts it again.")
    assert failures == [
        "The GPU has no memory left; make the problem smaller.",
        "The worker was killed (SIGKILL); the next run starts it again.",
    ]
    assert controller.sentences == ["The worker was killed; the next run starts it again."]


def test_without_a_worker_a_run_is_put_off(controller: Watched) -> None:
    controller.run_kernel()
    controller.cancel()
    assert controller.runs.view.phase == "none"
    assert controller.sentences == ["The worker has not been started yet; try again in a moment."]


def test_a_silent_worker_says_what_is_waited_for_until_it_speaks(controller: Watched, worker: FakeWorker) -> None:
    runs = controller.runs
    worker.hello = None
    worker.silent.emit("It says nothing for 20 s.")
    assert (runs.view.phase, runs.view.worker) == ("none", "It says nothing for 20 s.")
    controller.run_kernel()
    worker.silent.emit("It says nothing for 40 s.")
    assert (runs.view.stage, runs.view.worker) == ("It says nothing for 40 s.",) * 2
    worker.silent.emit("")
    assert (runs.view.stage, runs.view.worker) == ("starting", "worker starting …")
    worker.hello = HELLO
    worker.ready.emit(HELLO)
    worker.progress.emit(worker.number, "compiling", 0.5)
    worker.silent.emit("It says nothing for 60 s.")
    assert (runs.view.stage, runs.view.fraction) == ("It says nothing for 60 s.", 0.5)
    assert runs.view.worker == "worker ready"
    worker.silent.emit("")
    assert runs.view.stage == "compiling"
    worker.silent.emit("It says nothing for 60 s.")
    controller.cancel()
    assert runs.view.phase == "cancelled"
    assert worker.calls[-1] == "cancel"


def test_sessions_hold_nothing_of_the_run(controller: Watched, worker: FakeWorker, tmp_path: Path) -> None:
    controller.run_kernel()
    worker.finished.emit(1, result(TOY.problem))
    controller.save_file(tmp_path / "s.json")
    assert set(json.loads((tmp_path / "s.json").read_text())) == {
        "flashscope", "problem", "step", "row", "lse_unit", "matrix",
    }  # fmt: skip


FAR = State(problem=Problem(seqlen_q=256, seqlen_k=1600, heads=2, kv_heads=2, causal=False, block_n=16, head_dim=16))


@pytest.fixture
def far(qapp, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """A Controller to which every tile that has to be run is far."""
    monkeypatch.setattr("visualizer.tape.NEAR_WORK", 0)
    monkeypatch.setattr("visualizer.tape.NEAR_NUMBERS", 0)
    c = Watched(FAR)
    c.refresh()
    c.arrive()
    return c


def assert_whole(c: Watched) -> None:
    frame, fresh = c.frames[-1], Tape(c.state.problem)
    moment = fresh[c.state.step]
    assert not frame.coming and not c.is_coming
    assert frame.transport is not None and frame.transport.index == c.state.step
    assert frame.chip is not None and moment.chip.m is not None
    m = frame.chip.m_new if moment.chip.m_new is not None else frame.chip.m
    np.testing.assert_array_equal(m, moment.chip.m if moment.chip.m_new is None else moment.chip.m_new)
    np.testing.assert_array_equal(frame.chip.sums, moment.chip.acc[: len(frame.chip.sums), :16])


def test_a_far_step_shows_its_place_first_and_its_values_as_soon_as_they_are_there(far: Watched, qtbot) -> None:
    end = len(far.tape) - 3  # the last accumulate, of the other head
    far.frames.clear()
    far.change(step=end)
    place = far.frames[-1]
    assert place.coming and far.is_coming
    assert place.chip is None and place.rows is None
    assert place.transport is not None and place.transport.index == end
    assert place.source is not None and (place.source.step, place.source.note) == ("accumulate", "")
    assert place.ledger is not None and place.lse is not None
    qtbot.waitUntil(lambda: not far.is_coming)
    assert [frame.coming for frame in far.frames[:1] + far.frames[-1:]] == [True, False]
    assert_whole(far)
    far.change(step=end - 1)
    assert len([frame for frame in far.frames if not frame.coming]) >= 1
    far.arrive()
    assert_whole(far)


def test_the_tiles_are_shown_as_soon_as_the_head_is_drawn(far: Watched) -> None:
    far.change(step=1700)
    assert far.frames[-1].tiles is not None
    far.change(seed=7)
    assert far.frames[-1].tiles is None and far.frames[-1].transport is not None
    far.arrive()
    assert far.frames[-1].tiles is not None
    assert_whole(far)


def test_a_change_on_the_way_leads_elsewhere(far: Watched, qtbot) -> None:
    far.change(step=1700)
    assert far.is_coming
    far.change(step=900, row=9)
    far.change(lse_unit="ln")
    far.change(seed=3)
    assert far.is_coming
    far.undo()
    far.undo()
    far.undo()
    assert far.state.step == 1700
    qtbot.waitUntil(lambda: not far.is_coming)
    assert_whole(far)


def test_what_is_near_is_whole_at_once(qapp) -> None:
    c = Watched(FAR)
    for step in (len(c.tape) - 1, 1700, 0):
        c.change(step=step)
        assert_whole(c)
    assert len(c.frames) == 3


def test_nothing_is_filled_before_the_values_at_hand_are_there(far: Watched) -> None:
    far.change(step=1700)
    filled = far.tape.programs_filled
    far._busy_until = 0.0
    for _ in range(50):
        far._fill()
    assert far.tape.programs_filled == filled and far.is_coming
    far.arrive()
    for _ in range(50):
        far._busy_until = 0.0
        far._fill()
    assert far.tape.programs_filled > filled
