"""Where a move on the tape leads: to the next tile or program, and where a position goes in another problem."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from kernel.tiling import LOOP_STEPS, Position, Tiling


def by_tile(tiling: Tiling, index: int, forward: bool) -> int:
    """The same step in the next (or previous) visited tile, across programs; `index` when there is no such tile.

    From outside a loop it is the first step of the nearest tile. A full tile has no mask: scores stands for it.
    """
    head, block, iteration, step = tiling.locate(index)
    if step not in LOOP_STEPS:
        iteration = -1 if step == "load_q" else int(tiling.visited[block])
        step = "load_k"
    iteration += 1 if forward else -1
    while not 0 <= iteration < tiling.visited[block]:
        block += 1 if forward else -1
        if not 0 <= block < tiling.num_q_blocks:
            head += 1 if forward else -1
            block = 0 if forward else tiling.num_q_blocks - 1
            if not 0 <= head < tiling.problem.num_heads:
                return index
        iteration = 0 if forward else int(tiling.visited[block]) - 1
    return tiling.index(_legal(tiling, Position(head, block, iteration, step)))


def by_program(tiling: Tiling, index: int, forward: bool) -> int:
    """The first step of the next program; backwards, of this program, or of the one before when already there."""
    head, block = tiling.locate(index)[:2]
    start = tiling.program_start(head, block)
    if not forward and index > start:
        return start
    number = head * tiling.num_q_blocks + block + (1 if forward else -1)
    if not 0 <= number < tiling.num_programs:
        return index
    return tiling.program_start(*divmod(number, tiling.num_q_blocks))


def by_step_name(tiling: Tiling, index: int, name: str, forward: bool) -> int | None:
    """The next (or previous) step called `name`; None where there is none."""
    head, block = tiling.locate(index)[:2]
    here = head * tiling.num_q_blocks + block
    # once round all blocks: those of another head are the same
    far = here + tiling.num_q_blocks if forward else here - tiling.num_q_blocks
    for program in range(here, min(far + 1, tiling.num_programs)) if forward else range(here, max(far, 0) - 1, -1):
        head, block = divmod(program, tiling.num_q_blocks)
        iterations = range(-1, 0)
        if name in LOOP_STEPS:
            iterations = tiling.masked_iterations(block) if name == "mask" else range(int(tiling.visited[block]))
        step_at = lambda i, head=head, block=block: tiling.index(Position(head, block, i, name))  # noqa: E731
        find = bisect_right if forward else bisect_left
        at = find(iterations, index, key=step_at) - (0 if forward else 1)
        if 0 <= at < len(iterations):
            return step_at(iterations[at])
    return None


def carry(old: Tiling, index: int, new: Tiling) -> int:
    """The step of `new` that is most like step `index` of `old`; 0 where either has none."""
    if not len(old) or not len(new):
        return 0
    head, block, iteration, step = old.locate(min(index, len(old) - 1))
    head, block = min(head, new.problem.num_heads - 1), min(block, new.num_q_blocks - 1)
    visited = int(new.visited[block])
    if step in LOOP_STEPS and not visited:
        step = "load_q"
    return new.index(_legal(new, Position(head, block, min(iteration, visited - 1), step)))


def _legal(tiling: Tiling, position: Position) -> Position:
    if position.step in LOOP_STEPS and position.step not in tiling.steps_of(position.block, position.iteration):
        return position._replace(step="scores")
    return position
