"""How far a tape is filled before a picture of it is drawn, so that the picture is whole, and the same each time."""

from __future__ import annotations

from visualizer.stop import WATCHER
from visualizer.tape import Tape


def settle(tape: Tape, step: int, *, others: bool = True) -> None:
    """Computes what a picture of `step` may show besides the step, however long that takes.

    That is the history of the program at hand and, with `others`, L and the exact values of the whole head at hand:
    half a minute for 65,536 rows.
    """
    if not len(tape):
        return
    at = min(step, len(tape) - 1)
    head = tape[at].position.head
    tape.history(at)
    watch = WATCHER.get()
    while tape.is_completing or (others and not tape.is_head_filled(head)):
        tape.fill(0)
        watch(tape.blocks_filled[head], tape.tiling.num_q_blocks)


def settle_all(tape: Tape) -> None:
    """Computes L and the exact values of every head."""
    watch = WATCHER.get()
    while tape.fill(0):
        watch(tape.programs_filled, tape.tiling.num_programs)
