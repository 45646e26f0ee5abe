"""A panel drawn as text: SVG for what stands still, short values for each part that moves.

Lengths are tenths of a pixel and counted from the upper left corner, so that whole numbers do. A
path is written relative to its first point: a shape that only moves keeps its text.
"""

from __future__ import annotations

import base64
import io
import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import PIL.Image
from matplotlib.backend_bases import RendererBase
from matplotlib.colors import to_hex
from matplotlib.image import AxesImage
from matplotlib.path import Path
from matplotlib.transforms import Affine2D

from bdl_lessons.core.plot_style import style
from bdl_lessons.panels.engine import Panel, moving_artists

UNIT = 10  # to the pixel
FIELDS = ("look", "shape", "x", "y")  # of an element, which a frame has
_FAR = 10**6  # a point that lies further away, in units, is drawn there
_CROWD = 40  # from so many on, the parts of one artist share one element, translucent or not
_SMOOTH = "smooth"
_TOUCHING, _NARROW = 10, 90  # pixels: words of neighbours may touch; a colour bar is no part
_CAPS = {"butt": "butt", "round": "round", "projecting": "square"}
_COMMANDS = {Path.MOVETO: ("m", 1), Path.LINETO: ("l", 1), Path.CURVE3: ("q", 2)}
_COMMANDS |= {Path.CURVE4: ("c", 3), Path.CLOSEPOLY: ("z", 0)}
_NUMBER = re.compile(r"([+\-−]?\d[\d.,]*)")


@dataclass(frozen=True)
class Element:
    """One SVG element.

    Attributes:
        tag: ``path``, ``text`` or ``image``.
        look: the value of its attribute ``style``; for a text with its angle and ``|`` before it.
        shape: path data after the first point, the words, or the address of the image.
        x, y: the first point of a path, the anchor of a text, the corner of an image.
        end: where the pen is after a path.
    """

    tag: str
    look: str
    shape: str
    x: int
    y: int
    end: tuple[int, int] = (0, 0)

    def svg(self) -> str:
        """The element as the page shows it; the player does the same to its own elements."""
        if self.tag == "path":
            return f'<path style="{self.look}" d="M{self.x} {self.y}{self.shape}"/>'
        if self.tag == "image":
            return (
                f'<image style="{self.look}" x="{self.x}" y="{self.y}" '
                f'preserveAspectRatio="none" href="{self.shape}"/>'
            )
        angle, look = self.look.split("|")
        turn = f' transform="rotate({angle} {self.x} {self.y})"' if angle != "0" else ""
        return f'<text style="{look}" x="{self.x}" y="{self.y}"{turn}>{escape(self.shape)}</text>'


