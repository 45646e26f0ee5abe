"""A cell tagged ``hide-input`` shows its picture in JupyterLab, and its code after one click."""

import nbformat
import pytest

from tools import notebook

pytestmark = pytest.mark.browser

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+M8AAAIBAQAY3Y2wAAAAAElFTkSuQmCC"
)


def code_cell(source, **metadata):
    output = nbformat.v4.new_output("display_data", {"image/png": PIXEL})
    return nbformat.v4.new_code_cell(source, metadata=metadata, outputs=[output])


def test_hidden_code_is_collapsed_and_its_picture_is_shown(lab, lab_folder, page):
    hidden = code_cell(
        "title = 1\nhidden = 2", tags=["hide-input"], jupyter={"source_hidden": True}
    )
    made = nbformat.v4.new_notebook(cells=[hidden, code_cell("shown = 1")])
    notebook.write(lab_folder / "hidden.ipynb", notebook.text(notebook.clean(made)))
    page.goto(f"{lab}/lab/tree/hidden.ipynb?reset")
    first, second = (page.locator(".jp-Notebook .jp-CodeCell").nth(index) for index in (0, 1))
    second.get_by_text("shown").wait_for(timeout=60_000)
    picture = first.locator(".jp-OutputArea img")
    assert picture.is_visible()
    assert picture.evaluate("image => image.naturalWidth") == 1
    assert not first.get_by_text("hidden").is_visible()

    first.locator(".jp-InputPlaceholder").click()  # it shows the first line of the code
    first.get_by_text("hidden").wait_for()
    assert page.errors == []
