"""The process that owns torch, triton and the GPU: `python -m kernel.worker` speaks kernel.protocol on its stdio.

Messages in: {"op": "hello"}, {"op": "run", "number", "problem", "tensors", "timing"}, and where "tensors" is true then
{"op": "tensor", "name", "part"} in flat pieces, q, k and v in turn, until each is whole.
Messages out: {"type": "hello", ...}, {"type": "progress", "number", "stage", "fraction"}, {"type": "result", "number",
"result"}, {"type": "error", "number", "message", "field", "fatal"}; after a fatal one the process ends.
The process also ends, whatever it is doing, when its stdin is closed: so a run on another machine is cancelled.
"""

from __future__ import annotations

import math
import os
import queue
import sys
import threading
import time
import traceback
from dataclasses import asdict
from io import BufferedReader
from typing import Any, BinaryIO, Final

import numpy as np

from kernel import machine, protocol
from kernel.inputs import NUMPY_DTYPES, Inputs
from kernel.machine import CannotRun
from kernel.problem import FIELDS, Problem, ProblemError
from kernel.results import Hello

QUIET_SECONDS: Final = 0.05


class Worker:
    """Answers messages of one client, one at a time."""

    def __init__(self, source: BufferedReader, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._messages: queue.SimpleQueue[protocol.Message | protocol.ProtocolError] = queue.SimpleQueue()
        self._where: Hello | None = None
        self._number = 0
        self._told = ("", 0.0)

    def serve(self) -> int:
        """Works until the client goes; returns the exit status."""
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            message = self._messages.get()
            try:
                self._answer(message)
            except protocol.ProtocolError as error:
                self._fail(str(error), None, True)
                return 1
            except ProblemError as error:
                self._fail(str(error), error.field, False)
            except Exception as error:
                traceback.print_exc()
                text, fatal = machine.sentence(error)
                self._fail(text, None, fatal)
                if fatal:
                    return 1

    def _listen(self) -> None:
        """Reads all the time, so that a client that goes is noticed during a run, too."""
        try:
            for message in protocol.messages(self._source):
                self._messages.put(message)
        except protocol.ProtocolError as error:
            self._messages.put(error)
            return
        os._exit(0)

    def _answer(self, message: protocol.Message | protocol.ProtocolError) -> None:
        if isinstance(message, protocol.ProtocolError):
            raise message
        number, op = message.get("number", 0), message.get("op")
        self._number = number if isinstance(number, int) else 0
        if op == "hello":
            self._send({"type": "hello", "protocol": protocol.VERSION, "hello": asdict(self._hello())})
        elif op == "run":
            self._run(message)
        elif op != "tensor":  # parts of a run that was refused may still be on their way
            raise protocol.ProtocolError(
                f"The worker knows no {str(op)[:40]!r}; is it another version than the window?"
            )

    def _hello(self) -> Hello:
        if self._where is None:
            self._tell("importing torch", None)
            self._where = machine.hello()
        return self._where

    def _run(self, message: protocol.Message) -> None:
        problem = read_problem(message.get("problem"))
        where = self._hello()
        inputs = self._inputs(problem) if message.get("tensors") else None
        if not where.can_run:
            raise CannotRun(where.reason)
        from kernel.run import run

        result = run(problem, inputs, where, self._tell, timing=bool(message.get("timing", True)))
        self._send({"type": "result", "number": self._number, "result": result.to_message()})

    def _inputs(self, problem: Problem) -> Inputs:
        """The tensors that the client sends."""
        p = problem
        q = (p.batch, p.heads, p.seqlen_q, p.head_dim)
        kv = (p.batch, p.kv_heads, p.seqlen_k, p.head_dim)
        tensors = {}
        for name, shape in (("q", q), ("k", kv), ("v", kv)):
            whole = np.empty(math.prod(shape), NUMPY_DTYPES[p.dtype])
            done = 0
            while done < whole.size:
                self._tell("receiving inputs", None)
                part = self._part(name, whole.dtype, whole.size - done)
                whole[done : done + part.size] = part
                done += part.size
            tensors[name] = whole.reshape(shape)
        return Inputs(problem.change(inputs=None), tensors)

    def _part(self, name: str, dtype: np.dtype, left: int) -> np.ndarray:
        message = self._messages.get()
        if isinstance(message, protocol.ProtocolError):
            raise message
        part = message.get("part")
        if message.get("op") != "tensor" or message.get("name") != name or not isinstance(part, np.ndarray):
            raise protocol.ProtocolError(f"The worker waited for a part of {name}, and something else came.")
        if part.dtype != dtype or part.ndim != 1 or not 0 < part.size <= left:
            raise protocol.ProtocolError(
                f"A part of {name} has {part.size:,} numbers of {part.dtype}; "
                f"the worker waited for up to {left:,} of {dtype}."
            )
        return part

    def _tell(self, stage: str, fraction: float | None) -> None:
        """Progress, but not more often than a person can see."""
        now = time.monotonic()
        if stage == self._told[0] and now - self._told[1] < QUIET_SECONDS:
            return
        self._told = (stage, now)
        self._send({"type": "progress", "number": self._number, "stage": stage, "fraction": fraction})

    def _fail(self, text: str, field: str | None, fatal: bool) -> None:
        message = {"type": "error", "number": self._number, "message": text, "field": field, "fatal": fatal}
        self._send(message)

    def _send(self, message: protocol.Message) -> None:
        try:
            self._sink.write(protocol.encode(message))
            self._sink.flush()
        except OSError:
            os._exit(0)  # the client has gone


def read_problem(fields: Any) -> Problem:
    """The problem in a message. Raises ProblemError."""
    if not isinstance(fields, dict):
        raise ProblemError("problem", "The problem of a run must be a group of fields.")
    unknown = sorted(set(fields) - set(FIELDS))
    if unknown:
        raise ProblemError(
            "problem", f"The worker knows no problem field {unknown[0][:40]!r}; it may be an older version."
        )
    return Problem(**fields)


def main() -> int:
    """Takes stdin and stdout for the protocol: whatever a library prints goes to stderr, and it reads nothing."""
    if sys.stdin is None or sys.stdin.isatty():
        print(
            "This is the worker of FlashScope; the window and `flashscope check` start it themselves.", file=sys.stderr
        )
        return 2
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return Worker(source, sink).serve()


if __name__ == "__main__":
    sys.exit(main())