class Renderer(RendererBase):
    """Collects what matplotlib draws as elements; ``definitions`` has what they refer to."""

    def __init__(self, name: str, size: tuple[float, float]) -> None:
        super().__init__()
        self.name, (self.width, self.height) = name, size
        self.elements: list[Element] = []
        self.definitions: dict[str, str] = {}
        self._hatches: dict[tuple, str] = {}

    def get_canvas_width_height(self) -> tuple[float, float]:
        return self.width, self.height

    def points_to_pixels(self, points: float) -> float:
        return points * 100 / 72

    def option_scale_image(self) -> bool:
        return True

    def draw_path(self, gc, path, transform, rgbFace=None) -> None:
        width = gc.get_linewidth()
        hatch = gc.get_hatch_path()
        cleaned = path.cleaned(
            transform,
            remove_nans=True,
            clip=(0, 0, self.width, self.height) if rgbFace is None else None,
            simplify=rgbFace is None and path.should_simplify,
            curves=True,
            snap=gc.get_snap(),
            stroke_width=self.points_to_pixels(width),
        )
        fill = self._fill(gc, rgbFace)
        stroke = self._stroke(gc) if width else ""
        if (stroke or fill) and (data := self._path_data(cleaned)):
            looks = [f"{fill or 'fill:none;'}{stroke}"]
            if hatch is not None:
                looks.append(f"fill:url(#{self._hatch(gc, hatch)});")
            self.elements += [Element("path", look + self._clip(gc), *data) for look in looks]

    def draw_markers(self, gc, marker_path, marker_trans, path, trans, rgbFace=None) -> None:
        """Discs are the ends of lines of no length: each takes a few characters."""
        edge = gc.get_linewidth() if gc.get_rgb()[3] else 0
        bare = edge == 0 or (rgbFace is not None and tuple(rgbFace)[:3] == gc.get_rgb()[:3])
        disc = len(marker_path.vertices) == len(Path.unit_circle().vertices) and bare
        if rgbFace is None or not disc:
            super().draw_markers(gc, marker_path, marker_trans, path, trans, rgbFace)
            return
        extent = marker_path.get_extents(marker_trans)
        size = self._round(extent.width + self.points_to_pixels(edge))
        points = trans.transform(path.vertices) + np.array([extent.x0 + extent.width / 2, 0])
        points = points[np.isfinite(points).all(1)]
        if len(points):
            at = self._place(points)
            text = "h0" + "".join(f"m{x} {y}h0" for x, y in np.diff(at, axis=0).tolist())
            look = f"fill:none;stroke:{to_hex(rgbFace)};stroke-width:{size};stroke-linecap:round;"
            look += _opacity("stroke-opacity", _alpha(gc, rgbFace)) + self._clip(gc)
            first = at[0].tolist()
            last = at[-1].tolist()
            self.elements.append(Element("path", look, text, *first, tuple(last)))

    def draw_image(self, gc, x, y, im, transform=None) -> None:
        unsampled = transform is not None
        transform = transform or Affine2D().scale(im.shape[1], im.shape[0])
        (x0, y0), (x1, y1) = transform.transform([(0, 0), (1, 1)]) + np.array([x, y])
        im = im[:: -1 if y0 < y1 else 1, :: -1 if x0 > x1 else 1]
        left = self._round(min(x0, x1))
        top = self._round(self.height - max(y0, y1))
        wide = self._round(abs(x1 - x0))
        high = self._round(abs(y1 - y0))
        look = f"width:{wide}px;height:{high}px;" + _opacity(
            "opacity", gc.get_alpha() if unsampled else 1
        )
        if unsampled and gc.get_gid() != _SMOOTH:
            look += "image-rendering:pixelated;"
        self.elements.append(Element("image", look + self._clip(gc), _png_address(im), left, top))

    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None) -> None:
        if ismath:
            super().draw_text(gc, x, y, s, prop, angle, ismath, mtext)
            return
        size = self._points(prop.get_size_in_points())
        weight = "font-weight:bold;" if prop.get_weight() in ("bold", 700) else ""
        look = f"{-angle % 360:g}|font-size:{size}px;{weight}{self._fill(gc, gc.get_rgb())}"
        self.elements.append(Element("text", look, s, self._round(x), self._round(y)))

    def _fill(self, gc, colour) -> str:
        if colour is None or (len(colour) == 4 and colour[3] == 0):
            return ""
        return f"fill:{to_hex(colour)};" + _opacity("fill-opacity", _alpha(gc, colour))

    def _stroke(self, gc) -> str:
        colour = gc.get_rgb()
        alpha = _alpha(gc, colour)
        if alpha == 0:
            return ""
        look = f"stroke:{to_hex(colour)};stroke-width:{self._points(gc.get_linewidth())};"
        offset, dashes = gc.get_dashes()
        if dashes is not None:
            look += f"stroke-dasharray:{' '.join(str(self._points(dash)) for dash in dashes)};"
            if offset:
                look += f"stroke-dashoffset:{self._points(offset)};"
        if gc.get_capstyle() != "butt":
            look += f"stroke-linecap:{_CAPS[gc.get_capstyle()]};"
        if gc.get_joinstyle() != "miter":
            look += f"stroke-linejoin:{gc.get_joinstyle()};"
        return look + _opacity("stroke-opacity", alpha)

    def _clip(self, gc) -> str:
        box = gc.get_clip_rectangle()
        if box is None:
            return ""
        left = self._round(box.x0)
        right = self._round(box.x1)
        top = self._round(self.height - box.y1)
        bottom = self._round(self.height - box.y0)
        rectangle = f'x="{left}" y="{top}" width="{right - left}" height="{bottom - top}"'
        return f"clip-path:url(#{self._define('clipPath', '', f'<rect {rectangle}/>')})"

    def _hatch(self, gc, hatch) -> str:
        key = gc.get_hatch(), to_hex(gc.get_hatch_color()), gc.get_hatch_linewidth()
        if key not in self._hatches:
            path = hatch.cleaned(Affine2D().scale(72).translate(0, self.height - 72), curves=True)
            shape, x, y, _ = self._path_data(path)
            place = f' width="{72 * UNIT}" height="{72 * UNIT}" patternUnits="userSpaceOnUse"'
            look = f"fill:{key[1]};stroke:{key[1]};stroke-width:{self._points(key[2])}"
            drawing = f'<path style="{look}" d="M{x} {y}{shape}"/>'
            self._hatches[key] = self._define("pattern", place, drawing)
        return self._hatches[key]

    def _define(self, tag: str, attributes: str, content: str) -> str:
        body = f"{tag}|{attributes}|{content}"
        return self.definitions.setdefault(body, f"{self.name}-{len(self.definitions)}")

    def _path_data(self, path: Path):
        """Commands after the first point, that point, and where the pen ends; None if empty."""
        vertices = path.vertices
        codes = path.codes
        if codes is None or len(codes) == 0 or codes[0] != Path.MOVETO:
            return None
        points = self._place(vertices)
        text = ""
        pen = points[0]
        start = points[0]
        last = ""
        i = 1
        while i < len(codes) and codes[i] != Path.STOP:
            letter, count = _COMMANDS[codes[i]]
            end = i + max(count, 1)
            while letter == "l" and end < len(codes) and codes[end] == codes[i]:
                end += 1
            block = points[i : end if count else i]
            before = np.concatenate([pen[None], block[:-1]]) if letter == "l" else pen
            text += (" " if letter == last else letter) + " ".join(
                map(str, (block - before).ravel().tolist())
            )
            pen = block[-1] if count else start
            start = pen if letter == "m" else start
            last = "" if letter in "mz" else letter
            i = end
        return text.replace(" -", "-"), *points[0].tolist(), tuple(pen.tolist())

    def _place(self, vertices: np.ndarray) -> np.ndarray:
        """Pixels from the lower left as units from the upper left; shapes round as one piece."""
        flipped = np.nan_to_num((vertices * [1, -1] + [0, self.height]) * UNIT)
        first = np.rint(flipped[0].clip(-_FAR, _FAR))
        moved = np.rint((flipped - flipped[0]).clip(-_FAR, _FAR)) + first
        return moved.astype(int)

    @staticmethod
    def _round(pixels: float) -> int:
        return round(pixels * UNIT)

    def _points(self, points: float) -> int:
        return self._round(self.points_to_pixels(points))


