import re

import pytest

from tools import notebook, slides


@pytest.fixture
def page(lesson, tmp_path):
    """The slides of a small lesson, as text."""
    made = lesson("hidden = 1", "shown = 1", "skipped = 1", "spoken = 1")
    cells = {cell.source: cell.metadata for cell in made.cells}
    cells["hidden = 1"]["tags"] = ["hide-input"]
    cells["skipped = 1"]["slideshow"]["slide_type"] = "skip"
    cells["spoken = 1"]["slideshow"]["slide_type"] = "notes"
    links = "[here](#Spot-the-bug) [next](02_next.ipynb#Recap) [page](https://x.org/02_a.ipynb)"
    made.cells[1].source += f" {links}"
    path = tmp_path / "01_small.ipynb"
    notebook.write(path, notebook.text(made))
    written = slides.write(path, tmp_path / "new" / "slides")
    assert written == tmp_path / "new" / "slides" / "01_small.html"
    return written


def code(name):
    return f'<span class="n">{name}</span>'


def test_slides_are_those_of_the_lesson_without_hidden_code_and_notes_are_for_the_speaker(page):
    text = page.read_text()
    (notes,) = re.findall(r'<aside class="notes">(.*?)</aside>', text, re.DOTALL)
    assert code("spoken") in notes
    slides = text.replace(notes, "")
    found = [name for name in ("shown", "hidden", "skipped", "spoken") if code(name) in slides]
    assert found == ["shown"]
    shown = len(re.findall(r'id="cell-id=01-\d\d"', text)) - 1
    assert text.count("<section") == 2 * shown


def test_everything_that_a_page_loads_lies_beside_it(page):
    loaded = re.findall(r'<(?:link|script|img)[^>]*(?:src|href)="([^"]*)"', page.read_text())
    files = [address for address in loaded if not address.startswith("data:")]
    assert len(files) == 10
    assert [file for file in files if not (page.parent / file).exists()] == []
    for sheet in page.parent.rglob("*.css"):
        asked = re.findall(r"url\(([^)]*\.woff2)\)", sheet.read_text())
        assert [name for name in asked if not (sheet.parent / name).exists()] == []


def test_a_panel_is_live_and_its_files_lie_beside_the_page(lesson, tmp_path):
    made = lesson()
    (panel,) = (cell for cell in made.cells if "panel" in cell.metadata.get("tags", []))
    panel.outputs[0].data["text/plain"] = "<panel many-networks: n_networks=1>"
    notebook.write(tmp_path / "01_small.ipynb", notebook.text(made))
    text = slides.write(tmp_path / "01_small.ipynb", tmp_path).read_text()
    (figure,) = re.findall(r"<figure class=.bdl-panel.*?</figure>", text, re.DOTALL)
    for attribute in ("data-src", "src"):
        (address,) = re.findall(rf' {attribute}="([^"]*)"', figure)
        assert (tmp_path / address).stat().st_size > 0
    assert "data:image" not in text
    assert code("panel") not in text


def test_links_lead_to_slides(page):
    found = re.findall(r'<a href="([^"]*)">', page.read_text())
    assert found == ["#Spot-the-bug", "02_next.html#Recap", "https://x.org/02_a.ipynb"]
    assert '<h2 id="Spot-the-bug">' in page.read_text()
