"""What holds for every panel of the lessons: it moves, it can be projected, its grid may grow."""

import importlib
import pkgutil
import re
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure

from bdl_lessons import panels
from bdl_lessons.core.plot_style import new_figure, style
from tools.figure_rules import problems
from tools.metadata import lessons

SHOWN = " ".join(cell.source for lesson in lessons() for cell in lesson.cells("panel"))
NAMES = [m.name for m in pkgutil.iter_modules(panels.__path__) if f"{m.name}.panel" in SHOWN]
N_VALUES = 3  # of a control are looked at, at most


def module_of(name):
    return importlib.import_module(f"{panels.__name__}.{name}")


def extremes(panel):
    """The settings at which a legend is most likely to lie on the data, and the start."""
    yield panel.start
    for name, control in panel.controls.items():
        for value in (control.values[0], control.values[-1]):
            yield {**panel.start, name: value}


@pytest.mark.parametrize("name", NAMES)
def test_every_control_changes_the_picture_and_leaves_no_trace(name):
    panel = module_of(name).panel()
    for control in panel.controls.values():
        values = control.values[:: -(-len(control.values) // N_VALUES)]
        seen = [panel.render(**{control.name: value}) for value in values]
        assert all(one.readout for one in seen), f"no readout at some of {control.name} = {values}"
        for (one, other), pair in zip(pairwise(seen), pairwise(values), strict=True):
            same = one.png == other.png and "No recorded method" not in other.readout
            assert not same, f"{control.name}: one picture for {pair}"
    panel.clear_cache()
    as_at_first = panel.render() == module_of(name).panel().render()
    assert as_at_first, "back at the start, something of an earlier setting is left"


@pytest.mark.parametrize("name", NAMES)
def test_a_panel_can_be_projected(name):
    """It can be read from the last row of a lecture hall."""
    panel = module_of(name).panel()
    with style():
        figure = new_figure(*panel.size)
        update = panel.build_figure(figure)
        found = set()
        for setting in extremes(panel):
            update(**setting)
            found |= {f"{setting}: {problem}" for problem in problems(figure)}
    assert sorted(found) == []


def test_the_panels_of_the_lessons_are_found():
    assert len(NAMES) == SHOWN.count(".panel("), "a cell tagged `panel` shows no module of panels"


GRIDS = [
    ("householder_depth", "DEPTHS", "depth", [*range(9), 12]),
    ("wide_network", "WIDTHS", "width", [2**power for power in range(14)]),
    ("wide_network", "DEPTHS", "depth", range(1, 5)),
    ("kl_partition", "HALVINGS", "halvings", range(8)),
    ("minibatch_variance", "BATCH_SIZES", "batch_size", [1, 2, 5, 10, 20, 50, 100, 1000, 5000]),
    ("truncated_posterior", "CUTS", "decades", [1, 2, 3, 4, 10, 40, 60]),
    ("noise_and_kl", "LOG_ALPHAS", "log_alpha", [-6.0, -1.0, 0.0, 4.0, 6.0]),
]


def tightest(figure):
    """How far every moving point lies within its axes, as a share of them; negative outside."""
    shares = [np.inf]
    for axes in figure.axes:
        lines = [line.get_xydata() for line in axes.lines if line.get_animated()]
        clouds = [c.get_offsets() for c in axes.collections if c.get_animated()]
        for points in [*lines, *clouds]:
            points = np.asarray(points)[np.isfinite(points).all(1)]
            if len(points) == 1:
                place = axes.transAxes.inverted().transform(axes.transData.transform(points))
                shares += [place[:, 0].min(), 1 - place[:, 0].max()]
    return min(shares)


@pytest.mark.parametrize(("name", "grid", "control", "longer"), GRIDS)
def test_a_longer_grid_leaves_all_else_as_it_was(name, grid, control, longer, monkeypatch):
    """Limits follow the grid, and no number that was drawn before is drawn anew."""
    module = module_of(name)
    panel = module.panel()
    known, start = [value for value in getattr(module, grid) if value in longer], panel.start
    update = panel.build_figure(Figure(figsize=panel.size))
    before = [update(**{**start, control: value}) for value in known]
    monkeypatch.setattr(module, grid, tuple(longer))
    figure = Figure(figsize=panel.size)
    update = module.panel().build_figure(figure)
    after = [update(**{**start, control: value}) for value in known]
    bounds = re.compile("at most <b>.*?</b>")  # of the panel of lesson 10: over all of its depths
    assert [bounds.sub("", one) for one in after] == [bounds.sub("", one) for one in before]
    update(**{**start, control: longer[-1]})
    assert tightest(figure) >= 0, f"a point at {control} = {longer[-1]} lies outside of its axes"


@pytest.mark.parametrize(
    ("name", "points", "ellipse", "settings"),
    [
        ("householder_depth", 1, 1, [{"depth": depth} for depth in (0, 2, 5, 8)]),
        ("householder_depth", 0, 0, [{"depth": 8}, {"log_std": 0.5}]),
        ("penalty_ellipse", 1, 0, [{}, {"n_reflections": 2}, {"mean_alpha": 0.032, "ratio": 4}]),
    ],
)
def test_noise_fills_the_ellipse_of_two_standard_deviations(name, points, ellipse, settings):
    """Squared distances from the centre, in standard deviations, have mean 2 and variance 4."""
    panel = module_of(name).panel()
    figure = Figure(figsize=panel.size)
    update = panel.build_figure(figure)
    cloud = figure.axes[0]
    for setting in settings:
        update(**{**panel.start, **setting})
        outline = cloud.lines[ellipse].get_xydata()[:-1] - 1  # both are drawn around (1, 1)
        cov = 2 * outline.T @ outline / len(outline) / 4
        noise = np.asarray(cloud.collections[points].get_offsets()) - 1
        squares = np.einsum("ni,ij,nj->n", noise, np.linalg.inv(cov), noise)
        assert squares.mean() == pytest.approx(2, abs=5 * 2 / len(noise) ** 0.5), setting
