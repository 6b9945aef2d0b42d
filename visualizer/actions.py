"""Everything that a person can do, as one table: menus, keys, tooltips, the key list and the palette come from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from visualizer.events import EVENTS

if TYPE_CHECKING:
    from visualizer.window import Window

Call = Callable[["Window"], object]
Test = Callable[["Window"], bool]

MENUS: Final = ("&File", "&Edit", "&Go", "&Kernel", "&View", "&Help")
PANELS: Final = {
    "tiles": "Score tiles",
    "chip": "On chip",
    "rows": "Row state",
    "lse": "L per row",
    "source": "Kernel source",
    "run": "Kernel run",
    "ledger": "Ledger",
}


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do. menu: its place, "" for none ("&View/Panels" is a submenu); group: a line between groups."""

    id: str
    text: str
    call: Call
    keys: tuple[str, ...] = ()
    menu: str = ""
    group: int = 0
    tip: str = ""
    enabled: Test | None = None
    checked: Test | None = None


def _has_steps(window: Window) -> bool:
    return len(window.controller.tape) > 0


def _is_running(window: Window) -> bool:
    return window.controller.runs.is_running


def _option(name: str, value: str) -> tuple[Call, Test]:
    return (
        lambda w: w.controller.change(**{name: value}),
        lambda w: getattr(w.controller.state, name) == value,
    )


def _go() -> list[Action]:
    def step(text: str, id: str, call: Call, *keys: str, group: int = 1, tip: str = "") -> Action:
        return Action(id, text, call, keys, "&Go", group, tip, _has_steps)

    def jump(event: str, next_keys: tuple[str, ...], previous_keys: tuple[str, ...]) -> list[Action]:
        name, text = event.replace(" ", "_"), EVENTS[event]
        return [
            step(f"Next {text}", f"go.next_{name}", lambda w: w.controller.jump(event, True), *next_keys, group=3),
            step(
                f"Previous {text}", f"go.previous_{name}", lambda w: w.controller.jump(event, False), *previous_keys,
                group=3,
            ),
        ]  # fmt: skip

    return [
        step("Play or pause", "go.play", lambda w: w.player.playback.toggle(), "Space", group=0),
        step("Play faster", "go.faster", lambda w: w.player.change_speed(1), "]", group=0),
        step("Play slower", "go.slower", lambda w: w.player.change_speed(-1), "[", group=0),
        step("Next step", "go.next", lambda w: w.player.step(1), "Right"),
        step("Previous step", "go.previous", lambda w: w.player.step(-1), "Left"),
        step("Next tile", "go.next_tile", lambda w: w.controller.by_tile(True), "Shift+Right"),
        step("Previous tile", "go.previous_tile", lambda w: w.controller.by_tile(False), "Shift+Left"),
        step("Next program", "go.next_program", lambda w: w.controller.by_program(True), "Ctrl+Right"),
        step("Previous program", "go.previous_program", lambda w: w.controller.by_program(False), "Ctrl+Left"),
        step("First step", "go.first", lambda w: w.controller.change(step=0), "Home", group=2),
        step("Last step", "go.last", lambda w: w.controller.change(step=len(w.controller.tape) - 1), "End", group=2),
        step("Go to step…", "go.to", lambda w: w.show_palette("step "), "Ctrl+G", group=2),
        *jump("max moved", ("N", "M"), ("P", "Shift+M")),
        *jump("partial tile", ("D",), ("Shift+D",)),
        *jump("store", ("O",), ("Shift+O",)),
        *jump("non-finite", ("F",), ("Shift+F",)),
        step(
            "Row above", "go.row_up", lambda w: w.select_row(-1), "Up", group=4, tip="Select the row above in the block"
        ),
        step(
            "Row below",
            "go.row_down",
            lambda w: w.select_row(1),
            "Down",
            group=4,
            tip="Select the row below in the block",
        ),
        step("Eight rows up, or the lesson's previous stop", "go.page_up", lambda w: w.page(-1), "PgUp", group=4),
        step("Eight rows down, or the lesson's next stop", "go.page_down", lambda w: w.page(1), "PgDown", group=4),
    ]


