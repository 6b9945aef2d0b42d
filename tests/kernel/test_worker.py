"""The worker process, spoken to in its own protocol; and what its failures say."""

import io
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernel import machine, protocol
from kernel.expected import expected_seconds
from kernel.problem import Problem, ProblemError
from kernel.results import Hello, RunResult
from kernel.tiling import Tiling
from kernel.worker import main, read_problem

ROOT = Path(__file__).parents[2]
SMALL = Problem(heads=1, kv_heads=1, seqlen_q=40, seqlen_k=40, head_dim=16, block_m=16, block_n=16)
SLOW = Problem(seqlen_q=8192, seqlen_k=8192)


class Process:
    """A worker and the two ends of its pipes."""

    def __init__(self, code: str = "") -> None:
        run = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}\nfrom kernel.worker import main\nsys.exit(main())"
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, "-c", run], stdin=pipe, stdout=pipe, stderr=pipe)
        assert isinstance(self.process.stdout, io.BufferedReader)
        self.messages = protocol.messages(self.process.stdout)

    def send(self, **message: Any) -> None:
        self.write(protocol.encode(message))

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def run(self, problem: Problem, number: int = 1, **more: Any) -> None:
        self.send(op="run", number=number, problem=asdict(problem), **more)

    def answer(self) -> dict[str, Any]:
        """The next message that tells no progress."""
        return next(m for m in self.messages if m["type"] != "progress")

    def error(self) -> str:
        message = self.answer()
        assert message["type"] == "error", message
        assert "\n" not in message["message"]
        return message["message"]

    def end(self) -> tuple[int, bytes]:
        """Closes its stdin; its exit status, and what it wrote to stderr."""
        assert self.process.stdin is not None and self.process.stdout is not None and self.process.stderr is not None
        self.process.stdin.close()
        status = self.process.wait(30)
        text = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return status, text

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None and not stream.closed:
                stream.close()


@pytest.fixture(scope="module")
def worker() -> Iterator[Process]:
    """One worker for all tests that leave it alive; it has said hello, so it has torch, whichever test comes first."""
    process = Process()
    process.send(op="hello")
    assert process.answer()["type"] == "hello"
    yield process
    process.kill()


@pytest.fixture
def start() -> Iterator[Any]:
    started: list[Process] = []

    def make(code: str = "") -> Process:
        started.append(Process(code))
        return started[-1]

    yield make
    for process in started:
        process.kill()


def test_hello_says_where_kernels_run(worker: Process) -> None:
    worker.send(op="hello")
    message = worker.answer()
    assert message["protocol"] == protocol.VERSION
    hello = Hello.from_message(message["hello"])
    assert hello.backend == "interpreter"
    assert hello.can_run
    assert {"python", "torch", "triton", "numpy"} <= set(hello.versions)
    assert "time is not" in hello.sentence


def test_runs_carry_their_numbers(worker: Process) -> None:
    for number in (3, 8):
        worker.run(SMALL, number, timing=False)
        message = worker.answer()
        assert (message["type"], message["number"]) == ("result", number)
        result = RunResult.from_message(message["result"], SMALL)
        assert result.ok
        assert result.times == ()


def test_progress_comes_with_stage_and_fraction(worker: Process) -> None:
    worker.run(SMALL, 5)
    message = next(worker.messages)
    assert message == {"type": "progress", "number": 5, "stage": "drawing inputs", "fraction": 0.0}
    assert worker.answer()["type"] == "result"


def test_the_interpreter_tells_of_every_tile() -> None:
    """Of one program with 8 tiles, and of 3 whose first has one: by tiles, since a long row may take minutes."""
    from kernel.run import run

    here = Hello(backend="interpreter", device="here", versions={}, reason="", seconds=0.1)
    for problem in (SMALL.change(seqlen_q=16, seqlen_k=128, causal=False), SMALL.change(seqlen_q=48, seqlen_k=48)):
        told: list[float] = []
        run(problem, None, here, lambda stage, at, told=told: stage == "running kernel" and told.append(at), False)
        share = (np.array(told) - told[0]) / expected_share(problem)
        tiles = problem.num_heads * int(Tiling(problem).visited.sum())
        assert np.all(np.diff(share) >= 0)
        assert np.isin(np.arange(tiles + 1), np.round(share * tiles, 6)).all()


def expected_share(problem: Problem) -> float:
    """Of the kernel's stage in the whole run."""
    seconds = expected_seconds(problem, False, False)
    return seconds["running kernel"] / sum(seconds.values())


