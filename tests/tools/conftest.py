import nbformat
import pytest

from tools import render

new = nbformat.v4
RECORD = """\
title = "A subject: a claim"
short_title = "A subject"
question = "What is it?"
objectives = ["say what it is"]
exercise_minutes = [10, 10, 10]

[open_question]
text = "What else?"
model_answer = "It."
"""
RECORD += "".join(
    f"""
[[self_test]]
text = 'How large is $\\sigma^{number}$?'
"""
    + "".join(
        f"""[[self_test.options]]
text = "As {letter}"
reason = "{"it is" if letter == right else "see [there](#There)"}."
right = {str(letter == right).lower()}
"""
        for letter in "ABC"
    )
    for number, right in enumerate("BACBA", start=1)
)
HEADINGS = ("Spot the bug", "Exercises", "Where this breaks", "Recap", "Going deeper: more")


@pytest.fixture
def lesson_path(tmp_path):
    """Where a small lesson may be written; its record is there."""
    path = tmp_path / "01_a_claim.ipynb"
    (tmp_path / "lessons").mkdir()
    (tmp_path / "lessons" / "01_a_claim.toml").write_text(RECORD)
    return path


@pytest.fixture
def lesson(lesson_path):
    """A function that makes a small lesson in which no guard finds a fault."""

    def make(*code: str) -> nbformat.NotebookNode:
        title = new.new_markdown_cell()
        section = new.new_markdown_cell("## Predict\n\nLook.")
        question = new.new_markdown_cell(metadata={"tags": ["question"]})
        section.metadata["bdl"] = {
            "minutes": [1, 1],
            "mode": "pair",
            "activity": 45,
            "role": ["question", "result", "panel", "answer", "sentence"],
        }
        others = [new.new_markdown_cell(f"## {name}") for name in HEADINGS]
        for name, other in zip(HEADINGS, others, strict=True):
            mode, lasts = ("solo", [30, 45]) if name == "Exercises" else ("lecture", [2, 3])
            other.metadata["bdl"] = {"minutes": lasts, "mode": mode}
        others[1].metadata["bdl"]["part"] = "exercises"
        others[3].metadata["bdl"]["role"] = ["recap"]
        others[4].metadata["bdl"]["part"] = "deeper"
        open_question = new.new_markdown_cell(metadata={"tags": ["open-question"]})
        others.insert(2, open_question)
        imports = new.new_code_cell("import torch", metadata={"tags": ["hide-input"]})
        imports.metadata["jupyter"] = {"source_hidden": True}
        stub = '"Derive (10 minutes)."'
        exercises = [new.new_code_cell(stub, metadata={"tags": ["exercise"]}) for _ in range(3)]
        panel = new.new_code_cell("panel", metadata={"tags": ["panel"]})
        picture = {"image/png": "iVBORw0K", "text/plain": "<panel x>"}
        panel.outputs = [new.new_output("execute_result", picture, execution_count=1)]
        method = new.new_code_cell("z = 1", metadata={"tags": ["method"]})
        shown = map(new.new_code_cell, code)
        cells = [title, section, question, imports, *shown, panel, method, *exercises, *others]
        for index, cell in enumerate(cells):
            cell.id = f"01-{index:02d}"
            cell.metadata["slideshow"] = {"slide_type": "slide"}
        for count, cell in enumerate([c for c in cells if c.cell_type == "code"], 1):
            cell.execution_count = count
        notebook = new.new_notebook(cells=cells)
        render.fill(notebook, lesson_path)
        return notebook

    return make
