"""Colours, fonts and sizes: one colour for each quantity, in a dark and a light dress, and one zoom for all of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import numpy as np
from PySide6.QtGui import QColor, QFont, QFontDatabase, QPalette
from PySide6.QtWidgets import QApplication, QStyleFactory

import assets

UI_FONT: Final = "Inter"
CODE_FONT: Final = "JetBrains Mono"
SIGNS_FONT: Final = "FlashScope Signs"  # ᵀ, which the other two lack
FONT_FILES: Final = (
    "Inter-Regular.otf",
    "Inter-Medium.otf",
    "Inter-SemiBold.otf",
    "Inter-Bold.otf",
    "JetBrainsMono-Regular.ttf",
    "JetBrainsMono-Bold.ttf",
    "FlashScopeSigns-Regular.ttf",
)
ThemeName = Literal["dark", "light"]

# Okabe-Ito; m and l are darker on light ground, where yellow and sky blue would fade
_QUANTITIES: Final = {
    "dark": {"q": "#56B4E9", "k": "#E69F00", "v": "#009E73", "o": "#CC79A7", "m": "#F0E442", "l": "#4AA3DF"},
    "light": {"q": "#56B4E9", "k": "#E69F00", "v": "#009E73", "o": "#CC79A7", "m": "#B3A200", "l": "#0072B2"},
}
# the same hues as words on the panel's ground, at a contrast of 4.5 or more
_WORDS: Final = {
    "dark": {"v": "#1FC294", "o": "#DB93BA", "alpha": "#F0742A", "l": "#58B0E8", "good": "#2BCB9B", "bad": "#FF8A65"},
    "light": {
        "q": "#1B6FA3",
        "k": "#8A5F00",
        "v": "#00704F",
        "o": "#9C4476",
        "m": "#756900",
        "alpha": "#B54A00",
        "l": "#0069A6",
        "good": "#00704F",
        "bad": "#B3400A",
    },
}

NEGATIVE_SCORES: Final = "#7C6BE0"

# every fifth colour of matplotlib's viridis (van der Walt and Smith; public domain, CC0)
VIRIDIS: Final = (
    "440154 46085c 471063 481769 481d6f 482475 472a7a 46307e 453781 433d84 414287 3f4889 3d4e8a "
    "3a538b 38598c 355e8d 33638d 31688e 2e6d8e 2c718e 2a768e 297b8e 27808e 25848e 23898e 218e8d "
    "20928c 1f978b 1e9c89 1fa188 21a585 24aa83 28ae80 2eb37c 35b779 3dbc74 46c06f 50c46a 5ac864 "
    "65cb5e 70cf57 7cd250 89d548 95d840 a2da37 b0dd2f bddf26 cae11f d8e219 e5e419 f1e51d fde725"
)


@dataclass(frozen=True, slots=True)
class Theme:
    """The look at one zoom. Sizes go through `px`; colours are by role, and by quantity through `color`."""

    name: ThemeName
    zoom: float
    window: str
    panel: str
    border: str
    field: str
    text: str
    muted: str
    grid: str
    to_come: str
    done: str
    skipped: str
    accent: str
    good: str
    bad: str
    marked: str

    def px(self, size: float) -> int:
        """A length in logical pixels at this zoom; never 0 for a size above 0."""
        return max(1, round(size * self.zoom)) if size > 0 else 0

    def color(self, quantity: str) -> QColor:
        """The fill and line colour of q, k, v, s, p, acc, o, m, alpha, l or lse."""
        if quantity in ("s", "p"):
            return QColor(self.text)
        name = {"acc": "o", "lse": "l", "m_new": "m"}.get(quantity, quantity)
        return QColor("#D55E00" if name == "alpha" else _QUANTITIES[self.name][name])

    def word(self, quantity: str) -> QColor:
        """The quantity's colour for text and thin lines, readable on the panel."""
        name = {"acc": "o", "lse": "l", "m_new": "m"}.get(quantity, quantity)
        found = _WORDS[self.name].get(name)
        return QColor(found) if found else self.color(name)

    def thin(self, color: str, part: float) -> QColor:
        """The colour as it looks with that opacity on the panel's ground; opaque ones are ten times quicker to draw."""
        ends = zip(QColor(self.panel).getRgb()[:3], QColor(color).getRgb()[:3], strict=True)  # pyright: ignore
        return QColor(*(round(a + (b - a) * part) for a, b in ends))

    def ui_font(self, size: float = 13, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
        return _font(UI_FONT, self.px(size), weight)

    def code_font(self, size: float = 13, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
        return _font(CODE_FONT, self.px(size), weight)

    def signed_lut(self, quantity: str) -> np.ndarray:
        """(256, 3) uint8: the panel's ground at 0, the quantity's colour above it, and grey below.

        Scores, whose own colour has no hue, are violet where they are negative; m and L, which may all be negative,
        keep half of their hue.
        """
        return _signed_lut(self.name, quantity)

    def heat_lut(self) -> np.ndarray:
        """(256, 3) uint8 viridis, for probabilities and errors."""
        return _viridis()


DARK: Final = Theme(
    name="dark",
    zoom=1.0,
    window="#0f1318",
    panel="#171c23",
    border="#262d38",
    field="#1f2630",
    text="#e7ebf0",
    muted="#98a2b0",
    grid="#2c3440",
    to_come="#3f4855",
    done="#78808c",
    skipped="#1c222b",
    accent="#56B4E9",
    good="#2BCB9B",
    bad="#FF8A65",
    marked="#393b28",
)
LIGHT: Final = Theme(
    name="light",
    zoom=1.0,
    window="#eef1f5",
    panel="#ffffff",
    border="#dde2e9",
    field="#f4f6f9",
    text="#1b2129",
    muted="#5a6472",
    grid="#e3e7ed",
    to_come="#d3d8de",
    done="#989ea7",
    skipped="#f4f6f9",
    accent="#56B4E9",
    good="#00704F",
    bad="#B3400A",
    marked="#f3f0d6",
)


def theme(name: ThemeName, zoom: float = 1.0) -> Theme:
    """The theme by name, scaled by `zoom` (1 is the normal size, about 1.5 suits a projector)."""
    from dataclasses import replace

    return replace(LIGHT if name == "light" else DARK, zoom=zoom)


def load_fonts() -> None:
    """Adds the bundled fonts to the application; call once, after the QApplication exists."""
    for name in FONT_FILES:
        QFontDatabase.addApplicationFont(str(assets.path(f"fonts/{name}")))


def apply(app: QApplication, look: Theme) -> None:
    """Dresses the whole application: Fusion, an explicit palette and the style sheet, whatever the desktop says."""
    if not app.styleSheet():  # a style set again polishes every widget once more
        app.setStyle(QStyleFactory.create("Fusion"))
    app.setFont(look.ui_font())
    app.setPalette(palette(look))
    app.setStyleSheet(style_sheet(look))


def palette(look: Theme) -> QPalette:
    roles = QPalette.ColorRole
    colors = {
        roles.Window: look.window,
        roles.WindowText: look.text,
        roles.Base: look.field,
        roles.AlternateBase: look.panel,
        roles.Text: look.text,
        roles.PlaceholderText: look.muted,
        roles.Button: look.field,
        roles.ButtonText: look.text,
        roles.BrightText: look.bad,
        roles.ToolTipBase: look.field,
        roles.ToolTipText: look.text,
        roles.Highlight: look.accent,
        roles.HighlightedText: "#10151b",
        roles.Link: look.accent,
        roles.Light: look.border,
        roles.Midlight: look.border,
        roles.Mid: look.border,
        roles.Dark: look.border,
        roles.Shadow: look.window,
        roles.Accent: look.accent,
    }
    result = QPalette()
    for role, color in colors.items():
        result.setColor(role, QColor(color))
    for role in (roles.Text, roles.WindowText, roles.ButtonText):
        result.setColor(QPalette.ColorGroup.Disabled, role, QColor(look.muted))
    return result


def style_sheet(look: Theme) -> str:
    """What Fusion and the palette do not say: cards, fields, buttons, menus. Sizes follow the zoom."""
    px = look.px
    return f"""
    QWidget {{ font-family: "{UI_FONT}", "{SIGNS_FONT}"; font-size: {px(13)}px; color: {look.text}; }}
    QMainWindow, QDialog {{ background: {look.window}; }}
    QFrame#card {{ background: {look.panel}; border: 1px solid {look.border}; border-radius: {px(8)}px; }}
    QLabel {{ background: transparent; }}
    QLabel#title {{ font-weight: 600; }}
    QLabel#caption, QLabel#muted {{ color: {look.muted}; }}
    QLabel#code {{ font-family: "{CODE_FONT}", "{SIGNS_FONT}"; }}
    QLabel#problem {{ color: {look.bad}; }}
    QLineEdit, QComboBox, QSpinBox, QDoubleSpinBox {{
        background: {look.field}; border: 1px solid {look.border}; border-radius: {px(5)}px;
        padding: {px(3)}px {px(7)}px; font-family: "{CODE_FONT}", "{SIGNS_FONT}";
        selection-background-color: {look.accent}; selection-color: #10151b; }}
    QLineEdit:focus, QComboBox:focus, QSpinBox:focus, QToolButton:focus, QPushButton:focus, QCheckBox:focus
        {{ border: 1px solid {look.accent}; }}
    QLineEdit[wrong="true"], QComboBox[wrong="true"] {{ border: 1px solid {look.bad}; }}
    QPushButton {{ background: {look.field}; border: 1px solid {look.border}; border-radius: {px(6)}px;
        padding: {px(5)}px {px(12)}px; }}
    QPushButton:hover, QToolButton:hover {{ background: {look.border}; }}
    QPushButton#primary {{ background: {look.accent}; color: #10151b; font-weight: 600; border: none; }}
    QPushButton#primary:hover {{ background: #7cc6f0; }}
    QPushButton#primary:focus {{ border: {px(2)}px solid {look.text}; }}
    QPushButton:disabled {{ color: {look.muted}; }}
    QToolButton {{ background: transparent; border: 1px solid transparent; border-radius: {px(5)}px;
        padding: {px(3)}px; }}
    QMenuBar {{ background: {look.panel}; }}
    QMenuBar::item {{ padding: {px(4)}px {px(9)}px; background: transparent; }}
    QMenuBar::item:selected {{ background: {look.border}; border-radius: {px(4)}px; }}
    QMenu {{ background: {look.panel}; border: 1px solid {look.border}; padding: {px(4)}px; }}
    QMenu::item {{ padding: {px(4)}px {px(22)}px {px(4)}px {px(12)}px; border-radius: {px(4)}px; }}
    QMenu::item:selected {{ background: {look.border}; }}
    QMenu::item:disabled {{ color: {look.muted}; }}
    QMenu::separator {{ height: 1px; background: {look.border}; margin: {px(4)}px {px(8)}px; }}
    QToolTip {{ background: {look.field}; color: {look.text}; border: 1px solid {look.border};
        padding: {px(5)}px; }}
    QComboBox QAbstractItemView {{ background: {look.panel}; border: 1px solid {look.border}; outline: none; }}
    QScrollBar:vertical {{ background: transparent; width: {px(10)}px; margin: 0; }}
    QScrollBar:horizontal {{ background: transparent; height: {px(10)}px; margin: 0; }}
    QScrollBar::handle {{ background: {look.border}; border-radius: {px(4)}px; min-height: {px(24)}px;
        min-width: {px(24)}px; }}
    QScrollBar::handle:hover {{ background: {look.muted}; }}
    QScrollBar::add-line, QScrollBar::sub-line, QScrollBar::add-page, QScrollBar::sub-page
        {{ background: none; border: none; width: 0; height: 0; }}
    QProgressBar {{ background: {look.field}; border: none; border-radius: {px(3)}px; max-height: {px(6)}px; }}
    QProgressBar::chunk {{ background: {look.accent}; border-radius: {px(3)}px; }}
    """


def _font(family: str, size: int, weight: QFont.Weight) -> QFont:
    font = QFont([family, SIGNS_FONT])
    font.setPixelSize(size)
    font.setWeight(weight)
    return font


@cache
def _signed_lut(name: ThemeName, quantity: str) -> np.ndarray:
    look = theme(name)
    ground, positive = QColor(look.skipped if name == "dark" else "#ffffff"), look.color(quantity)
    negative = QColor(NEGATIVE_SCORES if quantity == "s" else look.muted)
    if quantity in ("m", "lse"):
        negative = look.thin(positive.name(), 0.5)
    ends = np.array([[c.red(), c.green(), c.blue()] for c in (negative, ground, positive)], np.float32)
    at = np.linspace(0, 2, 256)[:, None]
    low = ends[0] + (ends[1] - ends[0]) * at
    high = ends[1] + (ends[2] - ends[1]) * (at - 1)
    return np.ascontiguousarray(np.where(at < 1, low, high).round().astype(np.uint8))


@cache
def _viridis() -> np.ndarray:
    anchors = np.frombuffer(bytes.fromhex(VIRIDIS), np.uint8).reshape(-1, 3)
    at = np.linspace(0, 255, len(anchors))
    channels = [np.interp(np.arange(256), at, anchors[:, c]) for c in range(3)]
    return np.ascontiguousarray(np.stack(channels, axis=1).round().astype(np.uint8))
