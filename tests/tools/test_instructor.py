"""What must hold of the instructor's index; a guard compares its texts with those of lesson 90."""

import re

import pytest
from nbformat.v4 import new_markdown_cell

from tools import instructor, notebook
from tools.instructor import ROLES, expected_minutes, plan, two_sessions
from tools.metadata import Lesson, Section, lessons


def test_every_panel_is_listed_once():
    row = r"\[(\d\d)\]\(.*\) \| `(\w+)` \| `.+` \| (.+) \|"
    listed = re.findall(row, instructor.panels())
    tagged = []
    for lesson in lessons():
        tagged += [(lesson.number, cell.section) for cell in lesson.cells("panel")]
    assert [(number, section) for number, _, section in listed] == tagged
    names = {panel for _, panel, _ in listed}
    assert len(names) == len(listed)


def test_every_plan_has_a_clock_and_all_roles_and_so_has_one_ten_minutes_shorter():
    _, *folds = instructor.lesson_plans().split("<details>")
    for fold, lesson in zip(folds, instructor.taught()[1:], strict=True):
        _, *plans = fold.split("| minutes | section |")
        for text, limit in zip(plans, (45, 90, 90, 90), strict=True):
            clock = re.findall(r"^\| (\d+)–(\d+) \|", text, re.M)
            begins = [int(begin) for begin, _ in clock]
            ends = [int(end) for _, end in clock]
            assert begins[0] == 0
            assert begins[1:] == ends[:-1]
            assert ends[-1] <= limit
        left_out = re.search("Ten minutes less: leave out (.+)[.]", fold)[1]
        kept = [section for section in plan(lesson, 45) if f"*{section.name}*" not in left_out]
        assert expected_minutes(*kept) <= 35
        assert {role for section in kept for role in section.roles} >= ROLES
        assert "sentence" in plans[2], "the first of two sessions ends with it"
        assert "?" in instructor.opening_question(lesson)
        assert instructor.answer(lesson) in fold
        assert "](#" not in fold, "a link that arrives only inside the lesson"


class SmallLesson:
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
    chosen = plan(SmallLesson, minutes)
    expected = [SmallLesson.sections[place].name for place in places]
    assert [section.name for section in chosen] == expected
    assert expected_minutes(*chosen) == taught


def test_two_sessions_are_equally_long():
    assert [len(session) for session in two_sessions(SmallLesson)] == [3, 3]


class LongLesson:
    """Its exercises and what goes deeper take 100 minutes."""

    sections = (
        Section("A question", (60, 60), "lecture", frozenset({"question"})),
        Section("Exercises", (60, 60), "solo", part="exercises"),
        Section("Going deeper: one", (20, 20), "lecture", part="deeper"),
        Section("Going deeper: two", (20, 20), "lecture", part="deeper"),
    )


def test_what_goes_deeper_and_does_not_fit_into_two_sessions_is_left_out():
    first, second = two_sessions(LongLesson)
    assert [section.name for section in first] == ["A question"]
    assert [section.name for section in second] == ["Exercises", "Going deeper: one"]


def test_an_answer_outside_the_recap_is_the_cell_that_has_the_tag(lesson, lesson_path):
    taught = lesson()
    recap = next(cell for cell in taught.cells if cell.source == "## Recap")
    recap.source = "## In short\n\n1. All, see [there](#There)."
    answer = new_markdown_cell("The second. By far.", metadata={"tags": ["answer"]})
    taught.cells.insert(2, answer)
    notebook.write(lesson_path, notebook.text(taught))
    summed_up = "1. All, see [there](01_a_claim.ipynb#There)."
    assert instructor.answer(Lesson(lesson_path)) == f"The second. By far.\n\n{summed_up}"
    assert instructor.opening_question(Lesson(lesson_path)) == "**What is it?**"
    taught.cells.remove(answer)
    notebook.write(lesson_path, notebook.text(taught))
    with pytest.raises(ValueError, match="lesson 01 has no answer: give a cell the tag"):
        instructor.answer(Lesson(lesson_path))
