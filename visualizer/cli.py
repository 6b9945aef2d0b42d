"""The command line, from open to worker. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kernel.plain_file import is_there, shown_path
from kernel.problem import ProblemError
from visualizer import picture_commands
from visualizer.options import (
    SCALES,
    THEMES,
    UsageError,
    add_problem_options,
    check_pixels,
    names_problem,
    size,
    state_of,
    whole,
)

LONG_SCORES: Final = 1 << 29  # of a head; from here on its L takes more than a few seconds
PANELS: Final = ("tiles", "chip", "rows", "lse", "source", "run", "ledger", "transport")
ABOUT: Final = """\
A desktop microscope for the FlashAttention forward kernel: it runs the real Triton kernel, steps through its NumPy
mirror tile by tile, and checks both against exact attention."""
EXAMPLES: Final = """\
examples:
  flashscope                                           the window, as it was left
  flashscope talk.flashscope                           the window on a saved session (or tensors, or a benchmark)
  flashscope check --dtype bfloat16 --seqlen 512       is the kernel right?
  flashscope render tiles --step 300 --out t.png       a panel as a picture, without a display
  flashscope export chip --steps 0:200 --out chip.gif  a film of the steps (also .mp4, .svg, .npz, .csv)
  flashscope diff before/ after/ --html report.html    which pictures of two folders differ
  flashscope doctor                                    what is installed and what works, to paste into a report
  flashscope --worker "ssh gpu-box flashscope worker"  the window here, the kernel there"""


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the options in one sentence, without the usage."""

    def error(self, message: str):
        self.exit(2, f"{self.prog}: {message.rstrip('.')}. {self.prog} --help lists what there is.\n")


def parser() -> argparse.ArgumentParser:
    """Every command with its options."""
    raw = argparse.RawDescriptionHelpFormatter
    top = Parser(prog="flashscope", description=ABOUT, epilog=EXAMPLES, formatter_class=raw, allow_abbrev=False)
    top.add_argument("--version", action="store_true", help="print the version")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)

    def command(name: str, help: str, about: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=help, description=about, formatter_class=raw, allow_abbrev=False)

    one = command("open", "the window (also without a command)", "Opens the window, on a file or as it was left.")
    one.add_argument("file", nargs="?", type=Path, metavar="FILE", help="a session, tensors, or a saved benchmark")
    _add_worker(one)
    one.add_argument("--theme", choices=THEMES, help="the look; it is remembered")
    add_problem_options(one, session=False)

    one = command(
        "check",
        "is the kernel right?",
        "Runs the kernel, and compares it with exact attention (float64) and with its mirror.\n"
        "The exit status is 0 when it is right, 1 when it is wrong or did not run, 2 for options that cannot be.",
    )
    one.add_argument("--json", action="store_true", help="print JSON")
    _add_worker(one)
    add_problem_options(one)

    one = command("render", "a panel or the window as a PNG", "Draws a panel or the window, without a display.")
    one.add_argument(
        "panel", nargs="?", metavar="PANEL", choices=(*PANELS, "window"), help=f"{', '.join(PANELS)} or window"
    )
    one.add_argument("--all", action="store_true", help="every panel and the window; --out is a folder")
    one.add_argument("--out", type=Path, required=True, metavar="F.png", help="the file to write")
    one.add_argument(
        "--step", type=whole, metavar="N", help="the step of the tape, from 0 (the default); -1 is the last"
    )
    one.add_argument("--size", type=size, metavar="WxH", help="in pixels (900x600; the window 1440x900)")
    one.add_argument("--scale", type=int, choices=SCALES, default=1, help="pixels of the picture for each of those")
    one.add_argument("--theme", choices=THEMES, default="dark")
    one.add_argument("--run", action="store_true", help="run the kernel first, and show its result")
    one.add_argument(
        "--bench", type=Path, metavar="F", help="show a saved result of bench kernel --json in the run panel"
    )
    one.add_argument("--stable", action="store_true", help="leave out what changes: times, device and versions")
    _add_worker(one)
    add_problem_options(one)

    picture_commands.add_diff(command)
    picture_commands.add_export(command, PANELS)

    one = command(
        "bench",
        "how quick are the window and the kernel?",
        "Measures how quick the window is, or how the kernels compare with what one would use instead (needs a GPU).",
    )
    kinds = one.add_subparsers(dest="what", metavar="WHAT", required=True, parser_class=Parser)
    ui = kinds.add_parser("ui", help="the window's start, steps, seeks and memory", allow_abbrev=False)
    ui.add_argument("--json", type=Path, metavar="F", help="write the figures to a file, too")
    ui.add_argument("--seqlen", type=whole, action="append", metavar="N", help="again for more (1024, 8192, 65536)")
    ui.add_argument("--head-dim", type=whole, action="append", metavar="N", help="again for more (64)")
    kernel = kinds.add_parser("kernel", help="the kernels against cuDNN, FlashAttention and others", allow_abbrev=False)
    kernel.add_argument("--json", type=Path, metavar="F", help="write the result to a file (render run --bench F)")
    kernel.add_argument("--svg", type=Path, metavar="F", help="write the plot to a file")
    kernel.add_argument("--quick", action="store_true", help="two lengths instead of six")
    kernel.add_argument("--original", type=Path, metavar="F.py", help="time the original kernel in this file, too")

    one = command(
        "doctor", "what is installed and works", "Says what is installed, which GPU there is, and what works."
    )
    one.add_argument("--json", action="store_true", help="print JSON")
    _add_worker(one)

    command("worker", "the kernel's process", "Runs the kernel for a window elsewhere: speaks the worker's protocol.")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status. Bad input is one sentence on stderr and 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without "·" is no reason to lose a verdict
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        # what reads the output has gone, or its disk is full; nothing more can be written, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"flashscope: The output cannot be written: {error.strerror or error}.", file=sys.stderr)
        return 1


