"""Cells that are written by functions hold what these return now."""

import pytest

from tools import generated, notebook


@pytest.mark.parametrize("path", notebook.paths(["00", "90"]), ids=lambda path: path.name[:2])
def test_generated_cells_are_up_to_date(path):
    assert generated.stale(notebook.read(path)) == [], "run: python -m tools rebuild 00 90"
