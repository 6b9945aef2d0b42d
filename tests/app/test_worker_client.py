"""The window's worker client: a real worker, one in another environment, and ones that misbehave."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QProcess
from pytestqt.qtbot import QtBot

from kernel.inputs import Inputs
from kernel.problem import Problem
from kernel.results import Hello, RunResult
from visualizer import worker_call, worker_client
from visualizer.worker_call import WorkerError, call_hello, call_worker, silence
from visualizer.worker_client import WorkerClient

SMALL = Problem(heads=1, kv_heads=1, seqlen_q=40, seqlen_k=40, head_dim=16, block_m=16, block_n=16)
ROOT = Path(__file__).parents[2]
FAKE = """
import sys, time
sys.path.insert(0, {root!r})
from kernel import protocol
def send(message):
    sys.stdout.buffer.write(protocol.encode(message))
    sys.stdout.buffer.flush()
hello = dict(backend="interpreter", device="a fake", versions={{}}, reason="", seconds=0.0)
send(dict(type="hello", protocol=protocol.VERSION, hello=hello))
{body}
"""


class Heard:
    """Every signal of a client, in order."""

    def __init__(self, client: WorkerClient) -> None:
        self.events: list[tuple] = []
        for name in ("ready", "progress", "finished", "failed", "died"):
            getattr(client, name).connect(lambda *values, name=name: self.events.append((name, *values)))

    def of(self, name: str) -> list[tuple]:
        return [event[1:] for event in self.events if event[0] == name]


@pytest.fixture
def make_client(qtbot: QtBot) -> Iterator[Callable[..., WorkerClient]]:
    clients: list[WorkerClient] = []

    def make(command: str | None = None) -> WorkerClient:
        clients.append(WorkerClient(command))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def fake(tmp_path: Path) -> Callable[[str], str]:
    """The command of a worker that says hello and then does as the given code says."""

    def make(body: str) -> str:
        path = tmp_path / f"fake{len(list(tmp_path.iterdir()))}.py"
        path.write_text(FAKE.format(root=str(ROOT), body=body))
        return shlex.join([sys.executable, str(path)])

    return make


def processes(client: WorkerClient) -> list[QProcess]:
    return client.findChildren(QProcess)


def run_and_wait(qtbot: QtBot, client: WorkerClient, problem: Problem = SMALL) -> RunResult:
    with qtbot.waitSignal(client.finished, timeout=60_000) as blocker:
        number = client.run(problem)
    assert blocker.args is not None
    assert blocker.args[0] == number
    return blocker.args[1]


@pytest.fixture(scope="module")
def shared(qapp: object) -> Iterator[WorkerClient]:
    """One real worker for the tests that leave it alive."""
    client = WorkerClient()
    yield client
    client.close()


def test_a_run_says_who_how_far_and_what(qtbot: QtBot, shared: WorkerClient) -> None:
    heard = Heard(shared)
    shared.start()
    result = run_and_wait(qtbot, shared)
    assert [h.backend for (h,) in heard.of("ready")] == ["interpreter"]
    assert isinstance(shared.hello, Hello)
    assert result.ok
    assert result.mirror_o_differing == result.mirror_lse_differing == 0
    assert result.lse.shape == (1, 40)
    assert not result.timed_on_gpu
    stages = [stage for _, stage, _ in heard.of("progress")]
    # of stages that last less than a person can see only the latest is told
    assert {"drawing inputs", "running kernel"} <= set(stages)
    fractions = [f for *_, f in heard.of("progress") if f is not None]
    assert fractions == sorted(fractions)
    assert all(0 <= f <= 1 for f in fractions)
    assert not heard.of("failed")
    assert not heard.of("died")


def test_inputs_of_a_file_travel_along(qtbot: QtBot, shared: WorkerClient, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((1, 1, 40, 16)).astype(np.float16) for _ in range(3))
    np.savez(tmp_path / "mine.npz", q=q, k=k, v=v)
    problem = SMALL.change(inputs=str(tmp_path / "mine.npz"))
    inputs = Inputs(problem)
    (tmp_path / "mine.npz").unlink()  # the worker, perhaps on another machine, has no such file
    with qtbot.waitSignal(shared.finished, timeout=60_000) as blocker:
        shared.run(problem, inputs)
    assert blocker.args is not None
    lse = blocker.args[1].lse
    s = (q[0, 0].astype(np.float64) @ k[0, 0].astype(np.float64).T) * 0.5
    expected = np.log2(np.exp(np.where(np.tri(40, dtype=bool), s, -np.inf)).sum(1))
    assert np.abs(lse[0] - expected).max() < 1e-4


def test_a_missing_file_fails_in_one_sentence(qtbot: QtBot, make_client: Callable[..., WorkerClient]) -> None:
    client = make_client()
    with qtbot.waitSignal(client.failed, timeout=60_000) as blocker:
        number = client.run(SMALL.change(inputs="/nowhere/x.npz"))
    assert blocker.args == [number, "There is no file /nowhere/x.npz; choose one that holds q, k and v."]


def test_cancel_kills_at_once_and_the_next_run_starts_anew(qtbot: QtBot, shared: WorkerClient) -> None:
    run_and_wait(qtbot, shared)
    heard = Heard(shared)
    with qtbot.waitSignal(shared.progress, timeout=60_000):
        cancelled = shared.run(Problem(seqlen_q=8192, seqlen_k=8192))
    (process,) = processes(shared)
    pid = process.processId()
    start = time.process_time()
    shared.cancel()
    assert time.process_time() - start < 0.1
    assert not shared.busy
    qtbot.waitUntil(lambda: not _alive(pid), timeout=10_000)
    heard.events.clear()
    assert run_and_wait(qtbot, shared).ok
    assert {event[1] for event in heard.events if event[0] in ("progress", "failed")} == {cancelled + 1}


def test_a_newer_run_replaces_the_one_on_its_way(qtbot: QtBot, shared: WorkerClient) -> None:
    heard = Heard(shared)
    shared.run(Problem(seqlen_q=8192, seqlen_k=8192))
    assert run_and_wait(qtbot, shared).lse.shape == (1, 40)
    assert len(heard.of("finished")) == 1
    assert not heard.of("failed")


def test_killed_from_outside_during_a_run(qtbot: QtBot, shared: WorkerClient) -> None:
    with qtbot.waitSignal(shared.progress, timeout=60_000):
        number = shared.run(Problem(seqlen_q=8192, seqlen_k=8192))
    heard = Heard(shared)
    with qtbot.waitSignal(shared.failed, timeout=10_000) as blocker:
        os.kill(processes(shared)[0].processId(), signal.SIGKILL)
    assert blocker.args == [number, "The worker was killed (SIGKILL); the next run starts it again."]
    assert not heard.of("died")
    assert run_and_wait(qtbot, shared).ok


def test_killed_from_outside_while_idle(qtbot: QtBot, make_client: Callable[..., WorkerClient], fake: Callable) -> None:
    client = make_client(fake("time.sleep(60)"))
    with qtbot.waitSignal(client.ready, timeout=10_000):
        client.start()
    heard = Heard(client)
    with qtbot.waitSignal(client.died, timeout=10_000):
        os.kill(processes(client)[0].processId(), signal.SIGTERM)
    assert heard.events == [("died", "The worker was killed (SIGTERM); the next run starts it again.")]
    assert client.hello is None


@pytest.mark.parametrize(
    "body, sentence",
    [
        ("print('Traceback', flush=True); time.sleep(60)", "Bytes that are no message arrived, beginning 'Traceback"),
        ("sys.stdout.buffer.write(protocol.MAGIC + b'\\xff' * 9); sys.stdout.flush(); time.sleep(60)", "4,294,967,295"),
        ("sys.stdout.buffer.write(protocol.encode(dict(a=1))[:-1])", "The worker ended with status 0"),
        ("print('no more luck', file=sys.stderr); sys.exit(3)", "status 3, saying: no more luck"),
        ("send(dict(type='result', number=1, result={})); time.sleep(60)", "result cannot be read"),
        ("send(dict(type='hello', protocol=99)); time.sleep(60)", "version 99 of the protocol"),
        ("send(dict(type='error', number=1, message='Gone wrong.', fatal=True)); time.sleep(60)", "Gone wrong."),
        ("send(dict(type='error', number=1, message='x\\n' * 10**5, fatal=False)); time.sleep(60)", "x x x"),
        ("send(dict(type='error', number=1, fatal=True)); time.sleep(60)", "failed, and does not say why"),
        ("send(dict(op='run', number=1)); time.sleep(60)", "not as a worker does"),
        ("send(dict(type=[1], number=1)); time.sleep(60)", "not as a worker does"),
        ("sys.stdout.buffer.write(bytes(10**6)); sys.stdout.flush(); time.sleep(60)", "Bytes that are no message"),
    ],
)
def test_misbehaving_workers(
    qtbot: QtBot, make_client: Callable[..., WorkerClient], fake: Callable, body: str, sentence: str
) -> None:
    client = make_client(
        fake("messages = protocol.messages(sys.stdin.buffer); next(messages); next(messages)\n" + body)
    )
    heard = Heard(client)
    with qtbot.waitSignal(client.failed, timeout=10_000) as blocker:
        number = client.run(SMALL)
    assert blocker.args is not None
    assert blocker.args[0] == number
    assert sentence in blocker.args[1]
    assert "\n" not in blocker.args[1]
    assert len(blocker.args[1]) <= 500
    assert not client.busy
    assert len(heard.of("failed")) == 1
    assert not heard.of("died")


def test_a_flood_of_progress_is_told_now_and_then(
    qtbot: QtBot, make_client: Callable[..., WorkerClient], fake: Callable
) -> None:
    body = """
