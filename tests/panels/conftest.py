"""What tests of a panel look at, found by the name of their module: ``test_dropout_rate.py``."""

import importlib
import re

import pytest

from bdl_lessons.panels import arrays


def name_of(request) -> str:
    return request.module.__name__.rpartition(".test_")[2]


@pytest.fixture(scope="module")
def panel(request):
    return importlib.import_module(f"bdl_lessons.panels.{name_of(request)}").panel()


@pytest.fixture(scope="module")
def stored(request):
    """The arrays of the panel."""
    return arrays.load(name_of(request))


@pytest.fixture(scope="module")
def numbers(panel):
    """A function that gives the numbers in bold of the readout at a setting."""

    def of(**setting) -> list[float]:
        bold = re.findall("<b>(.+?)</b>", panel.render(**setting).readout)
        return [float(number) for number in bold]

    return of
