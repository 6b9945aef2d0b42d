"""What the command palette finds in a window: actions, presets, lessons, recent files, steps and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.actions import ACTIONS
from visualizer.help import key_text
from visualizer.lessons import lessons
from visualizer.palette import Entry
from visualizer.presets import PRESETS

if TYPE_CHECKING:
    from visualizer.window import Window


def entries(window: Window) -> list[Entry]:
    """Everything that can be done now: first the run, the presets and the lessons, last what leaves the window."""
    can = [
        (action, Entry(action.text.rstrip("…"), key_text(action.keys), lambda action=action: action.call(window)))
        for action in ACTIONS
        if action.menu and action.id != "help.palette" and (action.enabled is None or action.enabled(window))
    ]
    found = [entry for action, entry in can if action.menu == "&Kernel"]
    for preset in PRESETS:
        call = lambda preset=preset: window.controller.open_preset(preset)  # noqa: E731
        found.append(Entry(f"Open preset: {preset.name}", preset.why, call))
    for lesson in lessons():
        call = lambda lesson=lesson: window.lesson_bar.open(lesson)  # noqa: E731
        found.append(Entry(f"Lesson: {lesson.title}", f"{len(lesson.stops)} stops", call))
    for path in window.settings.recent:
        call = lambda path=path: window.files.open(path)  # noqa: E731
        found.append(Entry(f"Open {path.name}", str(path.parent), call))
    found += [entry for action, entry in can if action.menu.startswith(("&Go", "&View", "&Edit"))]
    found += [entry for action, entry in can if action.menu.startswith(("&Help", "&File"))]
    return found


def numbered(window: Window, what: str, number: int) -> list[Entry]:
    """What a typed number can mean: a step, or a row of the block; `what` is "step", "row" or "" for either."""
    found, change, total = [], window.controller.change, len(window.controller.tape)
    if what != "row" and total:
        step = min(number, total - 1)
        found.append(Entry(f"Go to step {step:,}", f"the last is {total - 1:,}", lambda: change(step=step)))
    if what != "step" and window.frame is not None and window.frame.rows is not None:
        start, end = window.frame.rows.rows
        if start <= number < end:
            found.append(
                Entry(
                    f"Select row {number:,}",
                    f"within {start:,} … {end - 1:,}",
                    lambda: change(row=number - start),
                )
            )
    return found
