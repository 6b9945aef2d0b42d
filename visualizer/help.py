"""The small windows of the Help menu: the keys, the words, and what this is."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QKeySequence
from PySide6.QtWidgets import QDialog, QFrame, QGridLayout, QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from visualizer.actions import ACTIONS, MENUS, Action
from visualizer.theme import CODE_FONT, Theme

WORDS: Final = (
    ("q", "q", "A block of query rows. One program of the kernel keeps it on the chip, and answers for these rows."),
    ("k", "k, kᵀ", "A tile of keys, loaded from memory once per visit. s = q·kᵀ are its scores."),
    ("s", "s", "The scores of the tile; −∞ where a row does not see a key. The scale comes in with m and p."),
    ("m", "m", "The largest scaled score of each row so far. Exponents are relative to it, so none overflows."),
    ("alpha", "α", "2^(old m − new m). When a tile raises m, α puts right what was summed relative to the old m."),
    ("p", "p", "2^(scaled s − m): the weights of this tile's keys, not yet divided by their sum."),
    ("l", "l", "The sum of the weights so far. Each tile: l = l·α + row sum of p."),
    ("v", "v", "A tile of values. acc = acc·α + p·v gathers the weighted values."),
    ("acc", "acc, o", "The output, unfinished until the last tile; then o = acc / l: no softmax over a whole row."),
    ("lse", "L (lse)", "m + log₂ l: log₂ of the row's sum of exp(sm_scale·q·k). The backward pass rebuilds p from it."),
)  # fmt: skip


def key_text(keys: tuple[str, ...]) -> str:
    """Keys as people write them."""
    return "  ".join(QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText) for key in keys)


class HelpDialog(QDialog):
    """A title and rows of text in a frame that scrolls; not modal."""

    def __init__(self, title: str, content: QWidget, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(f"{title} — FlashScope")
        self.setAccessibleName(title)
        heading = QLabel(title)
        heading.setObjectName("heading")
        heading.setStyleSheet(f"font-size: {theme.px(18)}px; font-weight: 600;")
        scroll = QScrollArea()
        scroll.setWidget(content)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setAccessibleName(title)
        scroll.setStyleSheet(
            "QScrollArea, QScrollArea > QWidget > QWidget { background: transparent; }"
            "QScrollArea::corner { background: transparent; border: none; }"
        )
        px = theme.px
        layout = QVBoxLayout(self)
        layout.setContentsMargins(px(22), px(18), px(14), px(14))
        layout.setSpacing(px(12))
        layout.addWidget(heading)
        layout.addWidget(scroll)
        for label in content.findChildren(QLabel):
            label.ensurePolished()  # sizes depend on the style sheet's fonts
        wanted = content.sizeHint()
        screen = (self.screen() or QGuiApplication.primaryScreen()).availableSize()
        self.resize(
            min(max(wanted.width(), px(420)) + px(56), screen.width() - px(40)),
            min(wanted.height() + px(80), screen.height() - px(60)),
        )


def keys(theme: Theme, parent: QWidget) -> HelpDialog:
    """Every action that has a key, by menu, in columns."""
    content = QWidget()
    columns = QHBoxLayout(content)
    columns.setContentsMargins(0, 0, theme.px(14), 0)
    columns.setSpacing(theme.px(28))
    groups = {menu.replace("&", ""): [a for a in ACTIONS if a.keys and a.menu.split("/")[0] == menu] for menu in MENUS}
    groups["Anywhere"] = [a for a in ACTIONS if a.keys and not a.menu]
    first = ("Go",)
    others = tuple(name for name in groups if name not in ("Go", "View"))
    for names in (first, others, ("View",)):
        column = QVBoxLayout()
        column.addLayout(_key_rows({name: groups[name] for name in names}, theme))
        column.addStretch(1)
        columns.addLayout(column)
    return HelpDialog("Keys", content, theme, parent)


def words(theme: Theme, parent: QWidget) -> HelpDialog:
    """What each quantity is, in its colour."""
    content = QWidget()
    grid = QGridLayout(content)
    grid.setContentsMargins(0, 0, theme.px(10), 0)
    grid.setHorizontalSpacing(theme.px(20))
    grid.setVerticalSpacing(theme.px(10))
    grid.setColumnStretch(1, 1)
    for row, (quantity, name, text) in enumerate(WORDS):
        word, sentence = QLabel(name), QLabel(text)
        word.setStyleSheet(
            f"color: {theme.word(quantity).name()}; font-family: '{CODE_FONT}'; font-size: {theme.px(13)}px;"
            "font-weight: 700;"
        )
        sentence.setWordWrap(True)
        for label in (word, sentence):
            label.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        sentence.setMinimumWidth(theme.px(460))
        grid.addWidget(word, row, 0, Qt.AlignmentFlag.AlignTop)
        grid.addWidget(sentence, row, 1)
    return HelpDialog("What m, α, l and L are", content, theme, parent)


def about(theme: Theme, parent: QWidget) -> HelpDialog:
    text = QLabel(
        "A microscope for the FlashAttention forward kernel: it runs the real Triton kernel, steps through a NumPy "
        "mirror of the same block loop, and shows that what you see is what ran.\n\n"
        f"Version {_version()}. MIT licence. Inter and JetBrains Mono under the SIL Open Font Licence.\n\n"
        "“flashscope doctor” in a terminal prints what is installed here and what works."
    )
    text.setWordWrap(True)
    text.setMinimumWidth(theme.px(420))
    text.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    return HelpDialog("FlashScope", text, theme, parent)


def _key_rows(groups: dict[str, list[Action]], theme: Theme) -> QGridLayout:
    """The groups below each other, their keys in one column."""
    grid = QGridLayout()
    grid.setHorizontalSpacing(theme.px(16))
    grid.setVerticalSpacing(theme.px(4))
    grid.setColumnStretch(0, 1)
    for title, actions in groups.items():
        if grid.count():
            grid.setRowMinimumHeight(grid.rowCount(), theme.px(10))
        grid.addWidget(_title(title), grid.rowCount(), 0, 1, 2)
        for action in actions:
            name, keys = QLabel(action.text.rstrip("…")), QLabel(key_text(action.keys))
            keys.setObjectName("code")
            name.setObjectName("muted")
            row = grid.rowCount()
            grid.addWidget(name, row, 0)
            grid.addWidget(keys, row, 1)
    return grid


def _title(text: str) -> QLabel:
    label = QLabel(text)
    label.setObjectName("title")
    return label


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and rarely asked for

    try:
        return version("flashscope")
    except PackageNotFoundError:
        return "of a checkout"
