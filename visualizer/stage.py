"""One panel or the window, kept alive off the screen, to be drawn at many states of one problem."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Final

from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QGraphicsView, QWidget

from visualizer import theme
from visualizer.frame import Frame, RunView
from visualizer.panels.panel import Panel
from visualizer.resolve import resolve
from visualizer.settle import settle
from visualizer.state import State
from visualizer.svg import svg
from visualizer.tape import Tape

SHOW_OTHERS: Final = ("lse", "window")  # these show what is known of other programs


class Stage:
    """`what` (one of render.WHAT) in `size` logical pixels; every picture is as that of a new Stage would be.

    `scale` is the device pixel ratio of the process; `tape` is of the states' problem. Call close() at the end.
    """

    def __init__(
        self,
        app: QApplication,
        what: str,
        tape: Tape,
        *,
        size: tuple[int, int],
        scale: float = 1,
        look: theme.Theme = theme.DARK,
        run: RunView | None = None,
    ) -> None:
        self._app, self._what, self._tape, self._run = app, what, tape, run or RunView()
        self._size, self._scale, self._look = size, scale, look
        if app.styleSheet() != theme.style_sheet(look) or app.palette() != theme.palette(look):
            theme.apply(app, look)
        self._widget: QWidget | None = None

    def image(self, state: State) -> QImage:
        """The picture at `state`, RGB32."""
        widget = self._show(state)
        width, height = self._size
        image = QImage(round(width * self._scale), round(height * self._scale), QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(self._scale)
        image.fill(QColor(self._look.window))
        QWidget.render(widget, image)
        return image

    def svg(self, state: State) -> bytes:
        """The picture at `state` as SVG."""
        return svg(self._show(state), QColor(self._look.window), self._size)

    def close(self) -> None:
        """Ends the widgets."""
        if self._widget is not None:
            self._widget.hide()
            self._widget.deleteLater()
            self._widget = None
            QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)

    def _show(self, state: State) -> QWidget:
        settle(self._tape, state.step, others=self._what in SHOW_OTHERS)
        widget, frame = self._widget, None
        if self._what != "window":
            frame = _alone(resolve(state, self._tape, self._run))
        if widget is None:
            widget = self._widget = self._new(state)
            widget.resize(*self._size)
            if isinstance(widget, Panel) and frame is not None:
                widget.show_frame(frame)
            widget.show()
            self._app.processEvents()
            widget.resize(*self._size)  # a window knows how small it can be only once it is laid out
        for area in widget.findChildren(QAbstractScrollArea):
            if not isinstance(area, QGraphicsView):
                area.verticalScrollBar().setValue(0)  # so that what was shown before does not count
        if isinstance(widget, Panel) and frame is not None:
            widget.show_frame(frame)
        else:
            controller = widget.controller  # pyright: ignore[reportAttributeAccessIssue]
            controller.go_to(state, remember=False)
            controller.refresh()
            controller.arrive()
        for _ in range(3):
            self._app.processEvents()
            if self._what != "window" and (focused := self._app.focusWidget()) is not None:
                focused.clearFocus()  # a panel alone would give it to its first button
        return widget

    def _new(self, state: State) -> QWidget:
        if self._what != "window":
            from visualizer.render import PANEL_CLASSES

            return getattr(import_module(f"visualizer.panels.{self._what}"), PANEL_CLASSES[self._what])(self._look)
        from visualizer.controller import Controller
        from visualizer.settings import Settings
        from visualizer.window import Window

        controller = Controller(state)
        controller.tape = self._tape
        controller.runs.view = self._run if self._run != RunView() else controller.runs.view
        settings = Settings.of_nobody()
        settings.theme, settings.zoom, settings.motion = self._look.name, self._look.zoom, False
        return Window(controller, settings)


def _alone(frame: Frame) -> Frame:
    """Without what other pictures of the same tape have brought to light."""
    return frame if frame.transport is None else replace(frame, transport=replace(frame.transport, filled=0.0))
