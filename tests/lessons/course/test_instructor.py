import re

from bdl_lessons.lessons.course import instructor
from bdl_lessons.lessons.course.metadata import lessons
from bdl_lessons.lessons.exercises.grader import of_lesson


def test_the_clock_ends_with_the_minutes_of_the_lesson():
    folds = instructor.timetable().split("<details>")[1:]
    for fold, lesson in zip(folds, instructor.taught(), strict=True):
        ends = re.findall(r"^\|.*\| (\d+)(?:–(\d+))? \| [a-z ]+ \|$", fold, re.M)
        total = tuple(sum(end) for end in zip(*(s.minutes for s in lesson.sections), strict=True))
        assert (int(ends[-1][0]), int(ends[-1][1] or ends[-1][0])) == total
        assert len(ends) == len(lesson.sections)


def test_every_panel_is_listed_once():
    listed = re.findall(r"\| (\d\d-\d\d) \|", instructor.panels())
    tagged = [cell.id for lesson in lessons() for cell in lesson.cells("panel")]
    assert listed == tagged
    assert len({*listed}) == len(listed)


def test_every_exercise_and_every_wrong_answer_is_listed():
    table, told = instructor.exercises(), instructor.known_errors()
    for lesson in instructor.taught():
        for exercise in of_lesson(lesson.number):
            assert f"| {exercise.number} | {exercise.title} |" in table
            for error in exercise.known_errors:
                assert f"- **{exercise.number}** {error.diagnosis}" in told


def test_every_lesson_has_a_row_of_plans():
    rows = instructor.lesson_plans().splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == [
        lesson.number for lesson in instructor.taught()
    ]


def test_notes_are_those_of_the_lessons():
    notes = instructor.notes()
    for lesson in instructor.taught():
        for cell in lesson.cells("instructor"):
            assert cell.source in notes
