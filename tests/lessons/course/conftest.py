import nbformat
import pytest


@pytest.fixture
def lesson():
    """A function that makes a small lesson in which no guard finds a fault."""

    def make(*code: str) -> nbformat.NotebookNode:
        new = nbformat.v4
        title = new.new_markdown_cell("# 01 · A claim\n\n| **Minutes** | 5–10 min in all |")
        section = new.new_markdown_cell("## Predict\n\ntext")
        section.metadata["bdl"] = {"minutes": [5, 10], "mode": "pair", "section": "Predict"}
        others = [
            new.new_markdown_cell(f"## {name}")
            for name in ("Spot the bug", "Exercises", "Where this breaks", "Recap")
        ]
        exercises = [new.new_code_cell("pass", metadata={"tags": ["exercise"]}) for _ in range(3)]
        panel = new.new_code_cell("panel", metadata={"tags": ["panel"]})
        picture = {"image/png": "iVBORw0K", "text/plain": "<panel x>"}
        panel.outputs = [new.new_output("execute_result", picture, execution_count=1)]
        cells = [title, section, panel, *map(new.new_code_cell, code), *exercises, *others]
        for index, cell in enumerate(cells):
            cell.id = f"01-{index:02d}"
            cell.metadata["slideshow"] = {"slide_type": "slide"}
        section_minutes = {"minutes": [1, 1], "mode": "solo", "section": "x"}
        for other in others:
            other.metadata["bdl"] = dict(section_minutes)
        title.source = title.source.replace("5–10", "9–14")
        for count, cell in enumerate([c for c in cells if c.cell_type == "code"], 1):
            cell.execution_count = count
        return new.new_notebook(cells=cells)

    return make