messages = protocol.messages(sys.stdin.buffer)
next(messages), next(messages)
for i in range(3000):
    send(dict(type="progress", number=1, stage="a\\n" * 2000, fraction=float("nan") if i % 2 else 1e308))
time.sleep(0.3)
send(dict(type="error", number=1, message="Enough.", fatal=False))
time.sleep(60)
"""
    client = make_client(fake(body))
    heard = Heard(client)
    with qtbot.waitSignal(client.failed, timeout=20_000):
        client.run(SMALL)
    told = heard.of("progress")
    assert 1 < len(told) < 1000
    assert told[-1][2] is None
    assert {fraction for _, _, fraction in told} <= {None, 1.0}
    assert all(len(stage) <= 500 and "\n" not in stage for _, stage, _ in told)


@pytest.mark.parametrize("command", ["/nowhere/flashscope worker", "'unclosed", "  "])
def test_a_command_that_cannot_start(qtbot: QtBot, make_client: Callable[..., WorkerClient], command: str) -> None:
    client = make_client(command)
    heard = Heard(client)
    with qtbot.waitSignal(client.failed, timeout=10_000) as blocker:
        number = client.run(SMALL)
    assert blocker.args is not None
    assert blocker.args[0] == number
    assert "worker" in blocker.args[1]
    qtbot.wait(50)
    assert len(heard.events) == 1


def test_a_command_that_prints_nothing_says_what_is_waited_for(
    qtbot: QtBot, make_client: Callable[..., WorkerClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_client, "FIRST_WORD_SECONDS", 1)
    client = make_client("sleep 600")
    said: list[str] = []
    client.silent.connect(said.append)
    client.run(SMALL)
    qtbot.waitUntil(lambda: len(said) == 2, timeout=20_000)
    assert said[0].startswith("“sleep 600” has started and says nothing for 1 s. Check in a terminal")
    assert "says nothing for 2 s" in said[1]
    pid = processes(client)[0].processId()
    client.cancel()
    qtbot.waitUntil(lambda: not _alive(pid), timeout=10_000)
    qtbot.wait(1200)
    assert len(said) == 2


def test_a_worker_that_speaks_again_is_silent_no_more(
    qtbot: QtBot, make_client: Callable[..., WorkerClient], fake: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_client, "NEXT_WORD_SECONDS", 1)
    body = """
