"""How the application starts a worker and asks it, without Qt: the command, the messages, and a call that waits."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final, cast

import kernel
from kernel import protocol
from kernel.inputs import Inputs
from kernel.problem import Problem
from kernel.results import Hello, RunResult, words

TAIL_BYTES: Final = 4096
PART_BYTES: Final = 4 << 20
KINDS: Final = ("hello", "progress", "result", "error")
HELLO_SECONDS: Final = 120.0
FIRST_WORD_SECONDS: Final = 20  # a worker speaks before it imports torch: in a second here, in a few over ssh
NEXT_WORD_SECONDS: Final = 60  # importing torch from a cold disk, or compiling, says nothing for a while
OnProgress = Callable[[str, float | None], None]


class WorkerError(Exception):
    """The worker cannot be started, ended, or says why it cannot do what was asked; one sentence."""


def command_line(command: str | None) -> list[str]:
    """The worker's program and arguments; None: this Python. Raises WorkerError."""
    if command is None:
        # -P: a folder named "kernel" where the person stands must not be run
        return [sys.executable, "-P", "-m", "kernel.worker"]
    try:
        parts = shlex.split(command)
    except ValueError as error:
        raise WorkerError(f"The worker command {command!r} cannot be split into words ({error}).") from error
    if not parts:
        raise WorkerError("The worker command is empty; name a program, or leave --worker out.")
    return parts


def environment(command: str | None) -> dict[str, str]:
    """The worker's environment: this process's; its own worker finds `kernel` where this process found it."""
    found = dict(os.environ)
    if command is None:
        root = str(Path(kernel.__file__).resolve().parent.parent)
        found["PYTHONPATH"] = os.pathsep.join(filter(None, [root, found.get("PYTHONPATH")]))
    return found


def run_messages(number: int, problem: Problem, inputs: Inputs | None, timing: bool = True) -> Iterator[bytes]:
    """The frames that ask for a run; tensors that come from a file travel along, in parts of a few MiB."""
    send = problem.inputs is not None
    fields = asdict(problem) | {"inputs": None}
    yield protocol.encode({"op": "run", "number": number, "problem": fields, "tensors": send, "timing": timing})
    if not send:
        return
    inputs = inputs or Inputs(problem)
    for name in "qkv":
        flat = inputs.stacked(name).reshape(-1)
        step = PART_BYTES // problem.itemsize
        for start in range(0, flat.size, step):
            yield protocol.encode({"op": "tensor", "number": number, "name": name, "part": flat[start : start + step]})


def read_hello(message: protocol.Message) -> Hello:
    """The hello in a message. Raises ValueError, also when the worker is of another version."""
    if message.get("protocol") != protocol.VERSION:
        raise ValueError(
            f"The worker speaks version {str(message.get('protocol'))[:20]} of the protocol, this program version "
            f"{protocol.VERSION}; install the same FlashScope on both sides."
        )
    return Hello.from_message(message.get("hello", {}))


def kind_of(message: protocol.Message) -> str:
    """ "hello", "progress", "result" or "error". Raises WorkerError where the other side is no worker (`cat`, say)."""
    kind = message.get("type")
    if kind not in KINDS:
        raise WorkerError("The worker command answers, but not as a worker does; name one that runs flashscope worker.")
    return kind


def progress_in(message: protocol.Message) -> tuple[str, float | None]:
    """The stage, and how far it has come, 0 to 1, where that is known."""
    fraction = message.get("fraction")
    if not isinstance(fraction, float) or not math.isfinite(fraction):
        fraction = None
    return words(message.get("stage")), None if fraction is None else min(1.0, max(0.0, fraction))


def complaint_in(message: protocol.Message) -> str:
    """What an error message says."""
    text = message.get("message")
    return words(text) if isinstance(text, str) and text.strip() else "The worker failed, and does not say why."


def ended(status: int | None, tail: bytes) -> str:
    """Why a worker is gone, in one sentence; a negative status is the signal that killed it."""
    if status is None:
        how = "was killed"
    elif status < 0:
        try:
            how = f"was killed ({signal.Signals(-status).name})"
        except ValueError:
            how = f"was killed (signal {-status})"
    else:
        how = f"ended with status {status}"
    said = last_line(tail)
    return f"The worker {how}{f', saying: {said}' if said else ''}."


def last_line(tail: bytes) -> str:
    """The last line that the worker wrote to stderr, cut to a readable length."""
    lines = [line.strip() for line in tail.decode("utf-8", "replace").splitlines() if line.strip()]
    if not lines:
        return ""
    text = "".join(c for c in lines[-1] if c.isprintable()).rstrip(".")
    return text if len(text) <= 160 else text[:159] + "…"


