"""The self-test of a lesson: guarded, and printed without its answers."""

import pytest
from nbformat.v4 import new_markdown_cell, new_notebook

from tools import assignments, selftest


def asked(letters="BACBA"):
    """A lesson whose right options are ``letters``."""
    text = "## Self-test\n\nChoose first."
    for number, right in enumerate(letters, start=1):
        text += f"\n\n**{number}.** How large is $\\sigma^{number}$?"
        for letter in "ABC":
            said = "Right: it is." if letter == right else "Not so: see [there](#There)."
            text += f"\n\n<details><summary>{letter}. As {letter}</summary>\n\n{said}\n\n</details>"
    cell = new_markdown_cell(text, metadata={"tags": ["self-test"]})
    return new_notebook(cells=[new_markdown_cell("# 05 · Masks & more"), cell])


@pytest.mark.parametrize(
    ("letters", "old", "new", "said"),
    [
        ("BACBA", "**5.** ", "5. ", "4 questions, 5 are wanted"),
        ("BACBA", "Right: ", "Not so: ", "one option is right"),
        ("BACBA", "[there](#There)", "there", "no link to what mends it"),
        ("BACBA", "<summary>C. ", "<summary>E. ", "options are A, B, C"),
        ("BBBBB", "", "", "same place"),
    ],
)
def test_what_is_not_in_the_form_is_named(letters, old, new, said):
    lesson = asked(letters)
    lesson.cells[1].source = lesson.cells[1].source.replace(old, new, 1)
    assert said in " ".join(selftest.problems(lesson, None))
    assert list(selftest.problems(asked(), None)) == []


def test_the_sheet_shows_formulas_and_keeps_answers_for_its_last_page():
    page = assignments.sheet(asked())
    shown, _, answers = page.partition("<h2>Answers</h2>")
    assert shown.count("<math") == 5
    assert "<title>05 · Masks &amp; more</title>" in shown
    assert "it is" not in shown
    assert "see" not in shown
    assert "<li>C: it is.</li>" in answers
