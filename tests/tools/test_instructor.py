import re

import pytest
from nbformat.v4 import new_markdown_cell, new_notebook

from bdl_lessons.exercises.grader import of_lesson
from tools import instructor, notebook
from tools import notes as lecturers_notes
from tools.metadata import Lesson, lessons


def test_the_clock_ends_with_the_minutes_of_the_lesson():
    folds = instructor.timetable().split("<details>")[1:]
    for fold, lesson in zip(folds, instructor.taught(), strict=True):
        ends = re.findall(r"^\|.*\| (\d+)(?:–(\d+))? \| (?!solo)[a-z ]+ \|$", fold, re.M)
        on_clock = [s.minutes for s in lesson.sections if s.mode != "solo" or s.deeper]
        total = tuple(map(sum, zip(*on_clock, strict=True)))
        assert (int(ends[-1][0]), int(ends[-1][1] or ends[-1][0])) == total
        assert len(ends) == len(on_clock)
        assert len(re.findall(r"\| – \| solo \|$", fold, re.M)) == len(lesson.sections) - len(ends)


def test_every_panel_is_listed_once():
    listed = re.findall(r"\[(\d\d)\]\(.*\) \| `(\w+)` \| (.+) \|", instructor.panels())
    tagged = [(one.number, cell.section) for one in lessons() for cell in one.cells("panel")]
    assert [(number, section) for number, _, section in listed] == tagged
    assert len({panel for _, panel, _ in listed}) == len(listed)


def test_every_exercise_and_every_wrong_answer_is_listed():
    table, told = instructor.exercises(), instructor.known_errors()
    for lesson in instructor.taught():
        for exercise in of_lesson(lesson.number):
            assert f"| {exercise.number} | {exercise.title} |" in table
            for error in exercise.known_errors:
                assert f"- **{exercise.number}** {error.diagnosis}" in told


def test_every_lesson_has_its_plans_with_clock_question_answer_result_and_panel():
    blocks = instructor.lesson_plans().split("### ")[1:]
    for block, lesson in zip(blocks, instructor.taught(), strict=True):
        assert block.startswith(f"{lesson.number} {lesson.title}\n")
        plans = block.split("| minutes | section |")[1:]
        for plan, most in zip(plans, (45, 90, 90, 90), strict=True):
            clock = re.findall(r"^\| (\d+)–(\d+) \|", plan, re.M)
            assert clock[0][0] == "0"
            assert int(clock[-1][1]) <= most
            assert [end for _, end in clock[:-1]] == [begin for begin, _ in clock[1:]]
        held = ", ".join(re.findall(r"\| \*\*(.+)\*\* \|$", plans[0], re.M))
        assert {*held.split(", ")} >= {"question", "answer", "result", "panel"}
        assert "?" in instructor.opening_question(lesson)
        assert instructor.answer(lesson) in block
        assert "](#" not in block, "a link that arrives only inside the lesson"


def test_an_answer_outside_the_recap_is_found_by_its_sentence_in_bold(tmp_path):
    def cell(source, section=None, role=(), slide="slide"):
        timing = {"section": section, "minutes": [1, 1], "mode": "lecture", "role": role}
        metadata = {"slideshow": {"slide_type": slide}} | ({"bdl": timing} if section else {})
        return new_markdown_cell(source, metadata=metadata)

    cells = [
        cell("## A question\n\nSome **term**. **Which one?**", "A question", ["question"]),
        cell("## Result\n\n**Before you look:** guess.", "Result", ["answer"]),
        cell("**The second.** By far.\n\n<details>**Hidden.**</details>"),
        cell("**A note.**", slide="notes"),
        cell("## Recap\n\n1. All.\n\nNext: [04](04.ipynb).", "Recap"),
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
