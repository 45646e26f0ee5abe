import re

import pytest

from tools import notebook, slides


@pytest.fixture
def page(lesson, lesson_path, tmp_path):
    """The slides of a small lesson with a live panel."""
    made = lesson("hidden = 1", "shown = 1", "skipped = 1", "spoken = 1")
    cells = {cell.source: cell for cell in made.cells}
    cells["hidden = 1"].metadata["tags"] = ["hide-input"]
    cells["skipped = 1"].metadata["slideshow"]["slide_type"] = "skip"
    cells["spoken = 1"].metadata["slideshow"]["slide_type"] = "notes"
    cells["panel"].outputs[0].data["text/plain"] = "<panel many-networks: n_networks=1>"
    links = "[here](#Spot-the-bug) [next](02_next.ipynb#Recap) [page](https://x.org/02_a.ipynb)"
    made.cells[1].source += f" {links}"
    notebook.write(lesson_path, notebook.text(made))
    return slides.write(lesson_path, tmp_path / "new" / "slides")


def code(name):
    return f'<span class="n">{name}</span>'


def test_slides_are_those_of_the_lesson_without_hidden_code_and_notes_are_for_the_speaker(page):
    text = page.read_text()
    (notes,) = re.findall(r'<aside class="notes">(.*?)</aside>', text, re.DOTALL)
    assert code("spoken") in notes
    slides = text.replace(notes, "")
    names = ("shown", "hidden", "skipped", "spoken", "panel")
    assert [name for name in names if code(name) in slides] == ["shown"]
    shown = len(re.findall(r'id="cell-id=01-\d\d"', text)) - 1
    assert text.count("<section") == 2 * shown


def test_links_lead_to_slides_and_everything_that_a_page_loads_lies_beside_it(page):
    text = page.read_text()
    found = re.findall(r'<a href="([^"]*)">', text)
    assert found == ["#Spot-the-bug", "02_next.html#Recap", "https://x.org/02_a.ipynb"]
    assert '<h2 id="Spot-the-bug">' in text
    loaded = re.findall(r'<(?:link|script|img|figure)[^>]* (?:data-src|src|href)="([^"]*)"', text)
    assert {"web/panels/many-networks.js", "web/panels/many-networks.png"} <= {*loaded}
    assert len(loaded) == 12
    assert [file for file in loaded if not (page.parent / file).exists()] == []
    for sheet in page.parent.rglob("*.css"):
        asked = re.findall(r"url\(([^)]*\.woff2)\)", sheet.read_text())
        assert [name for name in asked if not (sheet.parent / name).exists()] == []