def _run(given: list[str]) -> int:
    known = parser()
    args, unknown = known.parse_known_args(_with_command(given))
    if unknown:
        named = f"flashscope {args.command}" if args.command else "flashscope"
        what = ", ".join(repr(word[:60]) for word in unknown[:3])
        print(f"{named}: There is no option or argument {what}; {named} --help lists what there is.", file=sys.stderr)
        return 2
    if args.version:
        print(f"flashscope {version()}")
        return 0
    from visualizer.state import StateError

    try:
        return COMMANDS[args.command](args)
    except (ProblemError, StateError, UsageError) as error:
        print(f"flashscope {args.command}: {error}", file=sys.stderr)
        return 2


def version() -> str:
    """The installed distribution's version."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as find

    try:
        return find("flashscope")
    except PackageNotFoundError:
        return "(not installed)"


def _with_command(given: list[str]) -> list[str]:
    """`open` is the command when none is named."""
    if given and (given[0] in COMMANDS or given[0] in ("-h", "--help", "--version")):
        return given
    return ["open", *given]


def _add_worker(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "--worker", metavar="COMMAND", help='what runs the kernel, such as "ssh gpu-box flashscope worker"'
    )


def _open(args: argparse.Namespace) -> int:
    if args.file is not None and names_problem(args):
        raise UsageError("Give a file or the problem's options, not both.")
    if args.file is not None and not is_there(args.file):
        raise UsageError(f"There is no file {shown_path(args.file)!r}{_guess(args.file.name)}")
    state = state_of(args) if names_problem(args) else None
    from visualizer import display

    if complaint := display.complaint():
        print(f"flashscope open: {complaint}", file=sys.stderr)
        return 1
    try:
        from visualizer.app import open_window
    except ImportError as error:
        return _no_qt("open", error)
    return open_window(args.file, worker=args.worker, state=state, look=args.theme)


def _guess(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, COMMANDS, 1)
    return f"; did you mean the command {close[0]}?" if close else f", and no such command ({', '.join(COMMANDS)})."


def _check(args: argparse.Namespace) -> int:
    problem = _problem_that_can_be(state_of(args).problem)
    from visualizer.check import check

    return check(problem, args.worker, args.json)


def _problem_that_can_be(problem):
    """The problem, once its file, if it has one, was found to fit."""
    if problem.inputs is not None:
        from kernel.inputs import file_problem

        found = file_problem(problem.inputs, problem)
        for name in ("batch", "heads", "kv_heads", "seqlen_q", "seqlen_k", "head_dim", "dtype"):
            asked, there = getattr(problem, name), getattr(found, name)
            if asked != there:
                raise ProblemError(name, f"{name} is {asked}, but the tensors in {problem.inputs} have {there}.")
    return problem


def _render(args: argparse.Namespace) -> int:
    if args.all == (args.panel is not None):
        raise UsageError("Name one panel, or give --all.")
    if args.all and args.size is not None:
        raise UsageError("With --all every panel has its own size; leave --size out.")
    suffix = args.out.suffix.lower()
    if args.all and suffix in picture_commands.SUFFIXES:
        raise UsageError(f"With --all --out is a folder; {str(args.out)!r} looks like a file.")
    if not args.all and suffix != ".png":
        also = f"; flashscope export {args.panel} --out {args.out} writes SVG" if suffix == ".svg" else ""
        raise UsageError(f"--out is {str(args.out)!r}; it must end in .png{also}.")
    panel: str | None = args.panel
    if args.bench is not None and (args.run or panel not in ("run", "window", None)):
        raise UsageError("--bench is for the run panel, the window or --all, and without --run.")
    # before NumPy is loaded: pictures are the same on every machine
    from visualizer.steady import enter

    enter(args.scale)
    from visualizer.stop import Stop

    with Stop() as stop:  # an interrupted import would leave a traceback
        state, problem = _placed(args)
        try:
            from visualizer.render import RenderError, natural_size, render, render_all
        except ImportError as error:
            return _no_qt("render", error)
        stop.check()
    run = None
    if args.run:
        from visualizer.frame import RunView
        from visualizer.waiting import Waiting
        from visualizer.worker_call import WorkerError, call_worker

        try:
            with Waiting("render", problem) as waiting:
                result = call_worker(problem, args.worker, waiting.progress, waiting.hello)
        except WorkerError as error:
            print(f"flashscope render: {error}", file=sys.stderr)
            return 1
        run = RunView(phase="done", message=result.sentence, worker="worker ready", result=result)
        if args.stable:
            from visualizer.stable import stable

            run = stable(run)
    bench = args.bench or (None if args.run or panel not in ("run", "window", None) else state.bench)
    if bench is not None:
        from kernel.bench_saved import SavedError
        from visualizer.saved import saved_run

        try:
            run = saved_run(bench, problem)
        except SavedError as error:
            if args.bench is not None:
                raise UsageError(str(error)) from error
            print(f"Drawn without the session's saved benchmark: {error}", file=sys.stderr)
    if panel in ("lse", "window", None) and problem.seqlen_q * problem.seqlen_k > LONG_SCORES:
        print(f"L of all {problem.seqlen_q:,} rows is computed first; that takes a while.", file=sys.stderr)
    try:
        with Stop():
            if args.all:
                render_all(state, args.out, scale=args.scale, theme=args.theme, run=run)
            else:
                size = args.size or natural_size(args.panel)
                check_pixels(size, args.scale)
                render(args.panel, state, args.out, size=size, scale=args.scale, theme=args.theme, run=run)
    except ImportError as error:
        return _no_qt("render", error)
    except RenderError as error:
        raise UsageError(str(error)) from error
    return 0


def _placed(args: argparse.Namespace):
    """The State at --step, and its problem."""
    state = state_of(args)
    if args.step is not None:
        from kernel.tiling import Tiling

        steps = len(Tiling(state.problem))
        if not -max(steps, 1) <= args.step < max(steps, 1):
            raise UsageError(f"--step is {args.step:,}; this problem has {steps:,} steps, counted from 0.")
        state = state.change(step=args.step % max(steps, 1))
    return state, _problem_that_can_be(state.problem)


def _no_qt(command: str, error: ImportError) -> int:
    print(
        f"flashscope {command}: Qt cannot be loaded ({error}); flashscope doctor says what is missing.", file=sys.stderr
    )
    return 1


def _bench(args: argparse.Namespace) -> int:
    for path in (args.json, getattr(args, "svg", None)):
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise UsageError(f"{path} cannot be written; choose a folder that exists.")
    return _bench_kernel(args) if args.what == "kernel" else _bench_ui(args)


def _bench_kernel(args: argparse.Namespace) -> int:
    # in a process of its own, because the window's side must not import torch
    import subprocess

    from visualizer.worker_call import environment

    given = [("--json", args.json), ("--svg", args.svg), ("--original", args.original)]
    options = [str(part) for name, path in given if path is not None for part in (name, path)]
    options += ["--quick"] if args.quick else []
    command = [sys.executable, "-P", "-m", "kernel.bench", *options]  # -P: not a folder "kernel" of somebody's
    return subprocess.run(command, env=environment(None), check=False).returncode


def _bench_ui(args: argparse.Namespace) -> int:
    from visualizer.state import OPENING

    for seqlen in args.seqlen or ():
        for head_dim in args.head_dim or (64,):
            OPENING.change(seqlen_q=seqlen, seqlen_k=seqlen, head_dim=head_dim)  # refuses what cannot be
    import json

    from visualizer.bench import SEQLENS, bench_ui, table

    figures = bench_ui(args.seqlen or SEQLENS, args.head_dim or (64,), lambda text: print(text, file=sys.stderr))
    print(table(figures))
    if args.json is not None:
        args.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


def _doctor(args: argparse.Namespace) -> int:
    from visualizer.doctor import doctor

    return doctor(args.worker, args.json)


def _worker(args: argparse.Namespace) -> int:
    # by name, because the window's side must not import torch's
    import runpy

    runpy.run_module("kernel.worker", run_name="__main__", alter_sys=True)
    return 0


COMMANDS: Final = {
    "open": _open,
    "check": _check,
    "render": _render,
    "diff": picture_commands.diff,
    "export": picture_commands.export,
    "bench": _bench,
    "doctor": _doctor,
    "worker": _worker,
}

if __name__ == "__main__":
    sys.exit(main())
