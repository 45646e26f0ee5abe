"""Formula sheets: every formula is one of its lesson, and every lesson stands on one sheet."""

import re
import shutil

import pytest

from bdl_lessons.core.files import NOTEBOOKS
from bdl_lessons.course.lesson_record import lesson_records
from bdl_lessons.course.symbols import SYMBOLS
from tools import formulas, notebook
from tools.vocabulary import dialect

WITH_FORMULAS = [record for record in lesson_records().values() if record.formulas]

DISPLAYED = re.compile(r"\((\w+)\)\n: \$\$\n  \\begin\{aligned\}\n(.+?)\n  \\end", re.S)


@pytest.mark.parametrize("sheet", formulas.SHEETS, ids=lambda sheet: sheet.name)
def test_a_sheet_has_the_formulas_and_the_sentence_of_each_of_its_lessons(sheet):
    page = formulas.page(sheet, link="there/")
    headings = re.findall(r"^## \[(\d\d) .*\]\(there/\1_\w+\.ipynb\)$", page, re.M)
    assert tuple(headings) == sheet.lessons
    assert len(re.findall(r"^\*\*.+\*\*$", page, re.M)) == len(sheet.lessons)
    records = [record for record in WITH_FORMULAS if record.number in sheet.lessons]
    said = [f"{formula.says} ({formula.number})" for r in records for formula in r.formulas]
    assert re.findall(r"^(.+)\n: \$\$", page, re.M) == said


@pytest.mark.parametrize("sheet", formulas.SHEETS, ids=lambda sheet: sheet.name)
def test_each_formula_of_a_sheet_has_its_number_in_the_lesson(sheet):
    page = formulas.page(sheet, link="")
    for section in page.split("\n## ")[1:-1]:
        (path,) = notebook.paths([section[1:3]])
        lesson = without_spaces("".join(cell.source for cell in notebook.read(path).cells))
        shown = DISPLAYED.findall(section)
        assert len(shown) == section.count("$$") // 2
        for number, rows in shown:
            last_row = without_spaces(rows.splitlines()[-1])
            tags = [rf"{last_row}{space}({number})" for space in ("&&", r"\qquad", r"\quad")]
            assert any(tag in lesson for tag in tags), f"{path.stem} ({number}): {last_row}"


def without_spaces(text):
    return re.sub(r"\s", "", text)


def test_every_lesson_with_formulas_stands_on_one_sheet():
    numbers = [number for sheet in formulas.SHEETS for number in sheet.lessons]
    assert sorted(numbers) == [record.number for record in WITH_FORMULAS]
    assert len(WITH_FORMULAS) == len(lesson_records()) - 1, "all but lesson 00"


@pytest.mark.parametrize("record", WITH_FORMULAS, ids=lambda record: record.stem)
def test_what_is_said_of_a_formula_is_short_and_plain(record):
    for formula in record.formulas:
        assert len(formula.says.split()) <= 12
        assert list(dialect(formula.says)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"so $$x = 1 \qquad (3)$$ and on", {"3": "x = 1"}),
        ("$$\n\\begin{aligned}\nx &= 1 && (1) \\\\\ny &= (2) && (2a)\n\\end{aligned}\n$$", None),
        ("$$\nx &= 1 \\\\\n&= 2 && (4)\n$$", {"4": "x &= 1\\\\\n&= 2"}),
        ("$$\ny &= 3 \\\\\nx &= 1 \\quad (5)\n$$", {"5": "x &= 1"}),
        ("$$x = f(1)$$ and (6) in words", {}),
    ],
)
def test_numbered_formulas_are_found(text, expected):
    if expected is None:
        expected = {"1": "x &= 1", "2a": "y &= (2)"}
    assert formulas.numbered([text]) == expected


def test_a_number_that_the_lesson_does_not_have_is_named(tmp_path):
    for record in WITH_FORMULAS:
        shutil.copy(NOTEBOOKS / f"{record.stem}.ipynb", tmp_path)
    path = tmp_path / "02_evidence_lower_bound.ipynb"
    path.write_text(path.read_text().replace("&& (10)", "&& (110)"))
    with pytest.raises(ValueError, match=r"02_evidence_lower_bound has no formula \(10\)"):
        formulas.page(formulas.SHEETS[0], link="", folder=tmp_path)


def test_the_symbols_are_those_that_the_formulas_have():
    theory = formulas._symbols_in(r"\tau x_i + \text{near}", lessons=["01", "02", "10"])
    assert [symbol.latex for symbol in theory] == ["x", r"\tau", r"\text{near}"]
    assert {symbol.latex for symbol in theory} <= {symbol.latex for symbol in SYMBOLS}
    assert formulas._symbols_in(r"\tau", lessons=["01"]) == []
