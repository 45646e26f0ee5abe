import os
import re

import pytest

from tools import notebook, slides


@pytest.fixture
def page(lesson, lesson_path, tmp_path):
    """The slides of a small lesson with a live panel."""
    taught = lesson("hidden = 1", "shown = 1", "skipped = 1", "spoken = 1")
    cells = {cell.source: cell for cell in taught.cells}
    cells["hidden = 1"].metadata["tags"] = ["hide-input"]
    cells["skipped = 1"].metadata["slideshow"]["slide_type"] = "skip"
    cells["spoken = 1"].metadata["slideshow"]["slide_type"] = "notes"
    cells["panel"].outputs[0].data["text/plain"] = "<panel many-networks: n_networks=1>"
    links = "[here](#Spot-the-bug) [next](02_next.ipynb#Recap) [page](https://x.org/02_a.ipynb)"
    taught.cells[1].source += f" {links}"
    notebook.write(lesson_path, notebook.text(taught))
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
    links = re.findall(r'<a href="([^"]*)">', text)
    assert links == ["#Spot-the-bug", "02_next.html#Recap", "https://x.org/02_a.ipynb"]
    assert '<h2 id="Spot-the-bug">' in text
    loaded = re.findall(r'<(?:link|script|img|figure)[^>]* (?:data-src|src|href)="([^"]*)"', text)
    assert {"web/panels/many-networks.js", "web/panels/many-networks.png"} <= {*loaded}
    assert len(loaded) == 12
    assert [file for file in loaded if not (page.parent / file).exists()] == []
    for sheet in page.parent.rglob("*.css"):
        asked = re.findall(r"url\(([^)]*\.woff2)\)", sheet.read_text())
        assert [name for name in asked if not (sheet.parent / name).exists()] == []


def test_a_fragment_appears_on_the_slide_of_the_cell_before_it(lesson, lesson_path, tmp_path):
    taught = lesson("first = 1", "later = 1")
    cells = {cell.source: cell for cell in taught.cells}
    cells["later = 1"].metadata["slideshow"]["slide_type"] = "fragment"
    notebook.write(lesson_path, notebook.text(taught))
    text = slides.write(lesson_path, tmp_path / "slides").read_text()
    (fragment,) = re.findall(r'<div class="fragment">(.*?)</div>\s*</section>', text, re.DOTALL)
    assert code("later") in fragment
    assert code("first") not in fragment
    before = text.partition('<div class="fragment">')[0]
    assert code("first") in before.rpartition("<section")[2]


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A folder with one file of each kind that slides are made from, all of them an hour old."""
    for name in (
        "notebooks/01_a.ipynb",
        "notebooks/notes/01.md",
        "tools/slides.py",
        "tools/vendor/deck/deck.css",
        "bdl_lessons/panels/a_panel.py",
        "data/panels/a_panel.npz",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (1e9, 1e9))
    monkeypatch.setattr(slides, "ROOT", tmp_path)
    monkeypatch.setattr(slides, "DATA", tmp_path / "data")
    monkeypatch.setattr(slides, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(slides, "_VENDOR", tmp_path / "tools" / "vendor")
    return tmp_path


@pytest.mark.parametrize(
    "changed",
    [
        "notebooks/01_a.ipynb",
        "notebooks/notes/01.md",
        "tools/slides.py",
        "tools/vendor/deck/deck.css",
        "bdl_lessons/panels/a_panel.py",
        "data/panels/a_panel.npz",
    ],
)
def test_slides_are_written_again_when_what_they_are_made_from_is_newer(
    course, monkeypatch, changed
):
    lesson = course / "notebooks" / "01_a.ipynb"
    folder = course / "slides"
    folder.mkdir()
    written = []

    def write(path, to):
        page = to / f"{path.stem}.html"
        page.touch()
        os.utime(page, (1e9 + 60, 1e9 + 60))
        written.append(path)

    monkeypatch.setattr(slides, "write", write)
    for _ in range(2):
        slides.write_older([lesson], folder)
    assert written == [lesson], "there were none, and then they were newer than all else"
    os.utime(course / changed, (1e9 + 120, 1e9 + 120))
    slides.write_older([lesson], folder)
    assert written == [lesson, lesson]
