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
    (element,) = (element for element in svg.iter("text") if element.text == words)
    return element


def test_the_name_of_the_y_axis_reads_upwards_at_the_left_edge():
    svg = drawn(lambda axis: axis.set(xlabel="to the right", ylabel="upwards"))
    name = text_of(svg, "upwards")
    x, y = int(name.get("x")), int(name.get("y"))
    assert name.get("transform") == f"rotate(270 {x} {y})", "SVG turns clockwise"
    assert 0 < x < 60 * UNIT
    assert text_of(svg, "to the right").get("transform") is None


@pytest.mark.parametrize("degrees", [30, -45])
def test_words_are_turned_the_other_way_round_than_matplotlib_counts(degrees):
    svg = drawn(lambda axis: axis.text(0.5, 0.5, "turned", rotation=degrees))
    (angle,) = re.findall(r"rotate\((\S+) ", text_of(svg, "turned").get("transform"))
    assert float(angle) == pytest.approx(-degrees % 360)


def line_style(**options):
    """The style of the only red path."""
    svg = drawn(lambda axis: axis.plot([0, 1], [0, 1], color="#ff0000", **options))
    (style,) = (p.get("style") for p in svg.iter("path") if "#ff0000" in p.get("style"))
    return dict(part.split(":") for part in style.rstrip(";").split(";") if part.count(":") == 1)


def test_a_dashed_line_has_the_dashes_of_matplotlib_and_a_solid_one_none():
    assert "stroke-dasharray" not in line_style(linestyle="-", linewidth=2)
    style = line_style(linestyle=(0, (3, 1.5)), linewidth=2)
    dash, gap = map(float, style["stroke-dasharray"].split())
    assert dash == pytest.approx(2 * 3 * PIXELS_A_POINT * UNIT, abs=1)
    assert gap == pytest.approx(2 * 1.5 * PIXELS_A_POINT * UNIT, abs=1)
    assert "stroke-dashoffset" not in style
    shifted = line_style(linestyle=(3, (3, 1.5)), linewidth=2)
    assert float(shifted["stroke-dashoffset"]) == pytest.approx(
        2 * 3 * PIXELS_A_POINT * UNIT, abs=1
    )


@pytest.mark.parametrize(
    ("origin", "top"), [("upper", RED), ("lower", BLUE)], ids=["rows down", "rows up"]
)
def test_a_picture_is_not_upside_down(origin, top):
    svg = drawn(lambda axis: axis.imshow(UPPER_HALF_RED, origin=origin))
    (image,) = svg.iter("image")
    data = image.get("href").removeprefix("data:image/png;base64,")
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))
    assert tuple(pixels[0, 0]) == top
    assert tuple(pixels[-1, 0]) == ({RED, BLUE} - {top}).pop()


def test_a_picture_that_is_mirrored_by_its_extent_is_mirrored():
    left_red = UPPER_HALF_RED.swapaxes(0, 1)
    svg = drawn(lambda axis: axis.imshow(left_red).set_extent((1, 0, 0, 1)))
    (image,) = svg.iter("image")
    data = image.get("href").removeprefix("data:image/png;base64,")
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))
    assert tuple(pixels[0, 0]) == RED
