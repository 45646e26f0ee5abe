"""Panels can be read from the last row of a lecture hall."""

import importlib
import pkgutil

import pytest

from bdl_lessons import panels
from bdl_lessons.core.plot_style import new_figure, style
from tools.figure_rules import problems
from tools.metadata import lessons

SHOWN = " ".join(cell.source for lesson in lessons() for cell in lesson.cells("panel"))
NAMES = [m.name for m in pkgutil.iter_modules(panels.__path__) if f"{m.name}.panel" in SHOWN]


def extremes(panel):
    """The settings at which a legend is most likely to lie on the data, and the start."""
    yield panel.start
    for name, control in panel.controls.items():
        for value in (control.values[0], control.values[-1]):
            yield {**panel.start, name: value}


@pytest.mark.parametrize("name", NAMES)
def test_a_panel_can_be_projected(name):
    panel = importlib.import_module(f"{panels.__name__}.{name}").panel()
    with style():
        figure = new_figure(*panel.size)
        update = panel.build_figure(figure)
        found = set()
        for setting in extremes(panel):
            update(**setting)
            found |= {f"{setting}: {problem}" for problem in problems(figure)}
    assert sorted(found) == []


def test_the_panels_of_the_lessons_are_found():
    assert len(NAMES) == SHOWN.count(".panel(")
