"""A widget as SVG that looks the same everywhere: letters as outlines, clipping kept, pictures embedded.

Qt's own QSvgGenerator leaves out clips, parts of pixmaps and the fonts, so panels come out wrong with it.
"""

from __future__ import annotations

import base64
from html import escape
from typing import Any, Final

from PySide6.QtCore import QBuffer, QIODevice, QLineF, QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QImage,
    QPaintDevice,
    QPaintEngine,
    QPaintEngineState,
    QPainter,
    QPainterPath,
    QPainterPathStroker,
    QPen,
    QPixmap,
    QPolygonF,
    QTextItem,
    QTransform,
)
from PySide6.QtWidgets import QWidget

from visualizer.svg_words import color_words, digits, matrix, path_data

CAPS: Final = {Qt.PenCapStyle.FlatCap: "butt", Qt.PenCapStyle.SquareCap: "square", Qt.PenCapStyle.RoundCap: "round"}
JOINS: Final = {Qt.PenJoinStyle.MiterJoin: "miter", Qt.PenJoinStyle.BevelJoin: "bevel"}
FINE: Final = 2  # pixels of an embedded picture for each of the drawing's, where a fill has no counterpart in SVG
PLAIN: Final = (Qt.BrushStyle.NoBrush, Qt.BrushStyle.SolidPattern)


def svg(widget: QWidget, ground: QColor, size: tuple[int, int] | None = None) -> bytes:
    """A widget that is shown, on `ground`; `size` cuts it, or leaves room."""
    width, height = size or (widget.width(), widget.height())
    device = Device(width, height, widget.devicePixelRatioF())
    with QPainter(device) as painter:
        widget.render(painter, QPoint(0, 0))
    title = escape(widget.accessibleName() or "FlashScope")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f'<title>{title}</title>\n<rect width="{width}" height="{height}" fill="{ground.name()}"/>\n'
    )
    engine = device.engine
    return (head + "<defs>\n" + "\n".join(engine.defs) + "\n</defs>\n" + "\n".join(engine.out) + "\n</svg>\n").encode()


class Device(QPaintDevice):
    """What a QPainter paints on, `width` x `height` pixels at 96 dpi; `ratio` is that of the widgets' screen."""

    def __init__(self, width: int, height: int, ratio: float = 1) -> None:
        super().__init__()
        self._metrics = {
            QPaintDevice.PaintDeviceMetric.PdmWidth: width,
            QPaintDevice.PaintDeviceMetric.PdmHeight: height,
            QPaintDevice.PaintDeviceMetric.PdmWidthMM: round(width * 25.4 / 96),
            QPaintDevice.PaintDeviceMetric.PdmHeightMM: round(height * 25.4 / 96),
            QPaintDevice.PaintDeviceMetric.PdmNumColors: 1 << 24,
            QPaintDevice.PaintDeviceMetric.PdmDepth: 32,
            QPaintDevice.PaintDeviceMetric.PdmDevicePixelRatio: 1,
            QPaintDevice.PaintDeviceMetric.PdmDevicePixelRatioScaled: int(QPaintDevice.devicePixelRatioFScale()),
        }
        self.engine = Engine(ratio)

    def paintEngine(self) -> QPaintEngine:
        return self.engine

    def metric(self, metric: QPaintDevice.PaintDeviceMetric) -> int:
        return self._metrics.get(metric, 96)  # the rest are dots an inch


