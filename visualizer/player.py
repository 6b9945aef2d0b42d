"""Stepping by hand and playing, between the transport, the playback clock and the controller."""

from __future__ import annotations

from PySide6.QtCore import QObject

from visualizer.controller import Controller
from visualizer.panels.transport import SPEEDS, TransportPanel
from visualizer.playback import Playback
from visualizer.settings import Settings


class Player(QObject):
    """Plays to the end and stops there; played again, it begins anew. A step by hand pauses."""

    def __init__(self, controller: Controller, transport: TransportPanel, settings: Settings, parent: QObject) -> None:
        super().__init__(parent)
        self._controller, self._transport, self._settings = controller, transport, settings
        self.playback = Playback(settings.speed)
        self.playback.due.connect(self._play)
        self.playback.playing_changed.connect(self._on_playing)
        transport.play_toggled.connect(self.playback.toggle)
        transport.speed_changed.connect(self.set_speed)
        transport.set_speed(self.playback.speed)

    @property
    def playing_speed(self) -> float:
        """Steps a second; 0 while it does not play."""
        return self.playback.speed if self.playback.is_playing else 0.0

    def step(self, by: int) -> None:
        self.playback.pause()
        self._controller.step_by(by)

    def change_speed(self, by: int) -> None:
        """The next faster (1) or slower (-1) of the speeds that the transport offers."""
        nearest = min(range(len(SPEEDS)), key=lambda i: abs(SPEEDS[i] - self.playback.speed))
        self.set_speed(SPEEDS[min(max(0, nearest + by), len(SPEEDS) - 1)])

    def set_speed(self, speed: float) -> None:
        self.playback.speed = speed
        self._settings.speed = self.playback.speed
        self._transport.set_speed(self.playback.speed)

    @property
    def _is_at_end(self) -> bool:
        return self._controller.state.step >= len(self._controller.tape) - 1

    def _play(self, steps: int) -> None:
        self._controller.step_by(steps)
        if self._is_at_end:
            self.playback.pause()

    def _on_playing(self, playing: bool) -> None:
        if playing and self._is_at_end:
            self._controller.change(step=0)
        self._controller.is_playing = playing
        self._transport.set_playing(playing)
