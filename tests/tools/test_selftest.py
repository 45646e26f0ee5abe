"""The self-test of a lesson: read, guarded, and printed without its answers."""

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


def test_questions_are_read_with_every_option_and_reason():
    questions = selftest.questions(asked())
    assert [question.answer.letter for question in questions] == [*"BACBA"]
    assert questions[2].text == r"How large is $\sigma^3$?"
    assert questions[2].options[1] == ("B", "As B", False, "see [there](#There).")
    assert list(selftest.problems(asked(), None)) == []
    assert "0 questions" in "".join(selftest.problems(new_notebook(), None))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("**5.** ", "5. ", "4 questions, 5 are wanted"),
        ("Right: ", "Not so: ", "one option is right"),
        ("[there](#There)", "there", "no link to what mends it"),
        ("<summary>C. ", "<summary>E. ", "options are A, B, C"),
        ("", "", "same place"),
    ],
)
def test_what_is_not_in_the_form_is_named(old, new, said):
    lesson = asked("BBBBB") if "place" in said else asked()
    lesson.cells[1].source = lesson.cells[1].source.replace(old, new, 1)
    assert said in " ".join(selftest.problems(lesson, None))


def test_the_sheet_shows_formulas_and_keeps_answers_for_its_last_page():
    page = assignments.sheet(asked())
    shown, _, answers = page.partition("<h2>Answers</h2>")
    assert shown.count("<math") == 5
    assert "<title>05 · Masks &amp; more</title>" in shown
    assert "it is" not in shown
    assert "see" not in shown
    assert "<li>C: it is.</li>" in answers