Frame = dict[str, Any]
"""What a setting shows. Keys ``<artist>.<tag>.<count>.<look, shape, x or y>`` and ``readout.<k>``,
the pieces of the readout; a key that is missing belongs to an element that is not drawn."""


class Scene:
    """The figure of a panel and its moving parts at any setting of the controls.

    It takes the figure over: the panel's images are no longer smoothed in Python.

    Attributes:
        still: SVG of what never moves.
        parts: boxes ``(x, y, width, height)`` of the drawing that may stand below each other.
    """

    def __init__(self, panel: Panel) -> None:
        self.size = tuple(100 * length for length in panel.size)
        with style():
            self._figure = panel.stage.figure
            self._update = panel.stage.update
            self.parts = self._parts(panel.stage.canvas.get_renderer())
            for image in self._figure.findobj(AxesImage):
                if image.get_interpolation() == "bilinear":
                    image.set_gid(_SMOOTH)
                image.set_interpolation("none")
            self._renderer = Renderer(panel.name, self.size)
            self._figure.draw(self._renderer)
        self.still = "".join(element.svg() for element in _merged(self._renderer.elements))

    @property
    def definitions(self) -> str:
        """Rectangles that clip, and hatches: what was drawn refers to them by name."""
        made = ((*body.split("|"), name) for body, name in self._renderer.definitions.items())
        return "".join(f'<{tag} id="{n}"{attrs}>{inner}</{tag}>' for tag, attrs, inner, n in made)

    def frame(self, params: dict[str, Any]) -> Frame:
        """The moving parts at one setting, in the order of drawing, and the readout."""
        found: Frame = {}
        readout = self._update(**params)
        for number, artist in enumerate(moving_artists(self._figure)):
            self._renderer.elements = []
            counts = Counter()
            artist.draw(self._renderer)
            for part in _merged(self._renderer.elements):
                key = f"{number}.{part.tag}.{counts[part.tag]}"
                counts[part.tag] += 1
                found |= {f"{key}.{name}": getattr(part, name) for name in FIELDS}
        return found | {f"readout.{k}": piece for k, piece in enumerate(_NUMBER.split(readout))}

    def _parts(self, agg: RendererBase) -> list[tuple[int, ...]]:
        """Cuts between the axes from left to right; a legend of the whole figure is the last part.

        ``agg`` knows the widths of the words.
        """
        boxes = sorted((a.get_tightbbox(agg) for a in self._figure.axes), key=lambda box: box.x0)
        cuts = [0.0]
        right = boxes[0].x1
        for box in boxes[1:]:
            if box.x0 > right - _TOUCHING and box.width > _NARROW:
                cuts.append((box.x0 + right) / 2)
            right = max(right, box.x1)
        width, height = self.size
        legends = [legend.get_window_extent(agg) for legend in self._figure.legends]
        top_of_legend = max((box.y1 for box in legends), default=0.0)
        parts = [(a, 0, b - a, height - top_of_legend) for a, b in pairwise([*cuts, width])]
        parts += [(box.x0, height - box.y1, box.width, box.height) for box in legends]
        return [tuple(round(UNIT * length) for length in part) for part in parts]


