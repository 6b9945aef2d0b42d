"""The menus and shortcuts that the table of actions describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu

from visualizer.actions import ACTIONS, MENUS, Action
from visualizer.lessons import lessons
from visualizer.presets import PRESETS

if TYPE_CHECKING:
    from visualizer.window import Window


class Menus:
    """One QAction for each Action, in the window's menu bar and also alive while that is hidden."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self.actions: dict[str, QAction] = {}
        self._facts: tuple[bool, ...] = ()
        self._menus: dict[str, QMenu] = {}
        bar = window.menuBar()
        bar.setNativeMenuBar(False)
        bar.setAccessibleName("Menus")
        for name in MENUS:
            self._menus[name] = bar.addMenu(name)
            self._menus[name].aboutToShow.connect(self.update)
        for action in ACTIONS:
            self._add(action)
        self._add_lists()
        self.update()

    def update(self) -> None:
        """Which actions can be done now, and which options are on."""
        for action in ACTIONS:
            item = self.actions[action.id]
            if action.enabled is not None:
                item.setEnabled(action.enabled(self._window))
            if action.checked is not None:
                item.setChecked(action.checked(self._window))

    def follow(self) -> None:
        """`update`, when something that actions depend on has changed; quick, for every step."""
        window = self._window
        past = window.controller.past
        facts = (past.can_undo, past.can_redo, len(window.controller.tape) > 0, window.controller.runs.is_running)
        if facts != self._facts:
            self._facts = facts
            self.update()

    def _add(self, action: Action) -> None:
        item = QAction(action.text.removeprefix(f"{action.menu.rpartition('/')[2]}: "), self._window)
        item.setShortcuts([QKeySequence(key) for key in action.keys])
        tip = action.tip or action.text.rstrip("…")
        item.setToolTip(f"{tip}   {QKeySequence(action.keys[0]).toString()}" if action.keys else tip)
        item.setStatusTip(tip)
        item.setCheckable(action.checked is not None)
        item.triggered.connect(lambda _=False: self._trigger(action))
        self._window.addAction(item)
        self.actions[action.id] = item
        if not action.menu:
            return
        menu = self._menu(action.menu)
        last = menu.property("group")
        if last is not None and last != action.group:
            menu.addSeparator()
        menu.setProperty("group", action.group)
        menu.addAction(item)

    def _trigger(self, action: Action) -> None:
        action.call(self._window)
        self.update()

    def _menu(self, name: str) -> QMenu:
        if name not in self._menus:
            above, _, title = name.rpartition("/")
            self._menus[name] = self._menus[above].addMenu(title)
            self._menus[name].aboutToShow.connect(self.update)
        return self._menus[name]

    def _add_lists(self) -> None:
        """Recent files and presets, after Open."""
        file, before = self._menus["&File"], self.actions["file.save"]
        self._recent = QMenu("Open recent", file)
        self._recent.aboutToShow.connect(self._list_recent)
        file.insertMenu(before, self._recent)
        presets = QMenu("Open a preset", file)
        file.insertMenu(before, presets)
        file.insertSeparator(before)
        for preset in PRESETS:
            item = presets.addAction(preset.name)
            item.setToolTip(preset.why)
            item.triggered.connect(lambda _=False, preset=preset: self._window.controller.open_preset(preset))
        presets.setToolTipsVisible(True)
        self._lessons = QMenu("Lessons", self._menus["&Help"])
        self._lessons.aboutToShow.connect(self._list_lessons)
        self._menus["&Help"].insertMenu(self.actions["help.keys"], self._lessons)
        self._list_recent()

    def _list_lessons(self) -> None:
        if self._lessons.isEmpty():
            for lesson in lessons():
                item = self._lessons.addAction(lesson.title)
                item.triggered.connect(lambda _=False, lesson=lesson: self._window.lesson_bar.open(lesson))

    def _list_recent(self) -> None:
        self._recent.clear()
        for path in self._window.settings.recent:
            item = self._recent.addAction(path.name.replace("&", "&&"))
            item.setToolTip(str(path))
            item.triggered.connect(lambda _=False, path=path: self._window.files.open(path))
        self._recent.setToolTipsVisible(True)
        if self._recent.isEmpty():
            self._recent.addAction("Nothing opened or saved yet").setEnabled(False)
