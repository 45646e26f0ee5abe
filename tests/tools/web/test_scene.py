"""A drawn panel as SVG: words, dashes and pictures stand as matplotlib draws them."""

import base64
import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from bdl_lessons.panels.engine import Panel, Slider
from tools.web.scene import UNIT, Scene

RED = (255, 0, 0)
BLUE = (0, 0, 255)
PIXELS_A_POINT = 100 / 72
UPPER_HALF_RED = np.array([[RED, RED], [BLUE, BLUE]], dtype=np.uint8)


def drawn(draw):
    """The elements of a figure of 600 by 400 pixels on whose only axis ``draw`` has drawn."""

    def build_figure(figure):
        """An axis."""
        axis = figure.subplots()
        draw(axis)
        return lambda a: "still"

    scene = Scene(Panel(build_figure, Slider("a", "a", (1, 2), 1), size=(6, 4)))
    return ElementTree.fromstring(f"<svg>{scene.still}</svg>")


def text_of(svg, words):
    """The only text with these words."""
    (element,) = [element for element in svg.iter("text") if element.text == words]
    return element


def pixels_of(svg):
    """The pixels of the only image."""
    (image,) = svg.iter("image")
    data = image.get("href").removeprefix("data:image/png;base64,")
    picture = Image.open(io.BytesIO(base64.b64decode(data)))
    return np.asarray(picture.convert("RGB"))


def test_the_name_of_the_y_axis_reads_upwards_at_the_left_edge():
    svg = drawn(lambda axis: axis.set(xlabel="to the right", ylabel="upwards"))
    name = text_of(svg, "upwards")
    x = int(name.get("x"))
    y = int(name.get("y"))
    assert name.get("transform") == f"rotate(270 {x} {y})", "SVG turns clockwise"
    assert 0 < x < 60 * UNIT
    assert text_of(svg, "to the right").get("transform") is None


@pytest.mark.parametrize("degrees", [30, -45])
def test_words_are_turned_the_other_way_round_than_matplotlib_counts(degrees):
    svg = drawn(lambda axis: axis.text(0.5, 0.5, "turned", rotation=degrees))
    transform = text_of(svg, "turned").get("transform")
    angle = re.match(r"rotate\((\S+) ", transform)[1]
    assert float(angle) == pytest.approx(-degrees % 360)


def style_of_a_line(linestyle):
    """The style of the only red path, a line of two points."""

    def draw(axis):
        axis.plot([0, 1], [0, 1], color="#ff0000", linestyle=linestyle, linewidth=2)

    styles = [path.get("style") for path in drawn(draw).iter("path")]
    (style,) = [style for style in styles if "#ff0000" in style]
    return dict(re.findall(r"([a-z-]+):([^;]+);", style))


def test_a_dashed_line_has_the_dashes_of_matplotlib_and_a_solid_one_none():
    """Lengths of dashes are in widths of the line."""
    width = 2 * PIXELS_A_POINT * UNIT
    assert "stroke-dasharray" not in style_of_a_line("-")
    dashed = style_of_a_line((0, (3, 1.5)))
    dash, gap = dashed["stroke-dasharray"].split()
    assert float(dash) == pytest.approx(3 * width, abs=1)
    assert float(gap) == pytest.approx(1.5 * width, abs=1)
    assert "stroke-dashoffset" not in dashed
    shifted = style_of_a_line((3, (3, 1.5)))
    assert float(shifted["stroke-dashoffset"]) == pytest.approx(3 * width, abs=1)


@pytest.mark.parametrize(
    ("origin", "top", "bottom"),
    [("upper", RED, BLUE), ("lower", BLUE, RED)],
    ids=["rows down", "rows up"],
)
def test_a_picture_is_not_upside_down(origin, top, bottom):
    pixels = pixels_of(drawn(lambda axis: axis.imshow(UPPER_HALF_RED, origin=origin)))
    assert tuple(pixels[0, 0]) == top
    assert tuple(pixels[-1, 0]) == bottom


def test_a_picture_whose_extent_runs_backwards_is_mirrored():
    left_half_red = UPPER_HALF_RED.swapaxes(0, 1)

    def draw(axis):
        axis.imshow(left_half_red, extent=(1, 0, 0, 1))
        axis.set_xlim(0, 1)

    pixels = pixels_of(drawn(draw))
    assert tuple(pixels[0, 0]) == BLUE
    assert tuple(pixels[0, -1]) == RED
