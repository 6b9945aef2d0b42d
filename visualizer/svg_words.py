"""Paths, colours and numbers as SVG writes them."""

from __future__ import annotations

from PySide6.QtGui import QColor, QPainterPath, QTransform


def path_data(path: QPainterPath) -> str:
    """A path's d attribute."""
    kinds = QPainterPath.ElementType
    words: list[str] = []
    start = last = (0.0, 0.0)
    for i in range(path.elementCount()):
        element = path.elementAt(i)
        x, y = element.x, element.y
        kind = element.type
        if kind == kinds.MoveToElement:
            if words and last == start:
                words.append("Z")
            start = (x, y)
            words.append("M")
        elif kind != kinds.CurveToDataElement:
            words.append("L" if kind == kinds.LineToElement else "C")
        words.append(f"{digits(x)} {digits(y)}")
        last = (x, y)
    if words and last == start and path.elementCount() > 1:
        words.append("Z")
    return " ".join(words)


def color_words(name: str, color: QColor) -> str:
    """The attributes of a fill or stroke."""
    alpha = f' {name}-opacity="{digits(color.alphaF())}"' if color.alpha() < 255 else ""
    return f' {name}="{color.name()}"{alpha}'


def matrix(t: QTransform) -> str:
    """A transform's value."""
    return f"matrix({' '.join(digits(x) for x in (t.m11(), t.m12(), t.m21(), t.m22(), t.dx(), t.dy()))})"


def digits(x: float) -> str:
    """A number in at most three decimals, without a needless point."""
    return f"{x:.3f}".rstrip("0").rstrip(".") if x == x else "0"
