"""What is said to somebody who waits for a worker, at a terminal and in a pipe."""

import io
import shlex
import sys
import time
from pathlib import Path

import pytest

from kernel.problem import Problem
from kernel.results import Hello
from visualizer import cli, waiting
from visualizer.waiting import Waiting

ROOT = Path(__file__).parents[2]
WORKER = """
import sys
sys.path.insert(0, {root!r})
from kernel import protocol
messages = protocol.messages(sys.stdin.buffer)
def send(**message):
    sys.stdout.buffer.write(protocol.encode(message))
    sys.stdout.buffer.flush()
assert next(messages)["op"] == "hello"
hello = dict(backend={backend!r}, device="here", versions={{}}, reason="", seconds=0.1)
send(type="hello", protocol=protocol.VERSION, hello=hello)
assert next(messages)["op"] == "run"
send(type="error", number=1, message="It ends here.", field=None, fatal=False)
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written_over(text: str) -> list[str]:
    """The lines that a terminal shows in turn."""
    return [line for part in text.split("\n") for line in part.split("\r\x1b[K") if line]


@pytest.mark.parametrize(
    ("backend", "options", "words"),
    [
        ("interpreter", ["--seqlen", "1000000"], "which takes about 10 days for 122,101,562 tiles; Ctrl+C ends it"),
        ("interpreter", ["--seqlen", "16384", "--heads", "1"], "which takes about 2 min for 16,512 tiles"),
        ("interpreter", ["--seqlen", "1024"], None),
        ("cuda", ["--seqlen", "1000000"], None),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_only_what_takes_long_is_warned_of(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    backend: str,
    options: list[str],
    words: str | None,
    as_json: bool,
) -> None:
    (tmp_path / "worker.py").write_text(WORKER.format(root=str(ROOT), backend=backend))
    command = shlex.join([sys.executable, str(tmp_path / "worker.py")])
    assert cli.main(["check", *options, "--worker", command, *["--json"] * as_json]) == 1
    *warnings, end = capfd.readouterr().err.splitlines()
    assert end == "flashscope check: It ends here."
    assert len(warnings) == (words is not None)
    assert words is None or words in warnings[0]


def test_a_terminal_is_told_all_the_time_and_left_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setattr(waiting, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(waiting, "MEASURED_SECONDS", 0.0)
    with Waiting("check", Problem(seqlen_q=10**6, seqlen_k=10**6)) as wait:
        wait.progress("importing torch", None)
        wait.hello(Hello(backend="interpreter", device="here", versions={}, reason="", seconds=0.1))
        wait.progress("running kernel", 0.25)
        time.sleep(0.01)
        wait.progress("running kernel", 0.5)
        seen = len(terminal.getvalue())
        while len(terminal.getvalue()) == seen:  # without a word from the worker
            time.sleep(0.01)
    lines = written_over(terminal.getvalue())
    assert any(line.startswith("importing torch · 0 s") for line in lines)
    assert sum("takes about 10 days" in line for line in lines) == 1
    assert lines[-1].startswith(" 50 %  running kernel · 0 s · about ")
    assert lines[-1].endswith(" left")
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_pipe_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", pipe := io.StringIO())
    monkeypatch.setattr(waiting, "PIPE_SECONDS", 0.01)
    with Waiting("check", Problem()) as wait:
        wait.progress("exact reference", 0.75)
        while "\n" not in pipe.getvalue():
            time.sleep(0.01)
    assert "flashscope check:  75 %  exact reference\n" in pipe.getvalue()
    assert "\r" not in pipe.getvalue()


def test_a_pipe_hears_nothing_of_a_short_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", pipe := io.StringIO())
    with Waiting("check", Problem()) as wait:
        wait.progress("exact reference", 0.75)
    assert pipe.getvalue() == ""
