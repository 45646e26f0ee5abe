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

from bdl_lessons.core import plot_style
from bdl_lessons.panels.engine import Panel, moving_artists

UNIT = 10  # to the pixel
FIELDS = ("style", "shape", "x", "y")  # of an element, which a frame has
_FAR = 10**6  # a point that lies further away, in units, is drawn there
_CROWD = 40  # from so many on, the parts of one artist share one element, translucent or not
_SMOOTH = "smooth"
_TOUCHING = 10  # pixels by which words of neighbours may overlap
_NARROW = 90  # pixels: what is no wider, such as a colour bar, is no part of its own
_CAPS = {"butt": "butt", "round": "round", "projecting": "square"}
_COMMANDS = {  # the letter of SVG, and how many points it takes
    Path.MOVETO: ("m", 1),
    Path.LINETO: ("l", 1),
    Path.CURVE3: ("q", 2),
    Path.CURVE4: ("c", 3),
    Path.CLOSEPOLY: ("z", 0),
}
_NUMBER = re.compile(r"([+\-−]?\d[\d.,]*)")


@dataclass(frozen=True)
class Element:
    """One SVG element.

    Attributes:
        tag: ``path``, ``text`` or ``image``.
        style: the value of this attribute; for a text with its angle and ``|`` before it.
        shape: path data after the first point, the words, or the address of the image.
        x, y: the first point of a path, the anchor of a text, the corner of an image.
        end: where the pen is after a path.
    """

    tag: str
    style: str
    shape: str
    x: int
    y: int
    end: tuple[int, int] = (0, 0)

    def svg(self) -> str:
        """The element as the page shows it; the player does the same to its own elements."""
        if self.tag == "path":
            return f'<path style="{self.style}" d="M{self.x} {self.y}{self.shape}"/>'
        if self.tag == "image":
            return (
                f'<image style="{self.style}" x="{self.x}" y="{self.y}" '
                f'preserveAspectRatio="none" href="{self.shape}"/>'
            )
        angle, style = self.style.split("|")
        attributes = f'style="{style}" x="{self.x}" y="{self.y}"'
        if angle != "0":
            attributes += f' transform="rotate({angle} {self.x} {self.y})"'
        return f"<text {attributes}>{escape(self.shape)}</text>"


