"""Figures that a lecture hall can read, and how a figure that it cannot read is refused."""

import matplotlib as mpl
import numpy as np
import pytest

from bdl_lessons.core import show
from bdl_lessons.core.plot_style import new_figure
from tools.figure_rules import problems

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
    monkeypatch.setenv("BDL_CHECK_FIGURES", "tools.figure_rules")
    with pytest.raises(ValueError, match="text smaller than 10 pt"):
        show(figure_of(small))
