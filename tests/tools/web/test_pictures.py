import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import notebook
from tools.web import pictures


def drawing(text="<Figure>"):
    data = {"image/png": "iVBORw0KGgo=", "text/plain": text}
    return new_code_cell(outputs=[new_output("display_data", data)])


def alt(cell):
    return cell.metadata["mystnb"]["image"]["alt"]


@pytest.mark.parametrize(
    ("caption", "heard"),
    [
        ("*Two\nlines of $\\tau$, `q`.* More text.", "Two lines of tau, q."),
        ("*A **strong** [link](01.ipynb).*\n\nMore.", "A strong link."),
    ],
)
def test_the_sentence_under_a_figure_is_its_alternative_text(caption, heard):
    lesson = new_notebook(cells=[new_markdown_cell("## A *bad* day"), drawing()])
    lesson.cells.append(new_markdown_cell(caption))
    assert pictures.describe(lesson) == []
    assert alt(lesson.cells[1]) == f"Figure in “A bad day”. {heard}"


@pytest.mark.parametrize("after", ["", "**Bold**, no caption.", "Text, *then* more."])
def test_a_figure_without_a_sentence_is_named_but_a_panel_has_its_own(after):
    panel = drawing("<panel many-networks: x = 1>")
    lesson = new_notebook(cells=[panel, drawing(), new_markdown_cell(after)])
    assert pictures.describe(lesson) == [lesson.cells[1].id]


@pytest.mark.parametrize("path", notebook.paths(), ids=lambda path: path.name[:2])
def test_every_figure_of_the_course_has_one(path):
    assert pictures.describe(notebook.read(path)) == []
