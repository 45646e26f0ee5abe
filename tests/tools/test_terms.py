"""The page of terms: plain sentences, and lessons that do introduce what they are named for."""

import re

import pytest

from bdl_lessons.core.files import NOTEBOOKS
from bdl_lessons.course.lesson_record import lesson_records
from bdl_lessons.course.symbols import SYMBOLS
from tools import notebook, terms
from tools.vocabulary import dialect

TERMS = {term.term: term for term in terms.terms()}
ANNOUNCES = "start_here"  # what the course is about, in words that later lessons introduce


@pytest.fixture(scope="module")
def written():
    """The text of each lesson in small letters, by the name of the lesson."""
    texts = {}
    for record in lesson_records().values():
        cells = notebook.read(NOTEBOOKS / f"{record.stem}.ipynb").cells
        sources = [cell.source for cell in cells if cell.cell_type == "markdown"]
        texts[record.name] = "\n".join(sources).lower()
    return texts


@pytest.mark.parametrize("name", TERMS)
def test_the_lesson_that_introduces_a_term_writes_it(written, name):
    term = TERMS[name]
    words = re.escape((term.words or term.term).lower())
    assert re.search(rf"(?<!\w){words}", written[term.lesson]), "not as a part of another word"


@pytest.mark.parametrize("name", TERMS)
def test_no_lesson_before_the_one_that_introduces_a_term_has_it_in_bold(written, name):
    term = TERMS[name]
    in_bold = re.compile(rf"\*\*[^*\n]*(?<!\w){re.escape(name.lower())}[^*\n]*\*\*")
    for lesson, text in written.items():
        if lesson == term.lesson:
            break
        if lesson != ANNOUNCES:
            assert not in_bold.search(text), f"{lesson} introduces it"


@pytest.mark.parametrize("name", TERMS)
def test_a_meaning_is_one_plain_sentence(name):
    meaning = TERMS[name].meaning
    assert re.fullmatch(r"[A-Z][^.]*(?:\d\.\d[^.]*)*\.", meaning)
    assert len(meaning.split()) <= 30
    assert list(dialect(meaning)) == []


def test_no_term_stands_twice_and_the_page_has_all_of_them():
    assert len(TERMS) == len(terms.terms())
    page = terms.page("there/")
    named = re.findall(r"^- \*\*(.+?)\*\* \(\[(\d\d)\]\(there/\2_", page, re.M)
    assert [name for name, _ in named] == sorted(TERMS, key=str.lower)
    assert page.count("\n| $") == len(SYMBOLS)


def test_an_unknown_field_is_named(tmp_path):
    path = tmp_path / "terms.toml"
    path.write_text('[[terms]]\nterm = "a"\nlesson = "b"\nmeans = "c"\n')
    with pytest.raises(ValueError, match=r"terms.toml: .*means.*; other terms show"):
        terms.terms(path)
