"""Cells that are written by functions hold what these return now."""

import nbformat
import pytest

from tools import generated, notebook


@pytest.mark.parametrize("path", notebook.paths(["00", "90"]), ids=lambda path: path.name[:2])
def test_generated_cells_are_up_to_date(path):
    assert generated.stale(notebook.read(path)) == [], "run: python -m tools rebuild 00 90"


def test_a_changed_cell_is_noticed_and_filled():
    cell = nbformat.v4.new_markdown_cell("old", metadata={"tags": ["generated-lesson-table"]})
    book = nbformat.v4.new_notebook(cells=[cell])
    assert generated.stale(book) == ["lesson-table"]
    generated.fill(book)
    assert generated.stale(book) == []
    assert "Start here" in cell.source
