"""The window: the panels around one Controller, the menus, the look, and what is kept from one start to the next."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QIcon, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QLineEdit, QMainWindow, QVBoxLayout, QWidget

import assets
from visualizer import finder, help, theme
from visualizer.controller import Controller
from visualizer.dialogs import open_dialog
from visualizer.dress import Dress
from visualizer.files import Files, dropped_paths
from visualizer.frame import Frame
from visualizer.keys import KeyGuard
from visualizer.layout import DECK, PanelLayout
from visualizer.lesson_bar import LessonBar
from visualizer.menus import Menus
from visualizer.message_bar import MessageBar
from visualizer.motion import Motion
from visualizer.palette import Palette
from visualizer.panels.chip import ChipPanel
from visualizer.panels.ledger import LedgerPanel
from visualizer.panels.lse import LsePanel
from visualizer.panels.panel import Panel
from visualizer.panels.problem_bar import ProblemBar
from visualizer.panels.rows import RowsPanel
from visualizer.panels.run import RunPanel
from visualizer.panels.source import SourcePanel
from visualizer.panels.tiles import TilesPanel
from visualizer.panels.transport import TransportPanel
from visualizer.player import Player
from visualizer.settings import Settings
from visualizer.state import State
from visualizer.takeaway import TakeAway

FIRST_SIZE: Final = (1440, 900)


class Window(QMainWindow):
    """Everything that a person sees. `first_painted` is emitted once, when the first frame is on the screen."""

    first_painted = Signal()

    def __init__(self, controller: Controller, settings: Settings) -> None:
        super().__init__()
        self.controller, self.settings = controller, settings
        self.frame: Frame | None = None
        self.dress = Dress(self, settings, self._dressed, self._present)
        self._help: help.HelpDialog | None = None
        self._is_painted = False
        self.files = Files(controller, settings, self)
        self._build()
        self.player = Player(controller, self.transport, settings, self)
        self.playback = self.player.playback
        self.take_away = TakeAway(self)
        self.menus = Menus(self)
        self._guard = KeyGuard(self)
        self._guard.watch(self)
        self.motion = Motion(self, self.tiles, self.chip)
        self.palette_card = Palette(self.look, self, partial(finder.entries, self), partial(finder.numbered, self))
        bars = (self.problem_bar, self.message_bar, self.lesson_bar, self.transport)
        self.dress.parts = [*bars, self.palette_card, self.panel_layout, *self.panels.values()]
        self._connect()
        self._restore()
        self.problem_bar.show_problem(controller.state.problem)
        self._title()
        self.setFocus()  # not the first field: keys play and step from the start
        controller.refresh()

    def _build(self) -> None:
        self.setWindowIcon(QIcon(str(assets.path("icon.png"))))
        self.setAccessibleName("FlashScope")
        self.setAcceptDrops(True)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        look = self.look
        self.problem_bar = ProblemBar(look)
        self.message_bar, self.lesson_bar = MessageBar(look), LessonBar(look)
        # made in the order in which they are read, which is the order of Tab, too
        self.tiles, self.chip = TilesPanel(look), ChipPanel(look)
        rows, lse = RowsPanel(look), LsePanel(look)
        self.source, run, ledger = SourcePanel(look), RunPanel(look), LedgerPanel(look)
        self.panels: dict[str, Panel] = {
            panel.name: panel for panel in (self.tiles, self.chip, rows, lse, self.source, run, ledger)
        }
        self.transport = TransportPanel(look)
        self.panel_layout = PanelLayout(self.panels, look)
        self._central = QWidget()
        self._outer = QVBoxLayout(self._central)
        self._outer.setContentsMargins(0, 0, 0, 0)
        self._outer.setSpacing(0)
        self._inner = QVBoxLayout()
        self._outer.addWidget(self.problem_bar)
        self._outer.addLayout(self._inner, 1)
        self._inner.addWidget(self.message_bar)
        self._inner.addWidget(self.lesson_bar)
        self._inner.addWidget(self.panel_layout, 1)
        self._inner.addWidget(self.transport)
        self.setCentralWidget(self._central)
        for field in self._central.findChildren(QLineEdit):
            field.setAcceptDrops(False)  # a file dropped on a field is the window's, too
        self._fit()

    def _connect(self) -> None:
        c, transport, bar = self.controller, self.transport, self.problem_bar
        c.frame.connect(self._show_frame)
        c.problem_changed.connect(bar.show_problem)
        c.refused.connect(bar.refuse)
        c.said.connect(self.say)
        c.runs.failed.connect(self._run_failed)
        c.state_changed.connect(self._on_state)
        c.run_changed.connect(self.menus.follow)
        self.files.said.connect(self.say)
        self.lesson_bar.go_to.connect(self._show_stop)
        bar.problem_changed.connect(lambda fields: c.change(**fields))
        bar.preset_chosen.connect(c.visit)
        bar.run_requested.connect(c.run_kernel)
        bar.cancel_requested.connect(c.cancel)
        for name, panel in self.panels.items():
            panel.change.connect(lambda fields: c.change(**fields))
            panel.title_double_clicked.connect(lambda name=name: self.maximise(name))
            panel.title_label.setToolTip("Double-click: this panel alone, and back")
        transport.change.connect(lambda fields: c.change(**fields))
        transport.jump.connect(c.jump)
        self.source.line_clicked.connect(c.go_to_line)
        self.panel_layout.shown_changed.connect(self._show_all)

    # frames

    def _show_frame(self, frame: Frame) -> None:
        before, self.frame = self.frame, frame
        for panel in self.panels.values():
            if not panel.isHidden():
                panel.show_frame(frame)
        self.transport.show_frame(frame)
        self.problem_bar.show_run(frame.run)
        if frame.run.phase == "running" and (before is None or before.run.phase != "running"):
            self.panel_layout.bring_forward("run")
        if self.settings.motion and self.isVisible() and not frame.coming:
            self.motion.follow(before, frame, self.player.playing_speed)

    def _show_all(self) -> None:
        if self.frame is not None:
            self._show_frame(self.frame)

    def _on_state(self) -> None:
        self._title()
        self.menus.follow()

    # words

    def say(self, sentence: str) -> None:
        """One sentence in the message bar."""
        self.message_bar.say(sentence)

    def _run_failed(self, sentence: str) -> None:
        """The run panel says why; where that is not seen, the message bar does."""
        if not self.panels["run"].isVisible():
            self.say(sentence)

    def _title(self) -> None:
        session = self.controller.session
        title, modified = f"{session.name}[*] — FlashScope" if session else "FlashScope[*]", self.controller.is_modified
        if title != self.windowTitle():
            self.setWindowTitle(title)
        if modified != self.isWindowModified():
            self.setWindowModified(modified)

    # the look

    @property
    def look(self) -> theme.Theme:
        return self.dress.look

    def _dressed(self) -> None:
        """After the look has changed."""
        self._fit()
        self.menus.update()

    def _present(self, on: bool) -> None:
        """A presentation's room is for the tiles, the chip and the rows; a run that is started shows itself."""
        self.problem_bar.setHidden(on)
        self.panel_layout.leave_out(DECK if on else ())
        if on:
            self.setFocus()

    def _fit(self) -> None:
        px = self.look.px
        self._inner.setContentsMargins(px(10), px(10), px(10), px(10))
        self._inner.setSpacing(px(10))

    def switch_motion(self) -> None:
        self.settings.motion = not self.settings.motion
        self.motion.stop()

    # panels

    def maximise(self, name: str | None) -> None:
        self.motion.stop()
        self.panel_layout.maximise(name)
        self.menus.update()

    def escape(self) -> None:
        """Ends what is going on, or takes back the nearest thing that covers the window."""
        if self.controller.jumping.is_looking:
            self.controller.jumping.stop()
        elif self.controller.runs.is_running:
            self.controller.cancel()
        elif self._help is not None and self._help.isVisible():
            self._help.close()
        elif self.message_bar.sentence:
            self.message_bar.hide()
        elif self.panel_layout.maximised:
            self.maximise(None)
        elif self.lesson_bar.lesson is not None:
            self.lesson_bar.leave()
        elif self.dress.is_presenting:
            self.dress.switch_presentation()

    # lessons

    def page(self, by: int) -> None:
        """What a presenter's clicker does: the lesson's next or previous stop, or else eight rows down or up."""
        if self.lesson_bar.lesson is not None:
            self.lesson_bar.turn(by)
        else:
            self.select_row(8 * by)

    def select_row(self, by: int) -> None:
        """Another row of the block, `by` rows below."""
        if self.frame is not None and self.frame.rows is not None:
            start, end = self.frame.rows.rows
            self.controller.change(row=min(max(0, self.frame.rows.row + by), end - start - 1))

    def _show_stop(self, state: State) -> None:
        self.playback.pause()
        self.controller.visit(state)
        QTimer.singleShot(0, self, self.dress.keep_on_screen)  # once the words have their place

    # help and palette

    def show_palette(self, text: str = "") -> None:
        if self.palette_card.isVisible():
            self.palette_card.close_palette()
        else:
            self.palette_card.open(text)

    def show_keys(self) -> None:
        self._show_help(help.keys)

    def show_words(self) -> None:
        self._show_help(help.words)

    def show_about(self) -> None:
        self._show_help(help.about)

    def _show_help(self, make: Callable[[theme.Theme, QWidget], help.HelpDialog]) -> None:
        if self._help is not None:
            self._help.close()
            self._help.deleteLater()
        self._help = make(self.look, self)
        open_dialog(self._help)

    # Qt's events, and what is kept

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.motion.stop()
        if self.palette_card.isVisible():
            self.palette_card.fit()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._is_painted:
            self._is_painted = True
            QTimer.singleShot(0, self.first_painted.emit)  # once the panels' own painting is on the screen too

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if dropped_paths(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        event.acceptProposedAction()
        self.files.dropped(event.mimeData())

    def closeEvent(self, event: QCloseEvent) -> None:
        self.playback.pause()
        self.controller.stop_filling()
        self.motion.stop()
        self.take_away.end()
        self.files.keep()
        self._keep_window()
        super().closeEvent(event)

    def _keep_window(self) -> None:
        if self.dress.is_presenting:
            self.dress.switch_presentation()
        self.settings.set_bytes("geometry", self.saveGeometry())
        for name, sizes in self.panel_layout.save().items():
            self.settings.set_bytes(name, sizes)
        self.settings.hidden_panels = self.panel_layout.hidden
        self.settings.session = self.controller.session
        self.settings.sync()

    def _restore(self) -> None:
        geometry = self.settings.bytes("geometry")
        if geometry.isEmpty() or not self.restoreGeometry(geometry):
            screen = self.screen().availableSize()
            self.resize(min(FIRST_SIZE[0], screen.width()), min(FIRST_SIZE[1], screen.height()))
        self.panel_layout.restore({name: self.settings.bytes(name) for name in self.panel_layout.splitters})
        self.panel_layout.hidden = self.settings.hidden_panels
        if self.settings.complaint:
            self.say(self.settings.complaint)
