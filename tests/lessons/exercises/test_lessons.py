"""Every exercise of every lesson: its solution passes, its listed mistakes are recognised."""

import pytest

from bdl_lessons.lessons.exercises.grader import grade, lessons, of_lesson

EXERCISES = [exercise for lesson in lessons() for exercise in of_lesson(lesson)]
MISTAKES = [
    pytest.param(exercise, mistake, id=f"{exercise.number}-{index}")
    for exercise in EXERCISES
    for index, mistake in enumerate(exercise.mistakes, 1)
]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.number)
class TestEveryExercise:
    def test_the_solution_has_all_properties(self, exercise):
        report = grade(exercise, exercise.solution)
        assert report.solved, report.lines
        assert report.diagnosis is None

    def test_it_is_complete(self, exercise):
        assert 3 <= len(exercise.properties) <= 5
        assert len(exercise.mistakes) >= 2
        assert len(exercise.hints) >= 2
        assert exercise.solution.__doc__

    def test_every_property_refuses_some_wrong_answer_or_nonsense(self, exercise):
        wrong = [mistake.answer for mistake in exercise.mistakes]
        reports = [grade(exercise, answer).lines for answer in [*wrong, lambda *_, **__: None]]
        for index, prop in enumerate(exercise.properties):
            assert any(lines[index].startswith("no") for lines in reports), prop.claim


@pytest.mark.parametrize(("exercise", "mistake"), MISTAKES)
def test_a_listed_mistake_is_told_by_name(exercise, mistake):
    report = grade(exercise, mistake.answer)
    assert not report.solved
    assert report.diagnosis == mistake.diagnosis


def test_numbers_are_those_of_the_lesson_in_order():
    for lesson in lessons():
        numbers = [exercise.number for exercise in of_lesson(lesson)]
        assert numbers == [f"{lesson}.{index}" for index in range(1, len(numbers) + 1)]
