"""Every exercise of every lesson: its solution passes, its known errors are recognised."""

import pytest

from bdl_lessons.lessons.exercises.grader import grade, lessons, of_lesson

EXERCISES = [exercise for lesson in lessons() for exercise in of_lesson(lesson)]
KNOWN_ERRORS = [
    pytest.param(exercise, error, id=f"{exercise.number}-{index}")
    for exercise in EXERCISES
    for index, error in enumerate(exercise.known_errors, 1)
]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.number)
class TestEveryExercise:
    def test_the_solution_passes_every_check(self, exercise):
        report = grade(exercise, exercise.solution)
        assert report.solved, report.lines
        assert report.diagnosis is None

    def test_it_is_complete(self, exercise):
        assert 3 <= len(exercise.checks) <= 5
        assert len(exercise.known_errors) >= 2
        assert len(exercise.hints) >= 2
        assert exercise.solution.__doc__

    def test_every_check_refuses_some_wrong_answer_or_nonsense(self, exercise):
        wrong = [error.answer for error in exercise.known_errors]
        reports = [grade(exercise, answer).lines for answer in [*wrong, lambda *_, **__: None]]
        for index, claim in enumerate(exercise.checks):
            assert any(lines[index].startswith("no") for lines in reports), claim


@pytest.mark.parametrize(("exercise", "error"), KNOWN_ERRORS)
def test_a_known_error_is_told_by_name(exercise, error):
    report = grade(exercise, error.answer)
    assert not report.solved
    assert report.diagnosis == error.diagnosis


def test_numbers_are_those_of_the_lesson_in_order():
    for lesson in lessons():
        numbers = [exercise.number for exercise in of_lesson(lesson)]
        assert numbers == [f"{lesson}.{index}" for index in range(1, len(numbers) + 1)]