def silence(command: str | None, seconds: int, stage: str, tail: bytes) -> str:
    """What is waited for, and what to do, when a worker that runs says nothing; `stage`: what it said last, or ""."""
    said = last_line(tail)
    heard = f" (it wrote: {said})" if said else ""
    if stage:
        return (
            f"The worker has said nothing for {seconds} s, at “{stage}”{heard}. Importing torch or compiling can take "
            "minutes on a slow machine; if it lasts longer, cancel and run again."
        )
    if command is None:
        return (
            f"The worker process has started and says nothing for {seconds} s{heard}. A slow disk may still be loading "
            "Python; if it lasts longer, cancel, and see what flashscope doctor says."
        )
    return (
        f"{shown_command(command)} has started and says nothing for {seconds} s{heard}. Check in a terminal that it "
        "starts flashscope worker and asks for no password; cancel, and name another after --worker."
    )


def shown_command(command: str) -> str:
    """A command as sentences name it: not too long."""
    return f"“{command if len(command) <= 60 else command[:59] + '…'}”"


def call_worker(
    problem: Problem,
    command: str | None = None,
    on_progress: OnProgress | None = None,
    on_hello: Callable[[Hello], None] | None = None,
    *,
    inputs: Inputs | None = None,
    timing: bool = True,
) -> RunResult:
    """Runs the kernel in a worker and waits. Raises WorkerError.

    on_hello(what the worker says of itself) comes before the run, on_progress(stage, fraction or None) all the time.
    """
    with _Call(command, on_progress=on_progress) as call:
        if on_hello is not None:
            call.send(protocol.encode({"op": "hello"}))
        for frame in run_messages(1, problem, inputs, timing):
            call.send(frame)
        while True:
            message = call.receive()
            kind = kind_of(message)
            if kind == "progress" and on_progress is not None:
                on_progress(*progress_in(message))
            elif kind == "error":
                raise WorkerError(complaint_in(message))
            try:
                if kind == "hello" and on_hello is not None:
                    on_hello(read_hello(message))
                elif kind == "result":
                    return RunResult.from_message(message.get("result", {}), problem)
            except ValueError as error:
                raise WorkerError(str(error)) from error


def call_hello(command: str | None = None, seconds: float = HELLO_SECONDS) -> Hello:
    """What a worker says of itself; waits for it, but not for ever. Raises WorkerError."""
    with _Call(command, seconds) as call:
        call.send(protocol.encode({"op": "hello"}))
        while True:
            message = call.receive()
            kind = kind_of(message)
            if kind == "error":
                raise WorkerError(complaint_in(message))
            if kind == "hello":
                try:
                    return read_hello(message)
                except ValueError as error:
                    raise WorkerError(str(error)) from error


class _Call:
    """A worker process, from its start to its end; one that says nothing for `seconds` at its start is given up.

    on_progress hears of it before that, from another thread.
    """

    def __init__(
        self, command: str | None, seconds: float = HELLO_SECONDS, on_progress: OnProgress | None = None
    ) -> None:
        self._seconds = seconds
        self._on_progress = on_progress
        self._command = command_line(command)
        self._environment = environment(command)
        self._tail = bytearray()

    def __enter__(self) -> _Call:
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=pipe, env=self._environment)
        except OSError as error:
            raise WorkerError(cannot_start(self._command, error.strerror or str(error))) from error
        self._messages = protocol.messages(cast(BufferedReader, self._process.stdout))
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._is_late = False
        self._patience = threading.Timer(self._seconds, self._give_up)
        self._first_word = threading.Timer(FIRST_WORD_SECONDS, self._tell_silence)
        for timer in (self._patience, self._first_word):
            timer.daemon = True
            timer.start()
        return self

    def _tell_silence(self) -> None:
        if self._on_progress is not None:
            stage = f"the worker has said nothing for {FIRST_WORD_SECONDS} s; given up after {self._seconds:g} s"
            self._on_progress(stage, None)

    def _give_up(self) -> None:
        self._is_late = True
        self._process.kill()

    def __exit__(self, *_: object) -> None:
        self._patience.cancel()
        self._first_word.cancel()
        self._process.kill()
        self._process.wait()
        self._listener.join(1)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            # closing writes what a worker that is gone has not taken
            with contextlib.suppress(OSError):
                cast(BinaryIO, stream).close()

    def _listen(self) -> None:
        stream = cast(BufferedReader, self._process.stderr)
        while data := stream.read1(TAIL_BYTES):
            self._tail += data
            del self._tail[:-TAIL_BYTES]

    def send(self, frame: bytes) -> None:
        stream = cast(BinaryIO, self._process.stdin)
        # where the worker is gone, reading says why
        with contextlib.suppress(OSError):
            stream.write(frame)
            stream.flush()

    def receive(self) -> protocol.Message:
        try:
            message = next(self._messages, None)
        except protocol.ProtocolError as error:
            raise WorkerError(str(error)) from error
        self._patience.cancel()
        self._first_word.cancel()
        if message is None:
            self._process.wait()
            self._listener.join(1)
            if self._is_late:
                raise WorkerError(f"The worker did not answer in {self._seconds:g} s; check the command.")
            raise WorkerError(ended(self._process.returncode, bytes(self._tail)))
        return message


def cannot_start(command: list[str], reason: str) -> str:
    """The sentence for a worker's program that is not there or cannot be run."""
    return f"The worker {command[0]!r} cannot be started ({reason}); check the path, or leave --worker out."
