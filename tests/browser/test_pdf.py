"""A lesson on paper: nothing loses its end, and links lead to other files on paper."""

import os
import re
import shutil
from pathlib import Path

import pytest
from pypdf import PdfReader

from bdl_lessons.exercises.grader import of_lesson
from tools import formulas, metadata, notebook
from tools.notebook import tags_of
from tools.web import pdf, site

pytestmark = pytest.mark.browser

LESSON = "13"
LEAST_LETTERS = 60
PRINTED_WIDTH = 688
"""Pixels of an A4 page between its margins of 14 mm, at 96 to the inch."""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site that ``BDL_SITE`` names, or one with one lesson that is built here."""
    if folder := os.environ.get("BDL_SITE"):
        return Path(folder)
    folder = tmp_path_factory.mktemp("built")
    site.build(folder / "site", [LESSON], source=folder / "source")
    return folder / "site"


@pytest.fixture(scope="module")
def files(built, tmp_path_factory):
    """One lesson and its slides on paper."""
    return list(pdf.write(built, tmp_path_factory.mktemp("printed"), [LESSON]))


@pytest.fixture(scope="module")
def printed(files):
    """One lesson on paper."""
    return files[0]


@pytest.fixture(scope="module")
def pages(printed):
    """The text of each page without its footer and without white space."""
    texts = []
    for page in PdfReader(printed).pages:
        text = re.sub(rf"{LESSON} · [^\n]*\n?\s*\d+ of \d+", "", page.extract_text())
        texts.append(re.sub(r"\s", "", text))
    return texts


def lesson():
    (path,) = notebook.paths([LESSON])
    return notebook.read(path)


def lines_of_code():
    for cell in lesson().cells:
        if cell.cell_type == "code" and "hide-input" not in tags_of(cell):
            yield from cell.source.splitlines()


def printed_lines():
    for cell in lesson().cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "stream":
                yield from output.text.splitlines()


def cells_of_tables():
    for cell in lesson().cells:
        if cell.cell_type != "markdown":
            continue
        for row in re.findall(r"^\|(.+)\|$", cell.source, re.M):
            for content in row.split("|"):
                if not re.search(r"[$*`\[<]|--", content):
                    yield content


@pytest.mark.parametrize("lines", [lines_of_code, printed_lines, cells_of_tables])
def test_no_line_and_no_cell_of_a_table_loses_its_end(pages, lines):
    whole = "".join(pages)
    wanted = [re.sub(r"\s", "", line) for line in lines()]
    assert len(wanted) > 20
    assert [line for line in wanted if line not in whole] == []


def test_numbered_formulas_are_there_with_their_numbers(pages):
    whole = "".join(pages)
    numbers = set()
    for cell in lesson().cells:
        numbers.update(re.findall(r"&& \((\d+)\)|\\tag\{(\d+)\}|\\qquad \((\d+)\)", cell.source))
    for number in filter(None, (name for group in numbers for name in group)):
        assert f"({number})" in whole


def test_no_page_is_nearly_empty(printed, pages):
    images = [bool(page.images) for page in PdfReader(printed).pages]
    for text, has_image in zip(pages, images, strict=True):
        assert has_image or len(text) >= LEAST_LETTERS


def test_answers_and_solutions_stand_at_the_end_and_hidden_code_nowhere(pages):
    whole = "".join(pages)
    for heading in ("Answerstotheself-test", "Answers1.", "Solutions"):
        assert whole.rfind(heading) > whole.find("Recap")
    first, *_ = of_lesson(LESSON)
    assert whole.count(f"def{first.solution.__name__}(") >= 1
    hidden = [cell for cell in lesson().cells if "hide-input" in tags_of(cell)]
    (longest, *_) = sorted(hidden[1].source.splitlines(), key=len, reverse=True)
    assert re.sub(r"\s", "", longest) not in whole


def test_bookmarks_lead_to_sections_and_links_to_other_files(printed):
    reader = PdfReader(printed)
    titles = [str(item.title) for item in _flat(reader.outline)]
    assert "Self-test" in titles
    assert "Solutions" in titles
    assert [title for title in titles if 2 * title[: len(title) // 2] == title] == []
    for page in reader.pages:
        for annotation in page.get("/Annots", ()):
            action = annotation.get_object().get("/A", {})
            assert not str(action.get("/URI", "")).startswith("file:"), "a place on this machine"


def _flat(outline):
    for item in outline:
        if isinstance(item, list):
            yield from _flat(item)
        else:
            yield item


def test_slides_have_a_page_each_with_their_headings_and_pictures(files):
    _, handout = files
    pages = PdfReader(handout).pages
    slides = metadata.slides(lesson())
    assert len(pages) == len(slides)
    for page, cells in zip(pages, slides, strict=True):
        assert page.mediabox.width > page.mediabox.height
        heading = re.sub(r"\W|\$.*?\$", "", metadata.slide_heading(cells))
        assert heading in re.sub(r"\W", "", page.extract_text())


def test_without_a_browser_the_message_says_what_to_do(monkeypatch, tmp_path):
    (tmp_path / "lessons").mkdir()
    (path,) = notebook.paths([LESSON])
    (tmp_path / "lessons" / f"{path.stem}.html").write_text("")
    monkeypatch.delenv("BDL_CHROMIUM", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="printing needs Chromium"):
        list(pdf.write(tmp_path, tmp_path / "pdf", [LESSON]))


@pytest.mark.parametrize("sheet", formulas.SHEETS, ids=lambda sheet: sheet.name)
def test_a_formula_sheet_fills_two_pages_and_no_formula_loses_its_end(
    built, browser, tmp_path, sheet
):
    part = pdf.Printed(stem=sheet.name, title=sheet.title, path=tmp_path / "sheet.pdf")
    page = browser.new_page()
    pdf._print_page(page, built / f"{sheet.name}.html", part)
    assert len(PdfReader(part.path).pages) == 2
    page = browser.new_page(viewport={"width": PRINTED_WIDTH, "height": 900})
    page.emulate_media(media="print")
    page.goto((built / f"{sheet.name}.html").as_uri())
    page.wait_for_selector("dd .katex")
    too_wide = page.eval_on_selector_all(
        "dd div.math",
        "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).length",
    )
    page.close()
    assert too_wide == 0
