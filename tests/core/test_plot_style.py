"""Colours that everybody can tell apart."""

import io
import os
import subprocess
import sys
from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt

from bdl_lessons.core import CYCLE, GREY, INK, use_style
from bdl_lessons.core.files import ROOT
from bdl_lessons.core.plot_style import new_figure, style

SEEN = {  # linear RGB as it is seen: Machado, Oliveira and Fernandes (2009), severity 1
    "common vision": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    """A colour of the screen as an amount of light in red, green and blue."""
    channels = np.array(mpl.colors.to_rgb(colour))
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(light):
    """CIE L*a*b* of linear RGB, in which distances are about how different colours look."""
    x, y, z = TO_XYZ @ np.clip(light, 0, 1) / TO_XYZ.sum(1)
    f = [np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("colour", [*CYCLE, GREY, INK])
def test_every_colour_stands_out_from_white(colour):
    luminance = TO_XYZ[1] @ linear(colour)
    assert 1.05 / (luminance + 0.05) >= 3


@pytest.mark.parametrize("vision", SEEN)
def test_no_two_colours_look_alike(vision):
    colours = [lab(SEEN[vision] @ linear(colour)) for colour in (*CYCLE, GREY, INK)]
    distance = min(np.linalg.norm(one - other) for one, other in combinations(colours, 2))
    assert distance > 15  # of two of Okabe and Ito's with our greys: 4


READERS = {
    "text.usetex": True,
    "font.family": ["No Such Font"],
    "axes.facecolor": "black",
    "figure.facecolor": "black",
    "text.color": "white",
    "axes.grid": True,
    "lines.marker": "o",
    "savefig.bbox": "tight",
}
"""What a reader's matplotlibrc may hold: TeX, a dark style, a font that is not installed."""


def pixels(figure):
    picture = io.BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})
    return picture.getvalue()


def with_pyplot():
    use_style()
    figure, axis = plt.subplots()
    return figure, axis


def outside_pyplot():
    figure = new_figure(4, 3)
    return figure, figure.subplots()


@pytest.mark.parametrize("figure_of", [with_pyplot, outside_pyplot])
def test_a_picture_is_the_same_whatever_the_readers_matplotlibrc_says(figure_of):
    pictures = []
    for settings in ({}, READERS):
        with mpl.rc_context(settings), style():
            figure, axis = figure_of()
            axis.plot([0, 1], [0, 1])
            axis.set_title("A line")
            pictures.append(pixels(figure))
            plt.close(figure)
    assert pictures[0] == pictures[1]


def test_the_style_ends_with_its_block():
    with mpl.rc_context(READERS):
        before = dict(mpl.rcParams)
        with style():
            assert not mpl.rcParams["text.usetex"]
        assert dict(mpl.rcParams) == before


def test_a_home_that_cannot_be_written_leaves_no_warning_in_a_lesson(tmp_path):
    """A path below a file: nobody, not even root, can make a folder there."""
    (tmp_path / "file").touch()
    without = {k: v for k, v in os.environ.items() if k not in ("MPLCONFIGDIR", "XDG_CONFIG_HOME")}
    run = subprocess.run(
        [sys.executable, "-c", "import conftest, matplotlib.pyplot"],
        cwd=ROOT,
        env=without | {"HOME": str(tmp_path / "file" / "home")},
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stderr) == (0, "")
