"""Figures that a lecture hall can read, and how a figure that it cannot read is refused."""

import matplotlib as mpl
import numpy as np
import pytest

from bdl_lessons.core import show
from bdl_lessons.core.plot_style import new_figure
from tools.figure_rules import problems


def figure_of(draw):
    """A figure with one named axis on which ``draw`` has drawn."""
    figure = new_figure(6, 3)
    axis = figure.subplots()
    axis.set(xlabel="x", ylabel="y")
    draw(axis)
    return figure


def small(axis):
    axis.text(0.5, 0.5, "tiny", fontsize=9)


@pytest.mark.parametrize(
    ("draw", "faults"),
    [
        (lambda axis: axis.plot([1, 2]), []),
        (small, ["text smaller than 10 pt: 'tiny'"]),
        (lambda axis: axis.set(xlabel=""), ["panel 1: the x axis has numbers and no name"]),
        (lambda a: a.figure.colorbar(a.imshow(np.eye(3))), ["a colour bar has no name"]),
    ],
)
def test_what_cannot_be_read_is_found(draw, faults):
    assert problems(figure_of(draw)) == faults


def test_size_and_number_of_panels():
    with mpl.rc_context({"xtick.labelbottom": False, "ytick.labelleft": False}):
        figure = new_figure(9.7, 2)
        figure.subplots(1, 5)
        faults = problems(figure)
    assert faults == [
        "5 panels, at most 4 can be taken in",
        "9.7 inches wide, at most 9.6 are shown unscaled",
    ]


def test_show_refuses_only_where_figures_are_checked(monkeypatch):
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: None)
    monkeypatch.delenv("BDL_CHECK_FIGURES", raising=False)
    show(figure_of(small))
    monkeypatch.setenv("BDL_CHECK_FIGURES", "tools.figure_rules")
    with pytest.raises(ValueError, match="text smaller than 10 pt"):
        show(figure_of(small))
