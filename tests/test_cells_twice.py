"""A reader runs a cell again, and it does what it did: no cell leaves behind what breaks it."""

from copy import deepcopy

import nbformat
import pytest

from tools import notebook


def each_cell_twice(lesson):
    """The cells of code alone, each followed by itself."""
    twice = deepcopy(lesson)
    twice.cells = []
    for cell in notebook.code_of(lesson):
        again = deepcopy(cell)
        again.id = f"{cell.id}-again"
        twice.cells += [cell, again]
    return twice


@pytest.mark.twice
@pytest.mark.parametrize("path", notebook.paths(), ids=lambda path: path.name[:2])
def test_every_cell_of_a_lesson_runs_twice_in_a_row(path):
    notebook.execute(each_cell_twice(notebook.read(path)), cell_limit_s=600)


@pytest.mark.twice
def test_a_cell_that_breaks_itself_is_seen():
    sources = ["left = [1]", "left.pop()"]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    with pytest.raises(Exception, match="pop from empty list"):
        notebook.execute(each_cell_twice(nbformat.v4.new_notebook(cells=cells)))