class Engine(QPaintEngine):
    """Writes what is painted as SVG elements, in the device's coordinates."""

    def __init__(self, ratio: float = 1) -> None:
        super().__init__(QPaintEngine.PaintEngineFeature.AllFeatures)
        self._ratio = ratio
        self.out: list[str] = []
        self.defs: list[str] = []
        self._ids: dict[Any, str] = {}
        self._boxes: dict[Any, QRectF] = {}

    def begin(self, device: QPaintDevice) -> bool:
        return True

    def end(self) -> bool:
        return True

    def type(self) -> QPaintEngine.Type:
        return QPaintEngine.Type.User

    def updateState(self, state: QPaintEngineState) -> None:
        """The painter is asked at each element instead."""

    def drawPath(self, path: QPainterPath) -> None:
        self._fill(path, self.painter().brush())
        self._stroke(path)

    def drawRects(self, rects: list[QRectF] | list[QRect]) -> None:
        for rect in rects:
            path = QPainterPath()
            path.addRect(QRectF(rect))
            self.drawPath(path)

    def drawLines(self, lines: list[QLineF]) -> None:
        path = QPainterPath()
        for line in map(QLineF, lines):
            path.moveTo(line.p1())
            path.lineTo(line.p2())
        self._stroke(path)

    def drawEllipse(self, rect: QRectF | QRect) -> None:
        path = QPainterPath()
        path.addEllipse(QRectF(rect))
        self.drawPath(path)

    def drawPolygon(self, points: list[QPointF], mode: QPaintEngine.PolygonDrawMode) -> None:
        path = QPainterPath()
        path.addPolygon(QPolygonF([QPointF(p) for p in points]))
        if mode == QPaintEngine.PolygonDrawMode.PolylineMode:
            self._stroke(path)
            return
        path.closeSubpath()
        odd = mode == QPaintEngine.PolygonDrawMode.OddEvenMode
        path.setFillRule(Qt.FillRule.OddEvenFill if odd else Qt.FillRule.WindingFill)
        self.drawPath(path)

    def drawPoints(self, points: list[QPointF]) -> None:
        pen = self.painter().pen()
        size = max(1.0, pen.widthF())
        path = QPainterPath()
        for point in map(QPointF, points):
            path.addRect(QRectF(point.x() - size / 2, point.y() - size / 2, size, size))
        self._fill(path, QBrush(pen.color()))

    def drawTextItem(self, at: QPointF, item: QTextItem) -> None:
        font, text = item.font(), item.text()
        key = (font.key(), text)
        if key not in self._ids:
            path = QPainterPath()
            path.addText(0, 0, font, text)
            path.setFillRule(Qt.FillRule.WindingFill)
            self._ids[key] = f"t{len(self._ids)}"
            self._boxes[key] = path.boundingRect()
            self.defs.append(f'<path id="{self._ids[key]}" d="{path_data(path)}"/>')
        where = QTransform.fromTranslate(at.x(), at.y()) * self._transform()
        color = color_words("fill", self.painter().pen().color())
        use = f'<use href="#{self._ids[key]}" transform="{matrix(where)}"{color} aria-label="{escape(text)}"/>'
        self._put(use, where.mapRect(self._boxes[key]))

    def drawPixmap(self, rect: QRectF, pixmap: QPixmap, source: QRectF) -> None:
        self.drawImage(rect, pixmap.toImage(), source)

    def drawImage(self, rect: QRectF, image: QImage, source: QRectF, flags: Any = None) -> None:
        part = source.toAlignedRect().intersected(image.rect())
        if part.isEmpty() or rect.isEmpty():
            return
        cut = image if part == image.rect() else image.copy(part)
        # where `source` ends between pixels, what was cut too wide hangs over
        x, y = rect.width() / source.width(), rect.height() / source.height()
        left, top = rect.x() + (part.x() - source.x()) * x, rect.y() + (part.y() - source.y()) * y
        self._picture(QRectF(left, top, part.width() * x, part.height() * y), cut)

    def drawTiledPixmap(self, rect: QRectF, pixmap: QPixmap, start: QPointF) -> None:
        brush = QBrush(pixmap)
        brush.setTransform(QTransform.fromTranslate(rect.x() - start.x(), rect.y() - start.y()))
        path = QPainterPath()
        path.addRect(QRectF(rect))
        self._fill(path, brush)

    def _fill(self, path: QPainterPath, brush: QBrush) -> None:
        if brush.style() == Qt.BrushStyle.NoBrush or path.isEmpty():
            return
        if brush.style() not in PLAIN:
            self._painted(path, brush)
            return
        rule = ' fill-rule="evenodd"' if path.fillRule() == Qt.FillRule.OddEvenFill else ""
        path, limits = self._transform().map(path), self._limits()
        if limits is not None and not limits.contains(path.boundingRect()):
            path, rule = path.intersected(limits), ""
        if not path.isEmpty():
            self._put(f'<path d="{path_data(path)}"{color_words("fill", brush.color())}{rule}/>')

    def _stroke(self, path: QPainterPath) -> None:
        pen = self.painter().pen()
        if pen.style() == Qt.PenStyle.NoPen or path.isEmpty():
            return
        width = self._width(pen)
        path, limits = self._transform().map(path), self._limits()
        if limits is None or limits.contains(path.boundingRect().adjusted(-width, -width, width, width)):
            self._put(f'<path d="{path_data(path)}" fill="none"{self._pen(pen, width)}/>')
            return
        # the line's own outline, cut: some viewers know no clipping
        stroker = QPainterPathStroker(pen)
        stroker.setWidth(width)
        outline = stroker.createStroke(path)
        outline.setFillRule(Qt.FillRule.WindingFill)
        cut = outline.simplified().intersected(limits)
        if not cut.isEmpty():
            self._put(f'<path d="{path_data(cut)}"{color_words("fill", pen.color())}/>')

    def _width(self, pen: QPen) -> float:
        # a cosmetic pen counts the screen's own pixels
        scale = 1 / self._ratio if pen.isCosmetic() else (abs(self._transform().determinant()) or 1.0) ** 0.5
        return (pen.widthF() or 1.0) * scale

    def _pen(self, pen: QPen, width: float) -> str:
        words = f'{color_words("stroke", pen.color())} stroke-width="{digits(width)}"'
        words += f' stroke-linecap="{CAPS.get(pen.capStyle(), "butt")}"'
        words += f' stroke-linejoin="{JOINS.get(pen.joinStyle(), "round")}"'
        if pen.style() != Qt.PenStyle.SolidLine:
            words += f' stroke-dasharray="{" ".join(digits(x * width) for x in pen.dashPattern())}"'
        return words

    def _painted(self, path: QPainterPath, brush: QBrush) -> None:
        """Hatches, textures and gradients: painted, and embedded."""
        box = path.boundingRect().toAlignedRect().adjusted(-1, -1, 1, 1)
        clip = self.painter().clipBoundingRect().toAlignedRect() if self.painter().hasClipping() else box
        box = box.intersected(clip)
        if box.isEmpty():
            return
        image = QImage(box.size() * FINE, QImage.Format.Format_ARGB32_Premultiplied)
        image.fill(0)
        with QPainter(image) as painter:
            painter.setRenderHints(self.painter().renderHints())
            painter.scale(FINE, FINE)
            painter.translate(-box.x(), -box.y())
            painter.setBrushOrigin(self.painter().brushOrigin())
            painter.fillPath(path, brush)
        self._picture(QRectF(box), image, smooth=True)

    def _picture(self, rect: QRectF, image: QImage, smooth: bool | None = None) -> None:
        if smooth is None:
            smooth = bool(self.painter().renderHints() & QPainter.RenderHint.SmoothPixmapTransform)
        buffer = QBuffer()
        buffer.open(QIODevice.OpenModeFlag.WriteOnly)
        image.save(buffer, "PNG")  # pyright: ignore[reportArgumentType, reportCallIssue]
        data = base64.b64encode(bytes(buffer.data().data())).decode("ascii")
        style = "" if smooth else ' style="image-rendering: pixelated"'
        sides = {"x": rect.x(), "y": rect.y(), "width": rect.width(), "height": rect.height()}
        place = " ".join(f'{name}="{digits(value)}"' for name, value in sides.items())
        transform = self._transform()
        moved = "" if transform.isIdentity() else f' transform="{matrix(transform)}"'
        self._put(
            f'<image {place} preserveAspectRatio="none"{moved}{style} href="data:image/png;base64,{data}"/>',
            transform.mapRect(rect),
        )

    def _put(self, element: str, bounds: QRectF | None = None) -> None:
        """Adds an element under the present opacity, and cut where its `bounds` go beyond the limits."""
        words = ""
        if (opacity := self.painter().opacity()) < 1:
            words += f' opacity="{digits(opacity)}"'
        limits = self._limits() if bounds is not None else None
        if limits is not None and bounds is not None and not limits.contains(bounds):
            if not limits.intersects(bounds):
                return
            data = path_data(limits)
            if ("clip", data) not in self._ids:
                name = self._ids["clip", data] = f"c{len(self._ids)}"
                self.defs.append(f'<clipPath id="{name}"><path d="{data}" clip-rule="evenodd"/></clipPath>')
            words += f' clip-path="url(#{self._ids["clip", data]})"'
        self.out.append(f"<g{words}>{element}</g>" if words else element)

    def _limits(self) -> QPainterPath | None:
        """What the painter's clip and the widget's own edges leave, in the device's coordinates."""
        painter, path = self.painter(), None
        if not self.systemClip().isEmpty():
            path = QPainterPath()
            path.addRegion(self.systemClip())
        if painter.hasClipping():
            own = self._transform().map(painter.clipPath())
            path = own if path is None else path.intersected(own)
        return None if path is None else path.simplified()

    def _transform(self) -> QTransform:
        return self.painter().deviceTransform()
