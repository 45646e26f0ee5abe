"""What must hold of the instructor's index; a guard compares its texts with those of lesson 90."""

import re

import pytest
from nbformat.v4 import new_markdown_cell

from tools import instructor, notebook
from tools.instructor import ROLES, expected_minutes, plan, two_sessions
from tools.metadata import Lesson, Section, lessons


def test_every_panel_is_listed_once():
    listed = re.findall(r"\[(\d\d)\]\(.*\) \| `(\w+)` \| `.+` \| (.+) \|", instructor.panels())
    tagged = [(one.number, cell.section) for one in lessons() for cell in one.cells("panel")]
    assert [(number, section) for number, _, section in listed] == tagged
    assert len({panel for _, panel, _ in listed}) == len(listed)


def test_every_plan_has_a_clock_and_all_roles_and_so_has_one_ten_minutes_shorter():
    folds = instructor.lesson_plans().split("<details>")[1:]
    for fold, lesson in zip(folds, instructor.taught()[1:], strict=True):
        plans = fold.split("| minutes | section |")[1:]
        for one, most in zip(plans, (45, 90, 90, 90), strict=True):
            clock = re.findall(r"^\| (\d+)–(\d+) \|", one, re.M)
            assert clock[0][0] == "0"
            assert int(clock[-1][1]) <= most
            assert [end for _, end in clock[:-1]] == [begin for begin, _ in clock[1:]]
        told = re.search("Ten minutes less: leave out (.+)[.]", fold)[1]
        kept = [section for section in plan(lesson, 45) if f"*{section.name}*" not in told]
        assert expected_minutes(*kept) <= 35
        assert frozenset().union(*(section.roles for section in kept)) >= ROLES
        assert "sentence" in plans[2], "the first of two sessions ends with it"
        assert "?" in instructor.opening_question(lesson)
        assert instructor.answer(lesson) in fold
        assert "](#" not in fold, "a link that arrives only inside the lesson"


class Made:
    """A lesson of 5, 20, 10, 5 and 30 expected minutes, and one behind the recap."""

    sections = (
        Section("A question", (4, 6), "lecture", frozenset({"question"})),
        Section("In pairs", (20, 20), "pair"),
        Section("A proof", (10, 10), "lecture"),
        Section("Recap", (4, 6), "lecture", frozenset({"answer"})),
        Section("Exercises", (20, 40), "solo", part="exercises"),
        Section("Going deeper", (1, 1), "lecture", part="deeper"),
    )


@pytest.mark.parametrize(
    ("minutes", "places", "taught"),
    [
        (10, [0, 3], 10),
        (29, [0, 2, 3], 20),
        (49, [0, 1, 2, 3], 40),
        (50, [0, 1, 2, 3, 4], 50),
        (90, [0, 1, 2, 3, 4], 70),
    ],
)
def test_what_fits_is_taught_in_order_and_of_the_exercises_what_is_left(minutes, places, taught):
    chosen = plan(Made, minutes)
    assert [section.name for section in chosen] == [Made.sections[i].name for i in places]
    assert expected_minutes(*chosen) == taught
    assert [len(session) for session in two_sessions(Made)] == [3, 3]


def test_an_answer_outside_the_recap_is_the_cell_that_has_the_tag(lesson, lesson_path):
    made = lesson()
    recap = next(cell for cell in made.cells if cell.source == "## Recap")
    recap.source = "## In short\n\n1. All, see [there](#There)."
    answer = new_markdown_cell("The second. By far.", metadata={"tags": ["answer"]})
    made.cells.insert(2, answer)
    notebook.write(lesson_path, notebook.text(made))
    summed_up = "1. All, see [there](01_a_claim.ipynb#There)."
    assert instructor.answer(Lesson(lesson_path)) == f"The second. By far.\n\n{summed_up}"
    assert instructor.opening_question(Lesson(lesson_path)) == "**What is it?**"
    made.cells.remove(answer)
    notebook.write(lesson_path, notebook.text(made))
    with pytest.raises(ValueError, match="lesson 01 has no answer: give a cell the tag"):
        instructor.answer(Lesson(lesson_path))
