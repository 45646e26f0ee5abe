import pytest

from bdl_lessons.exercises import engine
from bdl_lessons.exercises.lesson02 import EXERCISES

CASES = [(exercise, mistake) for exercise in EXERCISES for mistake in exercise.mistakes]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.number)
def test_the_reference_solution_passes_its_own_check(exercise):
    report = engine.examine(exercise, exercise.solution)
    assert report.solved, report.lines


@pytest.mark.parametrize(
    ("exercise", "mistake"),
    CASES,
    ids=[f"{exercise.number}-{exercise.mistakes.index(mistake)}" for exercise, mistake in CASES],
)
def test_every_listed_mistake_fails_and_is_named(exercise, mistake):
    report = engine.examine(exercise, mistake.answer)
    assert not report.solved
    assert report.diagnosis == mistake.diagnosis


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.number)
def test_every_property_catches_something(exercise):
    for prop in exercise.properties:

        def fails(answer, prop=prop):
            try:
                return not prop.holds(answer)
            except Exception:
                return True

        assert any(fails(mistake.answer) for mistake in exercise.mistakes), prop.claim


def test_an_empty_stub_is_told_apart_from_a_wrong_answer():
    def stub(*_):
        raise NotImplementedError

    for exercise in EXERCISES:
        with pytest.raises(NotImplementedError):
            engine.examine(exercise, stub)
