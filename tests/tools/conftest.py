import nbformat
import pytest

from tools import timing
from tools.metadata import fill_title

new = nbformat.v4
HEADINGS = ("Spot the bug", "Exercises", "Where this breaks", "Recap", "Going deeper: more")


@pytest.fixture
def lesson():
    """A function that makes a small lesson in which no guard finds a fault."""

    def make(*code: str) -> nbformat.NotebookNode:
        title = new.new_markdown_cell("# 01 · A subject: a claim\n\n| **Minutes** | |")
        section = new.new_markdown_cell("## Predict\n\n**What is it?**\n\n> **It.**")
        section.metadata["bdl"] = {
            "minutes": [1, 1],
            "mode": "pair",
            "activity": 45,
            "role": ["question", "result", "panel", "answer"],
        }
        others = [new.new_markdown_cell(f"## {name}") for name in HEADINGS]
        for name, other in zip(HEADINGS, others, strict=True):
            mode, lasts = ("solo", [30, 45]) if name == "Exercises" else ("lecture", [2, 3])
            other.metadata["bdl"] = {"minutes": lasts, "mode": mode}
        others[1].source += "\n\n**01.4, an open question.**"
        imports = new.new_code_cell("import torch", metadata={"tags": ["hide-input"]})
        imports.metadata["jupyter"] = {"source_hidden": True}
        stub = '"Derive (10 minutes)."'
        exercises = [new.new_code_cell(stub, metadata={"tags": ["exercise"]}) for _ in range(3)]
        panel = new.new_code_cell("panel", metadata={"tags": ["panel"]})
        picture = {"image/png": "iVBORw0K", "text/plain": "<panel x>"}
        panel.outputs = [new.new_output("execute_result", picture, execution_count=1)]
        method = new.new_code_cell("z = 1", metadata={"tags": ["method"]})
        shown = map(new.new_code_cell, code)
        cells = [title, section, imports, *shown, panel, method, *exercises, *others]
        for index, cell in enumerate(cells):
            cell.id = f"01-{index:02d}"
            cell.metadata["slideshow"] = {"slide_type": "slide"}
        for count, cell in enumerate([c for c in cells if c.cell_type == "code"], 1):
            cell.execution_count = count
        notebook = new.new_notebook(cells=cells)
        timing.fill(notebook)
        fill_title(notebook)
        return notebook

    return make
