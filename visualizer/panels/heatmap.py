"""A tile of numbers as a picture: colours by level, hatched where masked, loud where it is not a number."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Final

import numpy as np
from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QFontMetrics, QImage, QPainter, QPixmap

from visualizer.numbers import MINUS
from visualizer.theme import Theme

# the last entries of a colour table are no shades: -inf, +inf, NaN
SHADES: Final = 253
NEG_INF, POS_INF, NAN = SHADES, SHADES + 1, SHADES + 2
LOUD: Final = "#FF2BD6"
DARK_INK: Final = "#000000"
LIGHT_INK: Final = "#ffffff"
SIGNS: Final = "0123456789.-e∞Na" + MINUS


def color_table(lut: np.ndarray, theme: Theme) -> np.ndarray:
    """(256,) uint32 0xAARRGGBB: 253 shades of a (256, 3) look-up table, then the colours of -inf, +inf and NaN."""
    shades = lut[np.linspace(0, 255, SHADES).round().astype(int)]
    special = [QColor(c) for c in (theme.panel, theme.text, LOUD)]
    rgb = np.concatenate([shades, [[c.red(), c.green(), c.blue()] for c in special]]).astype(np.uint32)
    return np.uint32(0xFF000000) | rgb[:, 0] << 16 | rgb[:, 1] << 8 | rgb[:, 2]


def to_index(values: np.ndarray, levels: tuple[float, float]) -> np.ndarray:
    """uint8 entries of a color_table for float values; levels are the values of the first and the last shade."""
    low, high = levels
    span = high - low or 1.0
    # float32 has no room for the slope, or for where it begins, beyond that
    kind = np.float32 if 1e-30 < span < 1e30 and abs(low) < 1e30 * span else np.float64
    slope = kind((SHADES - 1) / span)
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = values * slope
        scaled += kind(0.5) - kind(low) * slope
        np.maximum(scaled, 0, out=scaled)
        np.minimum(scaled, SHADES - 0.5, out=scaled)
    if np.isfinite(values).all():
        return scaled.astype(np.uint8)
    index = np.where(np.isnan(scaled), 0, scaled).astype(np.uint8)
    index[values == -np.inf] = NEG_INF
    index[values == np.inf] = POS_INF
    index[np.isnan(values)] = NAN
    return index


def thin_out(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """At most height x width values: each is the one of its group of neighbours that is largest in size (or NaN)."""
    groups = [max(1, -(-n // max(1, limit))) for n, limit in zip(values.shape, (height, width), strict=True)]
    if groups == [1, 1]:
        return values
    high = low = values
    for axis, size in enumerate(groups):
        high, low = _reduced(high, axis, size, np.maximum), _reduced(low, axis, size, np.minimum)
    return np.where(high >= -low, high, low)


def _reduced(values: np.ndarray, axis: int, size: int, ufunc: np.ufunc) -> np.ndarray:
    """Groups of `size` neighbours along an axis as one value each; slices are much quicker than a reduction by axes."""
    if size == 1:
        return values
    parts = [values[at::size] if axis == 0 else values[:, at::size] for at in range(size)]
    result = parts[0].copy()
    for part in parts[1:]:
        inside = result[: len(part)] if axis == 0 else result[:, : part.shape[1]]
        ufunc(inside, part, out=inside)
    return result


def draw_tile(
    values: np.ndarray,
    levels: tuple[float, float],
    table: np.ndarray,
    size: tuple[int, int],
    ratio: float,
    theme: Theme,
    keep: np.ndarray | None = None,
    font: QFont | None = None,
) -> QPixmap:
    """A picture of `values` (R, C), size (width, height) in device pixels, `ratio` of them to a logical one.

    keep (R, C) bool: False is hatched as masked. font: writes the numbers into the cells.
    """
    width, height = size
    pixmap = QPixmap(width, height)
    pixmap.setDevicePixelRatio(ratio)
    whole = QRectF(0, 0, width / ratio, height / ratio)
    if keep is not None:
        values = np.where(keep, values, np.float32(0))
    values = thin_out(values, height, width)
    index = to_index(values, levels)
    with QPainter(pixmap) as painter:
        painter.drawImage(whole, _image(table[index]))
        if keep is not None and not keep.all():
            masked = thin_out((~keep).astype(np.float32), height, width) > 0
            _hatch(
                painter, whole, masked, QColor(theme.skipped), QColor(theme.muted), Qt.BrushStyle.BDiagPattern, ratio
            )
        else:
            masked = None
        nothing = index == NEG_INF
        if nothing.any():
            _hatch(painter, whole, nothing, QColor(theme.panel), QColor(theme.muted), Qt.BrushStyle.HorPattern, ratio)
        wrong = index == NAN
        if wrong.any():
            _hatch(painter, whole, wrong, QColor(LOUD), QColor("#000000"), Qt.BrushStyle.DiagCrossPattern, ratio)
        if font is not None:
            _numbers(painter, whole, values, table[index], masked, font, ratio)
    return pixmap


def ink_on(color: int) -> QColor:
    """Black or white, whichever reads better on a colour 0xAARRGGBB."""
    return QColor(DARK_INK if _luminance(*(color >> shift & 255 for shift in (16, 8, 0))) > 0.18 else LIGHT_INK)


def _luminance(red, green, blue):
    """Relative luminance, 0 to 1, of 8-bit sRGB values; at 0.18 black and white have the same contrast."""
    return 0.2126 * (red / 255) ** 2.2 + 0.7152 * (green / 255) ** 2.2 + 0.0722 * (blue / 255) ** 2.2


def short(x: float) -> str:
    """A number in at most five characters (six when negative and tiny)."""
    size, sign = abs(x), MINUS if x < 0 else ""
    if not math.isfinite(x):
        return "NaN" if x != x else f"{sign}∞"
    if size == 0:
        return "0"
    if size < 0.005 or size >= 9999.5:
        mantissa, power = f"{size:.0e}".split("e")
        return f"{sign}{mantissa}e{int(power)}"
    return sign + (f"{size:.2f}" if size < 9.995 else f"{size:.1f}" if size < 99.95 else f"{size:.0f}")


def _image(colors: np.ndarray) -> QImage:
    colors = np.ascontiguousarray(colors)
    rows, cols = colors.shape
    # a copy, since Qt does not keep the array alive
    return QImage(colors.data, cols, rows, 4 * cols, QImage.Format.Format_ARGB32_Premultiplied).copy()


def fill_pattern(painter: QPainter, rect: QRectF | QRect, ink: QColor, style: Qt.BrushStyle) -> None:
    """Fills a rectangle with one of Qt's patterns."""
    painter.fillRect(rect, QBrush(ink, style))