@pytest.mark.parametrize(
    "fields, field, words",
    [
        ({"seqlen_q": 10**9}, "seqlen_q", "seqlen_q is 1,000,000,000"),
        ({"heads": "many"}, "heads", "heads is 'many'"),
        ({"colour": "red"}, "problem", "no problem field 'colour'"),
        ({"inputs": "/etc/passwd"}, "inputs", "passwd is neither .npz nor .safetensors"),
    ],
)
def test_problems_that_cannot_be(worker: Process, fields: dict[str, Any], field: str, words: str) -> None:
    worker.send(op="run", number=2, problem=asdict(SMALL) | fields)
    message = worker.answer()
    assert (message["type"], message["number"], message["field"], message["fatal"]) == ("error", 2, field, False)
    assert words in message["message"]


def test_tensors_that_are_sent_are_those_that_are_used(worker: Process) -> None:
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal(40 * 16).astype(np.float16) for _ in range(3))
    worker.run(SMALL.change(causal=False), 9, tensors=True)
    for name, x in (("q", q), ("k", k), ("v", v)):
        for start in range(0, len(x), 100):
            worker.send(op="tensor", number=9, name=name, part=x[start : start + 100])
    result = RunResult.from_message(worker.answer()["result"], SMALL)
    s = 0.5 * q.reshape(40, 16).astype(np.float64) @ k.reshape(40, 16).T.astype(np.float64)
    assert np.abs(result.lse[0] - np.log2(np.exp(s).sum(1))).max() < 1e-4
    assert result.ok


def test_parts_of_a_refused_run_are_passed_over(worker: Process) -> None:
    worker.send(op="run", number=4, problem=asdict(SMALL) | {"heads": 0}, tensors=True)
    worker.send(op="tensor", number=4, name="q", part=np.zeros(8, np.float16))
    assert "heads is 0" in worker.error()
    worker.run(SMALL, 5)
    assert worker.answer()["type"] == "result"


@pytest.mark.parametrize(
    "sent, words",
    [
        ({"op": "tensor", "name": "k", "part": np.zeros(4, np.float16)}, "something else came"),
        ({"op": "tensor", "name": "q", "part": [1, 2]}, "something else came"),
        ({"op": "tensor", "name": "q", "part": np.zeros(4, np.float32)}, "has 4 numbers of float32"),
        ({"op": "tensor", "name": "q", "part": np.zeros(641, np.float16)}, "has 641 numbers"),
        ({"op": "tensor", "name": "q", "part": np.zeros(0, np.float16)}, "has 0 numbers"),
        ({"op": "dance"}, "something else came"),
    ],
)
def test_wrong_parts_end_the_worker(start: Any, sent: dict[str, Any], words: str) -> None:
    worker = start("import kernel.worker; kernel.worker.machine.hello = lambda: None")
    worker.run(SMALL, tensors=True)
    worker.send(**sent)
    assert words in worker.error()
    assert worker.process.wait(10) == 1


@pytest.mark.parametrize(
    "data, words",
    [
        (b"GET / HTTP/1.1\r\n\r\n", "beginning 'GET / HTTP/1.1"),
        (protocol.MAGIC + b"\xff\xff\xff\xff", "announces 4,294,967,295 bytes"),
        (protocol.MAGIC + b"\x01\x00\x00\x00\xc1", "damaged"),
        (protocol.encode({"op": "dance"}), "knows no 'dance'"),
    ],
)
def test_what_is_no_request_ends_the_worker_with_a_sentence(start: Any, data: bytes, words: str) -> None:
    worker = start()
    worker.write(data)
    message = worker.answer()
    assert message["fatal"]
    assert words in message["message"]
    assert worker.process.wait(10) == 1


def test_a_frame_that_is_cut_off(start: Any) -> None:
    worker = start()
    worker.write(protocol.encode({"op": "hello"})[:-1])
    status, _ = worker.end()
    assert status == 1


def test_a_client_that_goes_ends_a_run(start: Any) -> None:
    worker = start()
    worker.run(SLOW)
    next(m for m in worker.messages if m.get("stage") == "running kernel")
    assert worker.end()[0] == 0


def test_what_libraries_print_goes_to_stderr(start: Any) -> None:
    code = """
import os, subprocess
import kernel.run
before = kernel.run.attend
def loud(*args):
    print("printed by a library")
    os.write(1, b"written by C\\n")
    subprocess.run(["echo", "said by a child"])
    print(repr(sys.stdin.read()), "was read")
    return before(*args)
kernel.run.attend = loud
"""
    worker = start(code)
    worker.run(SMALL)
    message = worker.answer()
    assert message["type"] == "result", message
    status, text = worker.end()
    assert status == 0
    for words in (b"printed by a library", b"written by C", b"said by a child", b"'' was read"):
        assert words in text