class Renderer(RendererBase):
    """Collects what matplotlib draws as elements; ``definitions`` has what they refer to."""

    def __init__(self, name: str, size: tuple[float, float]) -> None:
        super().__init__()
        self.name = name
        self.width, self.height = size
        self.elements: list[Element] = []
        self.definitions: dict[str, str] = {}
        self._hatches: dict[tuple, str] = {}

    def get_canvas_width_height(self) -> tuple[float, float]:
        """In pixels."""
        return self.width, self.height

    def points_to_pixels(self, points: float) -> float:
        """At the 100 dots per inch of all panels."""
        return points * 100 / 72

    def option_scale_image(self) -> bool:
        """The page scales images: they come with the pixels that their data have."""
        return True

    def draw_path(self, gc, path, transform, rgbFace=None) -> None:
        """A line, a surface, or both; a hatch is a second element on top."""
        is_line = rgbFace is None
        width = gc.get_linewidth()
        cleaned = path.cleaned(
            transform,
            remove_nans=True,
            clip=(0, 0, self.width, self.height) if is_line else None,
            simplify=is_line and path.should_simplify,
            curves=True,
            snap=gc.get_snap(),
            stroke_width=self.points_to_pixels(width),
        )
        fill = self._fill(gc, rgbFace)
        stroke = self._stroke(gc) if width else ""
        if not stroke and not fill:
            return
        fill = fill or "fill:none;"
        self._add_path(cleaned, style=fill + stroke + self._clip(gc))
        hatch = gc.get_hatch_path()
        if hatch is not None:
            pattern = self._hatch(gc, hatch)
            self._add_path(cleaned, style=f"fill:url(#{pattern});{self._clip(gc)}")

    def _add_path(self, path: Path, style: str) -> None:
        data = self._path_data(path)
        if data is not None:
            shape, x, y, end = data
            self.elements.append(Element("path", style, shape, x, y, end))

    def draw_markers(self, gc, marker_path, marker_trans, path, trans, rgbFace=None) -> None:
        """Discs are the ends of lines of no length: each takes a few characters."""
        edge = gc.get_linewidth() if gc.get_rgb()[3] else 0
        if not self._is_disc(gc, marker_path, edge, rgbFace):
            super().draw_markers(gc, marker_path, marker_trans, path, trans, rgbFace)
            return
        extent = marker_path.get_extents(marker_trans)
        to_centre = np.array([extent.x0 + extent.width / 2, 0])
        points = trans.transform(path.vertices) + to_centre
        points = points[np.isfinite(points).all(axis=1)]
        if len(points) == 0:
            return
        places = self._place(points)
        steps = np.diff(places, axis=0).tolist()
        size = self._round(extent.width + self.points_to_pixels(edge))
        style = f"fill:none;stroke:{to_hex(rgbFace)};stroke-width:{size};stroke-linecap:round;"
        style += _opacity("stroke-opacity", _alpha(gc, rgbFace))
        style += self._clip(gc)
        x, y = places[0].tolist()
        end_x, end_y = places[-1].tolist()
        shape = "h0" + "".join(f"m{dx} {dy}h0" for dx, dy in steps)
        self.elements.append(Element("path", style, shape, x, y, end=(end_x, end_y)))

    @staticmethod
    def _is_disc(gc, marker_path, edge: float, colour) -> bool:
        """Whether a marker is a filled circle without an edge of another colour."""
        if colour is None:
            return False
        is_circle = len(marker_path.vertices) == len(Path.unit_circle().vertices)
        is_bare = edge == 0 or tuple(colour)[:3] == gc.get_rgb()[:3]
        return is_circle and is_bare

    def draw_image(self, gc, x, y, im, transform=None) -> None:
        """An image with its own pixels; one without a transform has those of the screen."""
        has_own_pixels = transform is not None
        if not has_own_pixels:
            transform = Affine2D().scale(im.shape[1], im.shape[0])
        (x0, y0), (x1, y1) = transform.transform([(0, 0), (1, 1)]) + np.array([x, y])
        if y0 < y1:
            im = im[::-1]
        if x0 > x1:
            im = im[:, ::-1]
        left = self._round(min(x0, x1))
        top = self._round(self.height - max(y0, y1))
        width = self._round(abs(x1 - x0))
        height = self._round(abs(y1 - y0))
        style = f"width:{width}px;height:{height}px;"
        if has_own_pixels:
            style += _opacity("opacity", gc.get_alpha())
            if gc.get_gid() != _SMOOTH:
                style += "image-rendering:pixelated;"
        style += self._clip(gc)
        self.elements.append(Element("image", style, _png_address(im), left, top))

    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None) -> None:
        """Words; a formula is drawn as paths. SVG turns clockwise, matplotlib the other way."""
        if ismath:
            super().draw_text(gc, x, y, s, prop, angle, ismath, mtext)
            return
        style = f"font-size:{self._points(prop.get_size_in_points())}px;"
        if prop.get_weight() in ("bold", 700):
            style += "font-weight:bold;"
        style += self._fill(gc, gc.get_rgb())
        clockwise = f"{-angle % 360:g}"
        left = self._round(x)
        top = self._round(y)
        self.elements.append(Element("text", f"{clockwise}|{style}", s, left, top))

    def _fill(self, gc, colour) -> str:
        """The style of a surface; empty for one without a colour."""
        if colour is None or (len(colour) == 4 and colour[3] == 0):
            return ""
        return f"fill:{to_hex(colour)};" + _opacity("fill-opacity", _alpha(gc, colour))

    def _stroke(self, gc) -> str:
        """The style of a line; empty for one that is transparent."""
        colour = gc.get_rgb()
        alpha = _alpha(gc, colour)
        if alpha == 0:
            return ""
        style = f"stroke:{to_hex(colour)};stroke-width:{self._points(gc.get_linewidth())};"
        offset, dashes = gc.get_dashes()
        if dashes is not None:
            lengths = " ".join(str(self._points(dash)) for dash in dashes)
            style += f"stroke-dasharray:{lengths};"
            if offset:
                style += f"stroke-dashoffset:{self._points(offset)};"
        if gc.get_capstyle() != "butt":
            style += f"stroke-linecap:{_CAPS[gc.get_capstyle()]};"
        if gc.get_joinstyle() != "miter":
            style += f"stroke-linejoin:{gc.get_joinstyle()};"
        return style + _opacity("stroke-opacity", alpha)

    def _clip(self, gc) -> str:
        """The style that cuts off what lies outside of the axes."""
        box = gc.get_clip_rectangle()
        if box is None:
            return ""
        left = self._round(box.x0)
        right = self._round(box.x1)
        top = self._round(self.height - box.y1)
        bottom = self._round(self.height - box.y0)
        place = f'x="{left}" y="{top}" width="{right - left}" height="{bottom - top}"'
        name = self._define("clipPath", attributes="", content=f"<rect {place}/>")
        return f"clip-path:url(#{name})"

    def _hatch(self, gc, hatch) -> str:
        """The name of the pattern of a hatch, which is defined once."""
        colour = to_hex(gc.get_hatch_color())
        width = gc.get_hatch_linewidth()
        key = (gc.get_hatch(), colour, width)
        if key not in self._hatches:
            tile = Affine2D().scale(72).translate(0, self.height - 72)
            shape, x, y, _ = self._path_data(hatch.cleaned(tile, curves=True))
            style = f"fill:{colour};stroke:{colour};stroke-width:{self._points(width)}"
            side = 72 * UNIT
            self._hatches[key] = self._define(
                "pattern",
                attributes=f' width="{side}" height="{side}" patternUnits="userSpaceOnUse"',
                content=f'<path style="{style}" d="M{x} {y}{shape}"/>',
            )
        return self._hatches[key]

    def _define(self, tag: str, attributes: str, content: str) -> str:
        """The name of a definition; equal ones share it."""
        body = f"{tag}|{attributes}|{content}"
        return self.definitions.setdefault(body, f"{self.name}-{len(self.definitions)}")

    def _path_data(self, path: Path) -> tuple[str, int, int, tuple[int, int]] | None:
        """Commands after the first point, that point, and where the pen ends; None if empty.

        Lines that follow each other share one command, whose letter is written once.
        """
        codes = path.codes
        if codes is None or len(codes) == 0 or codes[0] != Path.MOVETO:
            return None
        points = self._place(path.vertices)
        commands = ""
        pen = points[0]
        start = points[0]
        last_letter = ""
        i = 1
        while i < len(codes) and codes[i] != Path.STOP:
            letter, n_points = _COMMANDS[codes[i]]
            if letter == "z":
                commands += "z"
                pen = start
                last_letter = ""
                i += 1
                continue
            end = i + n_points
            while letter == "l" and end < len(codes) and codes[end] == codes[i]:
                end += 1
            block = points[i:end]
            origin = np.concatenate([pen[None], block[:-1]]) if letter == "l" else pen
            numbers = (block - origin).ravel().tolist()
            commands += " " if letter == last_letter else letter
            commands += " ".join(str(number) for number in numbers)
            pen = block[-1]
            last_letter = letter
            if letter == "m":
                start = pen
                last_letter = ""  # a second pair of numbers would be a line
            i = end
        x, y = points[0].tolist()
        end_x, end_y = pen.tolist()
        return commands.replace(" -", "-"), x, y, (end_x, end_y)

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
"""What a setting shows. Keys are ``<artist>.<tag>.<count>.<style, shape, x or y>``, and
``readout.<k>`` for the pieces of the readout; a key that is missing belongs to an element that is
not drawn."""