def _view() -> list[Action]:
    auto, is_auto = _option("matrix", "auto")
    s, is_s = _option("matrix", "s")
    p, is_p = _option("matrix", "p")

    def switch_unit(window: Window) -> None:
        window.controller.change(lse_unit="ln" if window.controller.state.lse_unit == "log2" else "log2")

    actions = [
        Action("view.theme", "Dark or light", lambda w: w.dress.switch_theme(), ("T",), "&View", 0),
        Action("view.larger", "Larger", lambda w: w.dress.change_zoom(1), ("Ctrl++", "Ctrl+="), "&View", 0),
        Action("view.smaller", "Smaller", lambda w: w.dress.change_zoom(-1), ("Ctrl+-",), "&View", 0),
        Action("view.normal", "Normal size", lambda w: w.dress.change_zoom(0), ("Ctrl+0",), "&View", 0),
        Action(
            "view.present", "Presentation", lambda w: w.dress.switch_presentation(), ("F11",), "&View", 0,
            "The whole screen, larger, without menus, problem and run", checked=lambda w: w.dress.is_presenting,
        ),
        Action(
            "view.motion", "Motion", lambda w: w.switch_motion(), (), "&View", 0,
            "Loaded tiles travel to the chip while you step", checked=lambda w: w.settings.motion,
        ),
        Action("view.auto", "Matrix: what the step wrote", auto, ("1",), "&View/Matrix on the chip", checked=is_auto),
        Action("view.s", "Matrix: scores s", s, ("2",), "&View/Matrix on the chip", checked=is_s),
        Action("view.p", "Matrix: weights p", p, ("3",), "&View/Matrix on the chip", checked=is_p),
        Action(
            "view.ln", "L in natural logarithm", switch_unit, ("L",), "&View", 1,
            checked=lambda w: w.controller.state.lse_unit == "ln",
        ),
    ]  # fmt: skip
    for number, (name, title) in enumerate(PANELS.items(), 1):
        actions += [
            Action(
                f"view.panel.{name}", title, lambda w, name=name: w.panel_layout.toggle(name), (), "&View/Panels",
                tip=f"Show or hide {title}", checked=lambda w, name=name: w.panel_layout.is_shown(name),
            ),
            Action(
                f"view.fill.{name}", f"{title} alone", lambda w, name=name: w.maximise(name), (f"Ctrl+{number}",),
                "&View/One panel alone", tip=f"{title} fills the window; again to restore",
                checked=lambda w, name=name: w.panel_layout.maximised == name,
            ),
        ]  # fmt: skip
    actions.append(Action("view.reset", "Reset the layout", lambda w: w.panel_layout.reset(), (), "&View", 3))
    return actions


def _take_away() -> list[Action]:
    """Pictures of the window and of each panel that is seen, films, and numbers."""

    def seen(name: str) -> Test:
        return lambda w: name == "window" or w.panels[name].isVisible()

    actions = []
    for name, title in (("window", "The window"), *PANELS.items()):
        actions += [
            Action(
                f"file.copy.{name}", f"Copy picture: {title}", lambda w, name=name: w.take_away.copy(name),
                ("Ctrl+Shift+C",) if name == "window" else (), "&File/Copy picture", tip=f"{title}, to the clipboard",
                enabled=seen(name),
            ),
            Action(
                f"file.picture.{name}", f"Save picture: {title}…", lambda w, name=name: w.take_away.ask_picture(name),
                (), "&File/Save picture", tip=f"{title}, as PNG or SVG", enabled=seen(name),
            ),
        ]  # fmt: skip
    return [
        *actions,
        Action(
            "file.film", "Export film…", lambda w: w.take_away.show_film(), (), "&File", 1,
            "A range of steps as GIF or MP4", _has_steps,
        ),
        Action(
            "file.values", "Export values of the step…", lambda w: w.take_away.ask_values("values"), (), "&File", 1,
            "m, α, l, s, p, acc and L as NPZ or CSV", _has_steps,
        ),
        Action(
            "file.lse", "Export L of every row…", lambda w: w.take_away.ask_values("lse"), (), "&File", 1,
            "Mirror, kernel and exact, as NPZ or CSV", _has_steps,
        ),
    ]  # fmt: skip


ACTIONS: Final = (
    Action(
        "file.open", "Open…", lambda w: w.files.ask_open(), ("Ctrl+O",), "&File", 0,
        "A session, tensors, or a saved benchmark",
    ),
    Action("file.save", "Save", lambda w: w.files.save(), ("Ctrl+S",), "&File", 1),
    Action("file.save_as", "Save as…", lambda w: w.files.ask_save(), ("Ctrl+Shift+S",), "&File", 1),
    *_take_away(),
    Action("file.quit", "Quit", lambda w: w.close(), ("Ctrl+Q",), "&File", 3),
    Action(
        "edit.undo", "Undo", lambda w: w.controller.undo(), ("Ctrl+Z",), "&Edit", 0,
        enabled=lambda w: w.controller.past.can_undo,
    ),
    Action(
        "edit.redo", "Redo", lambda w: w.controller.redo(), ("Ctrl+Shift+Z", "Ctrl+Y"), "&Edit", 0,
        enabled=lambda w: w.controller.past.can_redo,
    ),
    *_go(),
    Action(
        "kernel.run", "Run kernel", lambda w: w.controller.run_kernel(), ("Ctrl+R",), "&Kernel", 0,
        "Run the real kernel on this problem, check it and time it", lambda w: not _is_running(w),
    ),
    Action("kernel.cancel", "Cancel the run", lambda w: w.controller.cancel(), (), "&Kernel", 0, enabled=_is_running),
    Action(
        "kernel.close_saved", "Close the saved benchmark", lambda w: w.controller.change(bench=None), (), "&Kernel",
        0, "Show this machine's run again", lambda w: w.controller.state.bench is not None,
    ),
    *_view(),
    Action("help.palette", "Find anything to do…", lambda w: w.show_palette(), ("Ctrl+K",), "&Help", 0),
    Action("help.keys", "Keys", lambda w: w.show_keys(), ("?",), "&Help", 0),
    Action("help.words", "What m, α, l and L are", lambda w: w.show_words(), ("F1",), "&Help", 0),
    Action("help.about", "About FlashScope", lambda w: w.show_about(), (), "&Help", 1),
    Action("window.escape", "Cancel the run, or leave what fills the window", lambda w: w.escape(), ("Esc",)),
)  # fmt: skip


BY_ID: Final = {action.id: action for action in ACTIONS}
