import re

import pytest
from nbformat.v4 import new_markdown_cell, new_notebook

from bdl_lessons.exercises.grader import of_lesson
from tools import instructor, notebook
from tools import notes as lecturers_notes
from tools.lesson_plans import ROLES, expected_minutes, plan
from tools.metadata import Lesson, lessons


def test_every_panel_is_listed_once():
    listed = re.findall(r"\[(\d\d)\]\(.*\) \| `(\w+)` \| `.+` \| (.+) \|", instructor.panels())
    tagged = [(one.number, cell.section) for one in lessons() for cell in one.cells("panel")]
    assert [(number, section) for number, _, section in listed] == tagged
    assert len({panel for _, panel, _ in listed}) == len(listed)
    assert "| `householder_depth` | `depth`, `log_std`, `seed` |" in instructor.panels()


def test_every_exercise_and_every_wrong_answer_is_listed():
    table, told = instructor.exercises(), instructor.known_errors()
    for lesson in instructor.taught():
        for exercise in of_lesson(lesson.number):
            minutes = "–" if lesson.number == "00" else r"[1-9]\d?"
            row = rf"\| {exercise.number} \| {re.escape(exercise.title)} \| \w+ \| {minutes} \|"
            assert re.search(row, table)
            for error in exercise.known_errors:
                assert f"- **{exercise.number}** {error.diagnosis}" in told


def test_every_plan_has_a_clock_and_all_roles_and_so_has_one_ten_minutes_shorter():
    folds, notes = instructor.lesson_plans().split("<details>")[1:], instructor.notes()
    for fold, lesson in zip(folds, instructor.taught()[1:], strict=True):
        assert re.match(rf"<summary><b>{lesson.number}</b> [^$]+</summary>", fold)
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
        for section in plan(lesson, 45):
            assert f"| {section.name} | {section.slides[0]}" in plans[0]
            assert f"**Slide {section.slides[0]}: {section.name}** ·" in notes
        assert "?" in instructor.opening_question(lesson)
        assert instructor.answer(lesson) in fold
        assert "](#" not in fold, "a link that arrives only inside the lesson"


def test_an_answer_outside_the_recap_is_found_by_its_sentence_in_bold(tmp_path):
    def cell(source, role=(), slide="slide"):
        timing = {"minutes": [1, 1], "mode": "lecture", "role": role}
        is_section = source.startswith("## ")
        metadata = {"slideshow": {"slide_type": slide}} | ({"bdl": timing} if is_section else {})
        return new_markdown_cell(source, metadata=metadata)

    cells = [
        cell("## A question\n\nSome **term**. **Which one?**", ["question"]),
        cell("## Result\n\n**Before you look:** guess.", ["answer"]),
        cell("**The second.** By far.\n\n<details>**Hidden.**</details>"),
        cell("**A note.**", slide="notes"),
        cell("## Recap\n\n1. All.\n\nNext: [04](04.ipynb)."),
    ]
    path = tmp_path / "03_made.ipynb"
    notebook.write(path, notebook.text(new_notebook(cells=cells)))
    assert instructor.opening_question(Lesson(path)) == "Some **term**. **Which one?**"
    assert instructor.answer(Lesson(path)) == "**The second.** By far.\n\n1. All."
    notebook.write(path, notebook.text(new_notebook(cells=cells[:2] + cells[4:])))
    with pytest.raises(ValueError, match="lesson 03: no paragraph states the answer"):
        instructor.answer(Lesson(path))


def test_notes_are_those_of_the_lessons():
    notes = instructor.notes()
    for lesson in instructor.taught():
        for text in lecturers_notes.of_lesson(lesson.path).values():
            assert text in notes
