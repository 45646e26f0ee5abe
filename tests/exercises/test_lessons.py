"""Every exercise of every lesson: its solution passes, its known errors are recognised.

In the lessons of the second edition also: no wrong mutant passes, a wrong form is told as that, and
a lesson asks for more than transcription.
"""

from typing import get_args

import pytest
import torch

from bdl_lessons.exercises.form import numbers
from bdl_lessons.exercises.grader import Kind, grade, lessons, of_lesson
from tests.exercises.mutants import survivors

RIGHT_AFTER_ALL: dict[str, set[str]] = {}  # by exercise: changes that leave the answer right

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


def _spoilt(solution, spoil, touched):
    """The solution with every number or tensor that it returns spoilt; ``touched`` counts them."""

    def spoilt(value):
        if isinstance(value, tuple):
            return tuple(map(spoilt, value))
        if numbers(value) is None:
            return value
        touched.append(value)
        return spoil(torch.as_tensor(value))

    return lambda *args, **kwargs: spoilt(solution(*args, **kwargs))


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.number)
class TestSecondEdition:
    def test_no_wrong_mutant_passes(self, exercise):
        right = RIGHT_AFTER_ALL.get(exercise.number, set())
        wrong = [c for c in survivors(exercise) if c.partition(": ")[2] not in right]
        assert not wrong, "\n".join(["these wrong answers are solved:", *wrong])

    @pytest.mark.parametrize(
        ("spoil", "told"),
        [
            (lambda value: None, "None: is the `return` missing?"),
            (lambda value: 1 / 0, "your function raised ZeroDivisionError: division by zero"),
            (lambda value: value * torch.nan, "holds nan"),
            (lambda value: value[None], "has shape"),
            (lambda value: torch.stack([value, value], -1), "has shape"),
        ],
        ids=["none", "raises", "nan", "one axis more", "a sum missing"],
    )
    def test_a_wrong_form_is_told_in_place_of_advice(self, exercise, spoil, told):
        touched = []
        report = grade(exercise, _spoilt(exercise.solution, spoil, touched))
        if not touched:
            pytest.skip("its results hold no numbers")
        assert told in report.form
        assert {*report.lines} <= {
            f"{s}   {claim}" for claim in exercise.checks for s in ("ok", "no")
        }
        assert report.diagnosis is None


@pytest.mark.parametrize("lesson", sorted({exercise.number[:2] for exercise in EXERCISES} - {"00"}))
def test_a_lesson_asks_for_thought(lesson):
    kinds = [exercise.kind for exercise in of_lesson(lesson)]
    assert {*kinds} <= {*get_args(Kind)}, "every exercise says its kind"
    assert kinds.count("transcription") <= 1
    assert "predict" in kinds
    assert {"derive", "extend"} & {*kinds}
