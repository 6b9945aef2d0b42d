"""The command palette: a few letters find an action, a preset, a recent file, a step or a row."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QHideEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QFrame,
    QLabel,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from visualizer.fuzzy import rank
from visualizer.keys import COMMANDS
from visualizer.theme import Theme

LIMIT = 60
HINT = Qt.ItemDataRole.UserRole
LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
Index = QModelIndex | QPersistentModelIndex
NUMBER = re.compile(r"^(?:go to )?(?:(step|row)\s*)?([\d,_\s]+)$")


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that the palette offers; hint stands at its right."""

    text: str
    hint: str
    call: Callable[[], object]


class Line(QStyledItemDelegate):
    """An entry's text at the left and its hint, quieter and cut where it must be, at the right."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(0, self.theme.px(27))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        theme, px = self.theme, self.theme.px
        rect: QRect = option.rect
        painter.save()
        if option.state & QStyle.StateFlag.State_Selected:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.border))
            painter.drawRoundedRect(rect, px(4), px(4))
        room = rect.adjusted(px(8), 0, -px(8), 0)
        text, hint, font = index.data(), index.data(HINT), theme.ui_font(13)
        painter.setFont(font)
        painter.setPen(QColor(theme.text))
        painter.drawText(room, LEFT, text)
        room.setLeft(room.left() + QFontMetrics(font).horizontalAdvance(text) + px(24))
        small = theme.ui_font(12)
        painter.setFont(small)
        painter.setPen(QColor(theme.muted))
        cut = QFontMetrics(small).elidedText(hint, Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, RIGHT, cut)
        painter.restore()


class Shade(QWidget):
    """Dims the window, so that nothing half covered is read as a part of the card; a click on it closes that."""

    def __init__(self, card: Palette, parent: QWidget) -> None:
        super().__init__(parent)
        self._card = card
        self.hide()

    def paintEvent(self, event: QPaintEvent) -> None:
        color = QColor(self._card.theme.window)
        color.setAlphaF(0.75)
        with QPainter(self) as painter:
            painter.fillRect(self.rect(), color)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._card.close_palette()


class Palette(QFrame):
    """A card over the window. `entries` is asked each time that it opens; `numbered` makes the entry for a number."""

    def __init__(
        self,
        theme: Theme,
        parent: QWidget,
        entries: Callable[[], list[Entry]],
        numbered: Callable[[str, int], list[Entry]],
    ) -> None:
        super().__init__(parent)
        self.setObjectName("palette")
        self.setAccessibleName("Command palette")
        self._entries, self._numbered = entries, numbered
        self._all: list[Entry] = []
        self._shown: list[Entry] = []
        self._before: QWidget | None = None
        self.field = QLineEdit()
        self.field.setPlaceholderText("An action, a preset, a recent file, step 437, row 17 …")
        self.field.setAccessibleName("Find anything to do")
        self.list = QListWidget()
        self.list.setAccessibleName("What was found")
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._line = Line(theme, self.list)
        self.list.setItemDelegate(self._line)
        self.list.setUniformItemSizes(True)
        self.nothing = QLabel("Nothing fits; try fewer letters.")
        self.nothing.setObjectName("muted")
        self._layout = QVBoxLayout(self)
        for widget in (self.field, self.list, self.nothing):
            self._layout.addWidget(widget)
        self._shade = Shade(self, parent)
        self.field.textChanged.connect(self._search)
        self.field.installEventFilter(self)
        self.list.itemClicked.connect(lambda _: self._take())
        self.set_theme(theme)
        self.hide()

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        px = theme.px
        self._layout.setContentsMargins(px(10), px(10), px(10), px(10))
        self._layout.setSpacing(px(6))
        self.setStyleSheet(
            f"#palette {{ background: {theme.panel}; border: 1px solid {theme.accent}; border-radius: {px(10)}px; }}"
            "QListWidget { background: transparent; border: none; outline: none; }"
        )
        self._line.theme = theme

    def open(self, text: str = "") -> None:
        """Shows the palette with `text` typed already."""
        self._all = self._entries()
        self._before = self.window().focusWidget()
        self.fit()
        self.field.setText(text)
        self._search(text)
        self._shade.show()
        self._shade.raise_()
        self.show()
        self.raise_()
        self.field.setFocus(Qt.FocusReason.PopupFocusReason)

    def close_palette(self) -> None:
        self.hide()
        if self._before is not None:
            self._before.setFocus(Qt.FocusReason.PopupFocusReason)
        else:
            self.window().setFocus(Qt.FocusReason.PopupFocusReason)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._shade.hide()

    def fit(self) -> None:
        """Takes its place at the top middle of the window, as high as what it offers."""
        px, room = self.theme.px, self.window().size()
        width = min(px(800), room.width() - px(40))
        offered = max(1, self.list.count()) * max(self.list.sizeHintForRow(0), px(28))
        wanted = self.field.sizeHint().height() + offered + px(32)
        height = min(wanted, px(440), room.height() - px(80))
        self._shade.setGeometry(self.window().rect())
        self.setGeometry((room.width() - width) // 2, min(px(72), room.height() // 10), width, height)

    def shown_texts(self) -> list[str]:
        """What is offered now, in order."""
        return [entry.text for entry in self._shown]

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            if not event.modifiers() & COMMANDS:
                event.accept()  # letters, arrows and Escape are the palette's while it is open
        elif event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            key, count = event.key(), max(1, self.list.count())
            moves = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1, Qt.Key.Key_PageDown: 8, Qt.Key.Key_PageUp: -8}
            if key in moves:
                by = moves[Qt.Key(key)]
                row = self.list.currentRow() + by
                self.list.setCurrentRow(row % count if abs(by) == 1 else min(max(0, row), count - 1))
                return True
            if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._take()
                return True
            if key == Qt.Key.Key_Escape:
                self.close_palette()
                return True
        elif (
            event.type() == QEvent.Type.FocusOut and self.isVisible() and not self._within(self.window().focusWidget())
        ):
            self.hide()
        return super().eventFilter(watched, event)

    def _within(self, widget: QWidget | None) -> bool:
        return widget is not None and (widget is self or self.isAncestorOf(widget))

    def _search(self, text: str) -> None:
        number = NUMBER.match(text.strip().lower())
        found = rank(text, self._all, lambda entry: f"{entry.text} {entry.hint}", LIMIT)
        if number:
            digits = re.sub(r"\D", "", number[2])
            if digits:
                found = self._numbered(number[1] or "", int(digits[:18])) + found
        self._shown = found
        self.list.clear()
        for entry in found:
            item = QListWidgetItem(entry.text, self.list)
            item.setData(HINT, entry.hint)
            item.setData(
                Qt.ItemDataRole.AccessibleTextRole, f"{entry.text}, {entry.hint}" if entry.hint else entry.text
            )
        self.list.setVisible(bool(found))
        self.nothing.setVisible(not found)
        self.list.setCurrentRow(0)
        self.fit()

    def _take(self) -> None:
        row = self.list.currentRow()
        if 0 <= row < len(self._shown):
            entry = self._shown[row]
            self.close_palette()
            entry.call()