class Scene:
    """The figure of a panel and its moving parts at any setting of the controls.

    It takes the figure over: the panel's images are no longer smoothed in Python.

    Attributes:
        still: SVG of what never moves.
        parts: boxes ``(x, y, width, height)`` of the drawing that may stand below each other.
    """

    def __init__(self, panel: Panel) -> None:
        self.size = tuple(100 * length for length in panel.size)
        with plot_style.style():
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
        elements = []
        for body, name in self._renderer.definitions.items():
            tag, attributes, content = body.split("|")
            elements.append(f'<{tag} id="{name}"{attributes}>{content}</{tag}>')
        return "".join(elements)

    def frame(self, params: dict[str, Any]) -> Frame:
        """The moving parts at one setting, in the order of drawing, and the readout."""
        frame: Frame = {}
        readout = self._update(**params)
        for number, artist in enumerate(moving_artists(self._figure)):
            self._renderer.elements = []
            artist.draw(self._renderer)
            counts = Counter()
            for element in _merged(self._renderer.elements):
                key = f"{number}.{element.tag}.{counts[element.tag]}"
                counts[element.tag] += 1
                for field in FIELDS:
                    frame[f"{key}.{field}"] = getattr(element, field)
        for k, piece in enumerate(_NUMBER.split(readout)):
            frame[f"readout.{k}"] = piece
        return frame

    def _parts(self, agg: RendererBase) -> list[tuple[int, ...]]:
        """Cuts between the axes from left to right; a legend of the whole figure is the last part.

        ``agg`` knows the widths of the words.
        """
        boxes = [axes.get_tightbbox(agg) for axes in self._figure.axes]
        boxes.sort(key=lambda box: box.x0)
        cuts = [0.0]
        right = boxes[0].x1
        for box in boxes[1:]:
            if box.x0 > right - _TOUCHING and box.width > _NARROW:
                cuts.append((box.x0 + right) / 2)
            right = max(right, box.x1)
        width, height = self.size
        legends = [legend.get_window_extent(agg) for legend in self._figure.legends]
        top_of_legend = max((box.y1 for box in legends), default=0.0)
        parts = []
        for left, next_left in pairwise([*cuts, width]):
            parts.append((left, 0, next_left - left, height - top_of_legend))
        for box in legends:
            parts.append((box.x0, height - box.y1, box.width, box.height))
        return [tuple(round(UNIT * length) for length in part) for part in parts]


