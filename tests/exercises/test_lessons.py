"""Every exercise of every lesson: its solution passes, its known errors are recognised.

No wrong mutant passes, right results pass in every form, a wrong form is told as that, and a lesson
asks for more than transcription.
"""

import ast
from functools import cache
from typing import get_args

import numpy as np
import pytest
import torch

from bdl_lessons.exercises.form import numbers
from bdl_lessons.exercises.grader import Kind, grade, lessons, of_lesson
from tests.exercises.mutants import survivors

EXERCISES = [exercise for lesson in lessons() for exercise in of_lesson(lesson)]
KNOWN_ERRORS = [
    pytest.param(exercise, error, id=f"{exercise.number}-{index}")
    for exercise in EXERCISES
    for index, error in enumerate(exercise.known_errors, 1)
]


@cache
def _of_known_error(exercise, error):
    return grade(exercise, error.answer)


FORMS = {
    "lists": lambda value: torch.as_tensor(value).tolist(),
    "arrays": lambda value: np.asarray(value),
    "tensors": lambda value: torch.as_tensor(value),
}


def _changed(solution, change, touched):
    """The solution with each of its results changed; ``touched`` counts those that are numbers."""

    def changed(value):
        if isinstance(value, tuple):
            return tuple(map(changed, value))
        if numbers(value) is None:
            return value
        touched.append(value)
        return change(value)

    return lambda *args, **kwargs: changed(solution(*args, **kwargs))


def _is_code(text):
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.number)
class TestEveryExercise:
    def test_the_solution_passes_every_check_after_an_answer_that_spoils_what_it_gets(
        self, exercise
    ):
        def spoil(*args, **kwargs):
            torch.set_default_dtype(torch.float16)
            torch.set_grad_enabled(False)
            for value in (*args, *kwargs.values()):
                if isinstance(value, list):
                    value.clear()
                if isinstance(value, torch.Tensor):
                    value.zero_()

        assert not grade(exercise, spoil).solved
        assert torch.get_default_dtype() == torch.float32, "of the cells below"
        report = grade(exercise, exercise.solution)
        assert report.solved, report.lines
        assert (report.form, report.diagnosis) == (None, None)

    def test_it_is_complete(self, exercise):
        n_criteria = len(exercise.criteria)
        n_errors = len(exercise.known_errors)
        assert 3 <= n_criteria <= 5, f"it has {n_criteria} criteria, 3 to 5 are wanted"
        assert len({one.claim for one in exercise.criteria}) == n_criteria, "a claim stands twice"
        assert n_errors >= 2, f"it has {n_errors} known errors, at least 2 are wanted"
        assert len(exercise.hints) >= 2, "at least 2 hints are wanted"
        assert exercise.solution.__doc__, "the solution has no docstring"
        early = [hint for hint in exercise.hints[:-1] if _is_code(hint)]
        assert not early, f"{early} are code; the first hints say where to look, in words"
        assert len({*exercise.hints}) == len(exercise.hints), "two hints are the same"

    def test_every_check_refuses_some_wrong_answer_or_nonsense(self, exercise):
        reports = [_of_known_error(exercise, error) for error in exercise.known_errors]
        reports.append(grade(exercise, lambda *_, **__: None))
        for index, one in enumerate(exercise.criteria):
            refused = any(report.lines[index].startswith("no") for report in reports)
            assert refused, f"no known error and no nonsense fails {one.claim!r}"

    @pytest.mark.parametrize("form", FORMS)
    def test_a_right_result_passes_in_every_form(self, exercise, form):
        touched = []
        report = grade(exercise, _changed(exercise.solution, FORMS[form], touched))
        if exercise.number == "08.2" and form != "tensors":
            pytest.skip("its gradient is looked at")
        assert report.solved, report

    def test_results_in_float32_are_solved_or_told_as_that(self, exercise):
        """Advice on the formula would be false. 08.2 names what is wrong in float32."""

        def single(value):
            value = torch.as_tensor(value)
            return value.float().double() if value.is_floating_point() else value

        report = grade(exercise, _changed(exercise.solution, single, []))
        message = f"{report.form} {report.diagnosis}"
        names_precision = "only the first digits" in message or "float32" in message
        assert report.solved or names_precision, report

    def test_no_wrong_mutant_passes(self, exercise):
        wrong = survivors(exercise)
        assert not wrong, "\n".join(["these wrong answers are solved:", *wrong])

    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            (lambda value: None, "None: is the `return` missing?"),
            (lambda value: 1 / 0, "your function raised ZeroDivisionError: division by zero"),
            (lambda value: value * torch.nan, "holds nan"),
            (lambda value: value + 5j, "is complex; it must be real"),
            (lambda value: value[None], "has shape"),
            (lambda value: torch.stack([value, value], -1), "has shape"),
        ],
        ids=["none", "raises", "nan", "complex", "one axis more", "a sum missing"],
    )
    def test_a_wrong_form_is_told_in_place_of_advice(self, exercise, spoil, message):
        touched = []

        def spoil_numbers(value):
            return spoil(torch.as_tensor(value))

        report = grade(exercise, _changed(exercise.solution, spoil_numbers, touched))
        if not touched:
            pytest.skip("its results hold no numbers")
        assert message in report.form
        for line, one in zip(report.lines, exercise.criteria, strict=True):
            assert line in {f"ok   {one.claim}", f"no   {one.claim}"}, "there is no advice"
        assert report.diagnosis is None


@pytest.mark.parametrize(("exercise", "error"), KNOWN_ERRORS)
def test_a_known_error_is_told_by_name(exercise, error):
    report = _of_known_error(exercise, error)
    assert not report.solved
    assert report.diagnosis == error.diagnosis


@pytest.mark.parametrize("lesson", [lesson for lesson in lessons() if lesson != "00"])
def test_a_lesson_asks_for_thought(lesson):
    kinds = [exercise.kind for exercise in of_lesson(lesson)]
    assert {*kinds} <= {*get_args(Kind)}, "every exercise says its kind"
    assert kinds.count("implement") <= 1, f"at most one transcription, of {kinds}"
    assert "predict" in kinds, f"one exercise asks for a prediction, of {kinds}"
    assert {"derive", "extend"} & {*kinds}, f"one derives or extends, of {kinds}"


def test_no_hint_stands_twice():
    """Each exercise has hints of its own: that of another would go unnoticed."""
    numbers = {}
    for exercise in EXERCISES:
        for hint in exercise.hints:
            numbers.setdefault(hint, []).append(exercise.number)
    twice = {hint: exercises for hint, exercises in numbers.items() if len(exercises) > 1}
    assert not twice