@pytest.mark.parametrize(
    "code, words",
    [
        ("sys.modules['triton'] = None", "triton is not installed for"),
        ("sys.modules['torch'] = None", "torch is not installed for"),
        (
            "sys.modules['triton'] = None; sys.platform = 'darwin'",
            "there is no Triton for",
        ),
        (
            "import kernel.machine; kernel.machine._release = dict(triton=(3, 6), numpy=(2, 4)).get",
            "needs Triton 3.7 or NumPy below 2.4; here are Triton",
        ),
        ("sys.modules['kernel.attention'] = None", "The kernel cannot be loaded with the Triton that is here"),
    ],
)
def test_a_machine_that_cannot_run_kernels_says_why(start: Any, code: str, words: str) -> None:
    worker = start(code)
    worker.send(op="hello")
    hello = Hello.from_message(worker.answer()["hello"])
    assert hello.backend == "none"
    assert not hello.can_run
    assert words in hello.reason
    worker.run(SMALL)
    assert worker.error() == hello.reason == hello.sentence


def test_an_illegal_address_ends_the_worker_after_its_sentence(start: Any) -> None:
    code = """
import kernel.run
def fault(*args):
    raise RuntimeError("CUDA error: an illegal memory access was encountered\\nCUDA kernel errors might be ...")
kernel.run.attend = fault
"""
    worker = start(code)
    worker.run(SMALL)
    message = worker.answer()
    assert message["fatal"]
    assert message["message"].startswith("The GPU stopped the kernel (CUDA error: an illegal memory access")
    assert worker.process.wait(10) == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stdin", [Terminal(), None])
def test_no_terminal_is_taken_for_a_client(
    stdin: io.StringIO | None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main() == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("This is the worker of FlashScope")


def test_it_dies_when_killed(start: Any) -> None:
    worker = start()
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(10) == -signal.SIGTERM


class OutOfMemoryError(RuntimeError):
    """As torch's."""


class CompilationError(Exception):
    """As Triton's."""


@pytest.mark.parametrize(
    "error, words, fatal",
    [
        (ProblemError("heads", "heads is 0."), "heads is 0.", False),
        (
            OutOfMemoryError(
                "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.81 GiB of which "
                "12.34 GiB is free. Process 1 has ..."
            ),
            "The GPU is out of memory: 20.00 GiB more were asked and 12.34 GiB were free. Make batch, heads,",
            False,
        ),
        (
            RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be ..."),
            "The GPU is out of memory: more was asked than there is. Make batch, heads,",
            False,
        ),
        (
            MemoryError("Unable to allocate 8.00 EiB for an array with shape (1,) and data type float64"),
            "The worker has no memory for 8.00 EiB. Make",
            False,
        ),
        (RuntimeError("CUDA error: misaligned address"), "The GPU stopped the kernel (CUDA error: misaligned", True),
        (ValueError("block_m is 512; it needs 300,000 bytes."), "block_m is 512; it needs 300,000 bytes.", False),
        (
            CompilationError("at 12:4:\n  x = y\n  ^\ny is not defined\n"),
            "The kernel does not compile here (y is",
            False,
        ),
        (ValueError("two\nlines"), "The run failed: ValueError: two.", False),
        (KeyError("q"), "The run failed: KeyError: 'q'.", False),
        (RuntimeError(), "The run failed: RuntimeError: RuntimeError.", False),
    ],
)
def test_failures_in_a_persons_words(error: BaseException, words: str, fatal: bool) -> None:
    text, ends = machine.sentence(error)
    assert text.startswith(words)
    assert "\n" not in text
    assert ends is fatal


def test_memory_that_numpy_does_not_get() -> None:
    with pytest.raises(MemoryError) as caught:
        np.empty(1 << 60, np.uint8)
    assert machine.sentence(caught.value)[0].startswith("The worker has no memory for 1.00 EiB.")


def test_read_problem_takes_what_asdict_gives() -> None:
    assert read_problem(asdict(SMALL)) == SMALL
    with pytest.raises(ProblemError):
        read_problem([1])


def test_tensors_and_arrays_are_the_same_bits() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    for dtype in ("float16", "bfloat16"):
        x = bits.view(protocol.DTYPES[dtype])
        back = machine.array(machine.tensor(x, "cpu"))
        assert back.dtype == x.dtype
        assert np.array_equal(back.view(np.uint16), bits)
