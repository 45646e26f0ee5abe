"""Figures that a lecture hall can read, and how a figure that it cannot read is refused."""

import matplotlib as mpl
import numpy as np
import pytest

from bdl_lessons.core import show
from bdl_lessons.core.plot_style import new_figure
from tools.figure_rules import problems

X = np.linspace(0, 1, 50)


def figure_of(draw):
    """A figure with one named axis on which ``draw`` has drawn."""
    figure = new_figure(6, 3)
    axis = figure.subplots()
    axis.set(xlabel="x", ylabel="y")
    draw(axis)
    return figure


def with_legend(place, draw):
    def both(axis):
        draw(axis)
        axis.legend(loc=place)

    return both


LINE, LEGEND = {"label": "line"}, "panel 1: the legend lies"
FIGURES = {
    "band": (with_legend("lower left", lambda a: a.fill_between(X, X - 1, X + 1, **LINE)), LEGEND),
    "line": (with_legend("upper right", lambda a: a.plot(X, X, **LINE)), LEGEND),
    "points": (with_legend("upper right", lambda a: a.scatter(X, X, **LINE)), LEGEND),
    "bars": (with_legend("lower right", lambda a: a.bar([0, 1, 2], [1, 2, 3], **LINE)), LEGEND),
    "beside": (with_legend("upper left", lambda a: a.plot(X, X, **LINE)), ""),
    "small": (lambda a: a.text(0.5, 0.5, "tiny", fontsize=9), "text smaller than 10 pt: 'tiny'"),
    "nameless": (lambda a: a.set(xlabel=""), "panel 1: the x axis has numbers and no name"),
    "a bar": (lambda a: a.figure.colorbar(a.imshow(np.eye(3))), "a colour bar has no name"),
}


@pytest.mark.parametrize("name", FIGURES)
def test_what_cannot_be_read_is_found(name):
    draw, message = FIGURES[name]
    found = problems(figure_of(draw))
    assert bool(found) == bool(message)
    assert all(message in problem for problem in found)


def test_size_and_number_of_panels():
    with mpl.rc_context({"xtick.labelbottom": False, "ytick.labelleft": False}):
        figure = new_figure(9.7, 2)
        figure.subplots(1, 5)
        found = problems(figure)
    assert found == [
        "5 panels, at most 4 can be taken in",
        "9.7 inches wide, at most 9.6 are shown unscaled",
    ]


def test_show_refuses_only_where_figures_are_checked(monkeypatch):
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: None)
    monkeypatch.delenv("BDL_CHECK_FIGURES", raising=False)
    small, _ = FIGURES["small"]
    show(figure_of(small))
    monkeypatch.setenv("BDL_CHECK_FIGURES", "tools.figure_rules")
    with pytest.raises(ValueError, match="text smaller than 10 pt"):
        show(figure_of(small))