def _merged(elements: list[Element]) -> list[Element]:
    """Paths of one look that follow each other as one path, where that shows no difference.

    A crowd of them becomes one path even if they overlap: a page draws it much faster.
    """
    found = []
    for (tag, look), same in groupby(elements, key=lambda element: (element.tag, element.look)):
        parts = [*same]
        separate = "opacity" in look or ("stroke:" in look and "fill:none" not in look)
        if tag != "path" or (separate and len(parts) <= _CROWD):
            found += parts
            continue
        shape = parts[0].shape
        for (x, y), part in zip((part.end for part in parts), parts[1:], strict=False):
            shape += f"m{part.x - x} {part.y - y}{part.shape}"
        found.append(replace(parts[0], shape=shape, end=parts[-1].end))
    return found


def _alpha(gc, colour) -> float | None:
    """The opacity of a colour, unless the artist has one of its own."""
    return gc.get_alpha() if gc.get_forced_alpha() else (*colour, 1)[3]


def _opacity(name: str, alpha: float | None) -> str:
    return "" if alpha is None or alpha >= 1 else f"{name}:{alpha:.3g};"


def _png_address(pixels: np.ndarray) -> str:
    """The picture as a ``data:`` address; with a palette where its colours allow it."""
    image = PIL.Image.fromarray(np.ascontiguousarray(pixels))
    if pixels[..., 3].min() == 255:
        image = image.convert("RGB")
        if image.getcolors(256):
            image = image.quantize(256, dither=PIL.Image.Dither.NONE)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
