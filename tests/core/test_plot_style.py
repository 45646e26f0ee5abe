"""Figures that a lecture hall can read, and how a figure that it cannot read is refused."""

from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest

from bdl_lessons.core import CYCLE, GREY, INK, show
from bdl_lessons.core.figure_rules import problems
from bdl_lessons.core.plot_style import new_figure

X = np.linspace(0, 1, 50)


def figure_of(draw, **kwargs):
    """A figure with one named axis on which ``draw`` has drawn."""
    figure = new_figure(6, 3)
    axis = figure.subplots(**kwargs)
    axis.set(xlabel="x", ylabel="y")
    draw(axis)
    return figure


def band(axis):
    axis.fill_between(X, X - 0.5, X + 0.5, label="band")
    axis.legend(loc="lower left")


def line(axis):
    axis.plot(X, X, label="line")
    axis.legend(loc="upper right")


def points(axis):
    axis.scatter(X, X, label="points")
    axis.legend(loc="upper right")


def bars(axis):
    axis.bar([0, 1, 2], [1, 2, 3], label="bars")
    axis.legend(loc="lower right")


def errors(axis):
    axis.errorbar(X, X, 0.1, label="errors")
    axis.legend(loc="lower left")


@pytest.mark.parametrize("draw", [band, line, points, bars, errors])
def test_a_legend_on_the_data_is_found(draw):
    (found,) = {fault.split(" lies")[0] for fault in problems(figure_of(draw))}
    assert found == "panel 1: the legend"


def test_a_legend_beside_the_data_is_fine():
    def draw(axis):
        axis.plot(X, X, label="line")
        axis.scatter(X, X, label="points")
        axis.plot(X, 0 * X, visible=False, label="hidden")
        axis.legend(loc="upper left")

    assert problems(figure_of(draw)) == []


def test_a_legend_outside_the_axis_is_fine_where_data_are_clipped():
    def draw(axis):
        axis.plot(X, 3 * X, label="line")
        axis.set(xlim=(0, 1), ylim=(0, 1))
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1.01))

    assert problems(figure_of(draw)) == []


def small(axis):
    axis.text(0.5, 0.5, "tiny", fontsize=9)


def nameless(axis):
    axis.set(xlabel="")


def colour_bar(axis):
    axis.figure.colorbar(axis.imshow(np.eye(3)))


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (small, "text smaller than 10 pt: 'tiny'"),
        (nameless, "panel 1: the x axis has numbers and no name"),
        (colour_bar, "a colour bar has no name"),
    ],
)
def test_what_cannot_be_read_is_found(draw, message):
    assert problems(figure_of(draw)) == [message]


def test_size_and_number_of_panels():
    with mpl.rc_context({"xtick.labelbottom": False, "ytick.labelleft": False}):
        figure = new_figure(9.7, 2)
        figure.subplots(1, 5)
        found = problems(figure)
    assert found == [
        "5 panels, at most 4 can be taken in",
        "9.7 inches wide, at most 9.6 are shown unscaled",
    ]


def test_a_named_colour_bar_and_words_on_an_axis_are_fine():
    def draw(axis):
        axis.figure.colorbar(axis.imshow(np.eye(3)), label="correlation")
        axis.set_yticks([0, 1, 2], ["a", "b", "c"])
        axis.set_ylabel("")

    assert problems(figure_of(draw)) == []


def test_show_refuses_only_where_figures_are_checked(monkeypatch):
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: None)
    monkeypatch.delenv("BDL_CHECK_FIGURES", raising=False)
    show(figure_of(small))
    monkeypatch.setenv("BDL_CHECK_FIGURES", "1")
    with pytest.raises(ValueError, match="text smaller than 10 pt"):
        show(figure_of(small))


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