def _hatch(
    painter: QPainter,
    rect: QRectF,
    where: np.ndarray,
    ground: QColor,
    ink: QColor,
    style: Qt.BrushStyle,
    ratio: float,
) -> None:
    """Fills the cells of rect that `where` (R, C) marks with a pattern, whatever their shape."""
    stencil = _image(np.where(where, np.uint32(0xFF000000), np.uint32(0)))
    layer = QImage(round(rect.width() * ratio), round(rect.height() * ratio), stencil.format())
    layer.setDevicePixelRatio(ratio)
    layer.fill(Qt.GlobalColor.transparent)
    with QPainter(layer) as inner:
        inner.drawImage(rect, stencil)
        inner.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceAtop)
        inner.fillRect(rect, ground)
        fill_pattern(inner, rect, ink, style)
    painter.drawImage(QPointF(0, 0), layer)


def _numbers(
    painter: QPainter,
    rect: QRectF,
    values: np.ndarray,
    colors: np.ndarray,
    masked: np.ndarray | None,
    font: QFont,
    ratio: float,
) -> None:
    """Writes the numbers as one picture put together from ready-made signs: hundreds of texts would take too long."""
    look = font.family(), font.pixelSize(), ratio
    rows, cols = values.shape
    width, height = round(rect.width() * ratio), round(rect.height() * ratio)
    ink = np.zeros((height, width), np.uint8)
    for i in range(rows):
        for j in range(cols):
            if masked is not None and masked[i, j]:
                continue
            written = _written(short(float(values[i, j])), *look)
            high, wide = written.shape
            _put(ink, written, round((i + 0.5) * height / rows - high / 2), round((j + 0.5) * width / cols - wide / 2))
    red, green, blue = (colors >> shift & 255 for shift in (16, 8, 0))
    bright = _luminance(red, green, blue) > 0.18
    y, x = np.arange(height) * rows // height, np.arange(width) * cols // width
    # premultiplied: black ink is alpha alone, white ink is alpha in all four channels
    picture = ink.astype(np.uint32) * np.where(bright, np.uint32(1 << 24), np.uint32(0x01010101))[y[:, None], x]
    layer = _image(picture)
    layer.setDevicePixelRatio(ratio)
    painter.drawImage(QPointF(0, 0), layer)


def _put(ink: np.ndarray, glyphs: np.ndarray, top: int, left: int) -> None:
    """Writes glyphs into ink, cut at its edges."""
    y, x = max(0, -top), max(0, -left)
    part = glyphs[y : ink.shape[0] - top, x : ink.shape[1] - left]
    ink[top + y : top + y + part.shape[0], left + x : left + x + part.shape[1]] = part


@lru_cache(maxsize=8192)
def _written(text: str, family: str, size: int, ratio: float) -> np.ndarray:
    """(height, width) uint8: how much ink each pixel of a number takes."""
    signs = _signs(family, size, ratio)
    return np.concatenate([signs[SIGNS.index(c)] for c in text], axis=1)


@cache
def _signs(family: str, size: int, ratio: float) -> np.ndarray:
    """(signs, height, width) uint8: how much ink each pixel of each of SIGNS takes."""
    font = QFont(family)
    font.setPixelSize(size)
    metrics = QFontMetrics(font)
    wide, high = math.ceil(metrics.horizontalAdvance("0") * ratio), math.ceil(metrics.height() * ratio)
    image = QImage(wide * len(SIGNS), high, QImage.Format.Format_Grayscale8)
    image.fill(Qt.GlobalColor.black)
    with QPainter(image) as painter:
        painter.scale(ratio, ratio)
        painter.setFont(font)
        painter.setPen(Qt.GlobalColor.white)
        for i, sign in enumerate(SIGNS):
            box = QRectF(i * wide / ratio, 0, wide / ratio, high / ratio)
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, sign)
    raw = np.frombuffer(image.constBits(), np.uint8).reshape(high, image.bytesPerLine())[:, : wide * len(SIGNS)]
    return np.ascontiguousarray(raw.reshape(high, len(SIGNS), wide).transpose(1, 0, 2))
