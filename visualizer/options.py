"""The problem's fields as options of the command line, and the State that they name."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from visualizer.state import State

# option, field, what it is
WHOLE: Final = (
    ("--batch", "batch", "sequences"),
    ("--heads", "heads", "query heads; key heads too, unless --kv-heads says otherwise"),
    ("--kv-heads", "kv_heads", "key heads, a divisor of the query heads"),
    ("--seqlen", "seqlen_q", "queries; keys too, unless --seqlen-k says otherwise"),
    ("--seqlen-k", "seqlen_k", "keys"),
    ("--head-dim", "head_dim", "numbers in a row of q, k and v, 1 to 256"),
    ("--block-m", "block_m", "query rows of a tile, a power of two"),
    ("--block-n", "block_n", "keys of a tile, a power of two"),
    ("--seed", "seed", "of the inputs"),
)


SIDES: Final = (64, 8192)  # of a picture, in pixels
MAX_PIXELS: Final = 1 << 26
ZOOMS: Final = (0.5, 3)  # of a picture's words
SCALES: Final = (1, 2)
THEMES: Final = ("dark", "light")


class UsageError(ValueError):
    """Options that do not go together, or name what is not there; one sentence."""


def add_problem_options(parser: argparse.ArgumentParser, *, session: bool = True) -> None:
    """The fields of a Problem, and where to begin from: a preset, or with `session` a saved session."""
    group = parser.add_argument_group(
        "the problem",
        "What is not given is the preset's or session's that is named, or else batch 1, heads 2, seqlen 1024,\n"
        "head_dim 64, float16, causal, scale 0.5, blocks of 128 x 64, seed 20.",
    )
    for option, field, help in WHOLE:
        group.add_argument(option, dest=field, type=whole, metavar="N", help=help)
    group.add_argument("--dtype", metavar="T", help="float16, bfloat16 or float32")
    group.add_argument("--backend", metavar="B", help="triton, the portable kernel, or hopper")
    group.add_argument("--causal", action=argparse.BooleanOptionalAction, help="whether queries see no later key")
    group.add_argument("--sm-scale", type=scale, metavar="X", help="factor of q·kᵀ; auto is 1/sqrt(head_dim)")
    group.add_argument("--std", type=number, metavar="X", help="standard deviation of the inputs")
    group.add_argument("--distribution", metavar="D", help="of the inputs: normal, rising (the max moves) or spiky")
    group.add_argument("--inputs", metavar="FILE", help="q, k and v from an .npz or .safetensors file")
    group.add_argument(
        "--preset", metavar="NAME", help="begin from one: original, toy, not, ragged, grouped, max, rows"
    )
    if session:
        group.add_argument("--session", type=Path, metavar="FILE", help="begin from a saved session")


def names_problem(args: argparse.Namespace) -> bool:
    """Whether any option says what the problem is."""
    return args.preset is not None or bool(_fields(args)) or args.inputs is not None


def state_of(args: argparse.Namespace) -> State:
    """The State that the options name. Raises UsageError, StateError or ProblemError."""
    from visualizer.state import OPENING, load

    session = getattr(args, "session", None)
    if session is not None and args.preset is not None:
        raise UsageError("Give --session or --preset, not both.")
    state = load(session) if session is not None else preset_state(args.preset) if args.preset is not None else OPENING
    if args.inputs is not None:
        from kernel.inputs import file_problem

        state = state.change(problem=file_problem(args.inputs, state.problem))
    fields = _fields(args)
    for given, follows in (("seqlen_q", "seqlen_k"), ("heads", "kv_heads")):
        if given in fields and args.inputs is None:
            fields.setdefault(follows, fields[given])
    return state.change(**fields)


def preset_state(name: str) -> State:
    """The State of the preset whose name begins so. Raises UsageError."""
    from visualizer.presets import PRESETS

    wanted = name.strip().lower()
    found = [preset for preset in PRESETS if preset.name.lower().startswith(wanted)]
    if len(found) != 1 or not wanted:
        raise UsageError(f"There is no preset {name[:40]!r}; choose {', '.join(repr(p.name) for p in PRESETS)}.")
    return found[0].state


def _fields(args: argparse.Namespace) -> dict[str, Any]:
    names = (*(field for _, field, _ in WHOLE), "dtype", "backend", "causal", "sm_scale", "std", "distribution")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if given.get("sm_scale") == "auto":
        given["sm_scale"] = None
    return given


def whole(text: str) -> int:
    """A whole number; 1_024 and 1,024 are 1024."""
    try:
        return int(text.replace(",", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number") from None


def number(text: str) -> float:
    """A number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number") from None


def scale(text: str) -> float | str:
    """A number, or auto."""
    return text if text == "auto" else number(text)


def zoom(text: str) -> float:
    """A number that words can be enlarged by."""
    value, (low, high) = number(text), ZOOMS
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is out of range; it may be from {low} to {high}")
    return value


def size(text: str) -> tuple[int, int]:
    """900x600 as (900, 600)."""
    width, _, height = text.lower().replace("×", "x").partition("x")
    if not (width.isascii() and width.isdigit() and height.isascii() and height.isdigit()):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no size; write it as 900x600")
    low, high = SIDES
    if not all(low <= int(n[:9]) <= high for n in (width, height)):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is out of range; each side may be from {low} to {high}")
    return int(width), int(height)


def check_pixels(size: tuple[int, int], scale: float) -> None:
    """Raises UsageError where size and scale, each legal, make a picture that takes gigabytes to draw."""
    pixels = size[0] * size[1] * scale**2
    if pixels > MAX_PIXELS:
        raise UsageError(
            f"{size[0]}x{size[1]} at scale {scale:g} is {pixels / 1e6:,.0f} million pixels; a picture may have "
            f"{MAX_PIXELS / 1e6:.0f} million, so ask for a smaller size or scale."
        )


def is_share(tolerance: float) -> bool:
    """Whether a tolerance can be: 0 is the same colours, 1 black for white, beyond which no picture could fail."""
    return 0 <= tolerance <= 1
