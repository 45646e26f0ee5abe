"""What holds for every panel of the lessons: it moves, and it can be projected."""

import importlib
import math
import pkgutil
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure

from bdl_lessons import panels
from bdl_lessons.core.plot_style import new_figure, style
from tools.figure_rules import problems
from tools.metadata import lessons

PANEL_CELLS = " ".join(cell.source for lesson in lessons() for cell in lesson.cells("panel"))
MODULES = [module.name for module in pkgutil.iter_modules(panels.__path__)]
NAMES = [name for name in MODULES if f"{name}.panel" in PANEL_CELLS]
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
        step = math.ceil(len(control.values) / N_VALUES)
        values = control.values[::step]
        pictures = {value: panel.render(**{control.name: value}) for value in values}
        for value, picture in pictures.items():
            assert picture.readout, f"no readout at {control.name} = {value}"
        for value, neighbour in pairwise(values):
            if "No recorded method" not in pictures[neighbour].readout:
                differs = pictures[value].png != pictures[neighbour].png
                assert differs, f"{control.name}: one picture for {value} and {neighbour}"
    panel.clear_cache()
    is_as_at_first = panel.render() == module_of(name).panel().render()
    assert is_as_at_first, "back at the start, something of an earlier setting is left"


@pytest.mark.parametrize("name", NAMES)
def test_a_panel_can_be_projected(name):
    """It can be read from the last row of a lecture hall."""
    panel = module_of(name).panel()
    with style():
        figure = new_figure(*panel.size)
        update = panel.build_figure(figure)
        faults = set()
        for setting in extremes(panel):
            update(**setting)
            faults.update(f"{setting}: {problem}" for problem in problems(figure))
    assert sorted(faults) == []


def test_the_panels_of_the_lessons_are_found():
    assert len(NAMES) == PANEL_CELLS.count(".panel("), (
        "a cell tagged `panel` shows no module of panels"
    )


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
        squared_distances = np.einsum("ni,ij,nj->n", noise, np.linalg.inv(cov), noise)
        std_error = 2 / len(noise) ** 0.5
        assert squared_distances.mean() == pytest.approx(2, abs=5 * std_error), setting
