"""Writes assets/fonts/FlashScopeSigns-Regular.ttf: the signs that Inter and JetBrains Mono lack, drawn here.

Needs fontTools, which nothing else does: `pip install fonttools`, then `python tools/make_signs_font.py`.
"""

from pathlib import Path

from fontTools.fontBuilder import FontBuilder  # pyright: ignore[reportMissingImports]
from fontTools.pens.ttGlyphPen import TTGlyphPen  # pyright: ignore[reportMissingImports]

OUT = Path(__file__).parents[1] / "assets" / "fonts" / "FlashScopeSigns-Regular.ttf"
UNITS = 1000
# x from, y from, x to, y to in units of 1/1000 em; capitals of Inter are 727 high
SIGNS = {"ᵀ": (420, ((30, 660, 390, 727), (176, 345, 244, 727)))}


def box(pen: TTGlyphPen, left: int, bottom: int, right: int, top: int) -> None:
    pen.moveTo((left, bottom))
    pen.lineTo((left, top))
    pen.lineTo((right, top))
    pen.lineTo((right, bottom))
    pen.closePath()


def main() -> None:
    names = {sign: f"uni{ord(sign):04X}" for sign in SIGNS}
    build = FontBuilder(UNITS, isTTF=True)
    build.setupGlyphOrder([".notdef", *names.values()])
    build.setupCharacterMap({ord(sign): name for sign, name in names.items()})
    glyphs, widths = {".notdef": TTGlyphPen(None).glyph()}, {".notdef": (500, 0)}
    for sign, (width, boxes) in SIGNS.items():
        pen = TTGlyphPen(None)
        for corners in boxes:
            box(pen, *corners)
        glyphs[names[sign]], widths[names[sign]] = pen.glyph(), (width, boxes[0][0])
    build.setupGlyf(glyphs)
    build.setupHorizontalMetrics(widths)
    build.setupHorizontalHeader(ascent=750, descent=-200)
    build.setupNameTable({"familyName": "FlashScope Signs", "styleName": "Regular", "licenseDescription": "MIT"})
    build.setupOS2(sTypoAscender=750, sTypoDescender=-200, usWinAscent=750, usWinDescent=200)
    build.setupPost()
    build.font["head"].created = build.font["head"].modified = 0
    build.font.recalcTimestamp = False
    build.save(OUT)


if __name__ == "__main__":
    main()