messages = protocol.messages(sys.stdin.buffer); next(messages); next(messages)
send(dict(type="progress", number=1, stage="compiling", fraction=0.5))
print("nvcc is slow today", file=sys.stderr, flush=True)
time.sleep(2.5)
send(dict(type="error", number=1, message="Enough.", fatal=False))
time.sleep(60)
"""
    client = make_client(fake(body))
    said: list[str] = []
    client.silent.connect(said.append)
    with qtbot.waitSignal(client.failed, timeout=20_000):
        client.run(SMALL)
    start = "The worker has said nothing for 1 s, at “compiling” (it wrote: nvcc is slow today). Importing torch or"
    assert said[0].startswith(start)
    assert said[-1] == ""
    qtbot.wait(1200)  # nothing is due any more
    assert said[-1] == ""


def test_the_waiting_call_tells_of_a_silence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_call, "FIRST_WORD_SECONDS", 0.2)
    told: list[str] = []
    with pytest.raises(WorkerError, match="ended with status 0"):
        call_worker(SMALL, "sleep 1", lambda stage, fraction: told.append(stage))
    assert told == ["the worker has said nothing for 0.2 s; given up after 120 s"]


@pytest.mark.parametrize("stage", ["", "importing torch"])
@pytest.mark.parametrize("command", [None, "ssh " + "x" * 10**4])
def test_what_is_said_of_a_silence_is_short(command: str | None, stage: str) -> None:
    said = silence(command, 20, stage, b"y" * 10**4)
    assert "20 s" in said
    assert "cancel" in said
    assert len(said) < 500


def test_results_of_another_run_are_dropped(
    qtbot: QtBot, make_client: Callable[..., WorkerClient], fake: Callable
) -> None:
    body = """