def _merged(elements: list[Element]) -> list[Element]:
    """Paths of one style that follow each other as one path, where that shows no difference.

    A crowd of them becomes one path even if they overlap: a page draws it much faster.
    """
    merged = []
    for (tag, style), group in groupby(elements, key=lambda element: (element.tag, element.style)):
        parts = list(group)
        has_filled_edge = "stroke:" in style and "fill:none" not in style
        shows_overlap = "opacity" in style or has_filled_edge
        if tag != "path" or (shows_overlap and len(parts) <= _CROWD):
            merged += parts
            continue
        shape = parts[0].shape
        for part, following in pairwise(parts):
            x, y = part.end
            shape += f"m{following.x - x} {following.y - y}{following.shape}"
        merged.append(replace(parts[0], shape=shape, end=parts[-1].end))
    return merged


def _alpha(gc, colour) -> float | None:
    """The opacity of a colour, unless the artist has one of its own."""
    return gc.get_alpha() if gc.get_forced_alpha() else (*colour, 1)[3]


def _opacity(name: str, alpha: float | None) -> str:
    """The style of what is translucent; empty for what covers all below it."""
    return "" if alpha is None or alpha >= 1 else f"{name}:{alpha:.3g};"


def _png_address(pixels: np.ndarray) -> str:
    """The picture as a ``data:`` address; with a palette where its colours allow it."""
    image = PIL.Image.fromarray(np.ascontiguousarray(pixels))
    if pixels[..., 3].min() == 255:
        image = image.convert("RGB")
        if image.getcolors(256):
            image = image.quantize(256, dither=PIL.Image.Dither.NONE)
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
