"""How far a tape is filled before a picture of it is drawn, so that the picture is the same each time."""

from __future__ import annotations

from typing import Final

from visualizer.tape import Tape

FILL_TURNS: Final = 700  # about a head of 8,192 rows; a picture of more must not take longer


def settle(tape: Tape, step: int, *, others: bool = True) -> None:
    """Computes what a picture of `step` may show besides the step: always the same, however long that takes.

    That is the history of the program at hand and, with `others`, L of the rows stored so far and the exact values of
    the head at hand; very long sequences show what FILL_TURNS turns bring.
    """
    if not len(tape):
        return
    at = min(step, len(tape) - 1)
    wanted = (tape.tiling.locate(at).head + 1) * tape.tiling.num_q_blocks if others else -1
    tape.history(at)
    for _ in range(FILL_TURNS):
        if (tape.programs_filled > wanted and not tape.is_completing) or not tape.fill(0):
            break