messages = protocol.messages(sys.stdin.buffer); next(messages); next(messages)
send(dict(type="progress", number=7, stage="of another", fraction=0.5))
send(dict(type="error", number=7, message="of another", fatal=False))
send(dict(type="error", number=1, message="Mine.", fatal=False))
time.sleep(60)
"""
    client = make_client(fake(body))
    heard = Heard(client)
    with qtbot.waitSignal(client.failed, timeout=10_000):
        client.run(SMALL)
    assert [event for event in heard.events if event[0] != "ready"] == [("failed", 1, "Mine.")]


def test_another_environments_python(qtbot: QtBot, make_client: Callable[..., WorkerClient], tmp_path: Path) -> None:
    """--worker with a second environment: its own Python, which finds this one's packages through a .pth file."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "other")], check=True)
    (site,) = (tmp_path / "other").glob("lib/python*/site-packages")
    packages = [str(ROOT), *[p for p in sys.path if p.endswith("site-packages")]]
    (site / "here.pth").write_text("\n".join(packages))
    command = shlex.join([str(tmp_path / "other/bin/python"), "-m", "kernel.worker"])
    client = make_client(command)
    result = run_and_wait(qtbot, client)
    assert result.ok
    assert result.mirror_o_differing == 0
    assert processes(client)[0].program().startswith(str(tmp_path))
    assert call_worker(SMALL, command).ok


def test_close_leaves_no_process(qtbot: QtBot, make_client: Callable[..., WorkerClient], fake: Callable) -> None:
    client = make_client(fake("time.sleep(60)"))
    with qtbot.waitSignal(client.ready, timeout=10_000):
        client.start()
    pid = processes(client)[0].processId()
    client.close()
    assert not _alive(pid)


def test_the_waiting_call_tells_why(fake: Callable) -> None:
    assert call_hello(fake("time.sleep(60)")).device == "a fake"
    for command, sentence in (
        (fake("sys.exit('no room')"), "The worker ended with status 1, saying: no room."),
        (fake("print('hi', flush=True); time.sleep(60)"), "Bytes that are no message arrived, beginning 'hi"),
        ("/nowhere/python", "The worker '/nowhere/python' cannot be started (No such file or directory)"),
    ):
        with pytest.raises(WorkerError) as error:
            call_worker(SMALL, command)
        assert str(error.value).startswith(sentence)
    with pytest.raises(WorkerError, match="answers, but not as a worker does"):
        call_worker(SMALL, "cat")
    with pytest.raises(WorkerError, match=r"did not answer in 0\.2 s"):
        call_hello("sleep 60", 0.2)


def test_texts_and_lists_of_a_worker_are_cut() -> None:
    hello = {"backend": "interpreter", "device": "d\n" * 10**5, "reason": "\x1b[2J", "seconds": 0}
    found = Hello.from_message(hello | {"versions": {f"v{i}": [i] * 1000 for i in range(1000)}})
    assert found.device.startswith("d d d ")
    assert max(map(len, (found.device, *found.versions.values()))) <= 500
    assert found.reason == "[2J"
    assert 0 < len(found.versions) < 100


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
