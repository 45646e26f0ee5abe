"""What an exercise is, and how an answer is graded.

An exercise holds its reference solution, three to five criteria that every right answer meets, and
the known errors: wrong answers that readers give. Every result of an answer is first compared in
form with that of the reference; what is missing, raised, misshapen or NaN is told as such, in place
of advice. An answer that fails a criterion is compared with the known errors by a probe, fixed
calls that tell answers apart; if it agrees with one, the reader is told which error that is. The
reference is never printed.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from bdl_lessons.exercises.form import (
    FIXED_NOISE,
    SECONDS,
    Answer,
    CheckedAnswer,
    NotAttempted,
    WrongForm,
    double_precision,
    numbers,
)
from bdl_lessons.exercises.output import bounded_output

Kind = Literal["implement", "predict", "derive", "extend", "debug", "design"]


@dataclass(frozen=True)
class Criterion:
    """A claim that holds for every right answer, and its test.

    Attributes:
        claim: is printed whether or not it holds.
        holds: the test; receives the answer and returns whether the claim holds.
        advice: where to look when it does not hold.
    """

    claim: str
    holds: Callable[[Answer], Any]
    advice: str


@dataclass(frozen=True)
class KnownError:
    """A wrong answer that readers give, and what to tell them."""

    answer: Answer
    diagnosis: str


@dataclass(frozen=True)
class Exercise:
    """One exercise of one lesson.

    Attributes:
        number: lesson and exercise, e.g. ``"01.2"``.
        title: the task in a few words.
        solution: the reference answer, a function a reader can learn from. One without arguments
            returns a prediction.
        probe: calls an answer on fixed inputs and returns its results, to tell answers apart.
        criteria: three to five, which every right answer meets.
        known_errors: the wrong answers that are recognised.
        hints: graded, from a nudge to nearly the answer.
        kind: what it asks of the reader.
        probe_atol: how far probes of one answer may differ, if the answer draws random numbers.
    """

    number: str
    title: str
    solution: Answer
    probe: Callable[[Answer], Any]
    criteria: tuple[Criterion, ...]
    known_errors: tuple[KnownError, ...]
    hints: tuple[str, ...]
    kind: Kind | None = None
    probe_atol: float = 1e-9


@dataclass(frozen=True)
class Report:
    """The outcome of grading: a line for each criterion, and why it is not solved, if it is known.

    Attributes:
        form: what is wrong with the form of the result; the lines then give no advice.
        diagnosis: what a known error that fits is told.
    """

    solved: bool
    lines: tuple[str, ...]
    form: str | None = None
    diagnosis: str | None = None


def grade(exercise: Exercise, answer: Answer, seconds: float = SECONDS) -> Report:
    """Test every criterion on ``answer``; on a failure look for a wrong form, or a known error.

    Raises:
        NotAttempted: if the answer is still the empty stub.
    """
    with double_precision(), bounded_output():
        checked = CheckedAnswer(answer, exercise.solution, seconds)
        given, form = _attempt(exercise.probe, checked)
        tested = [(one, *_attempt(one.holds, checked)) for one in exercise.criteria]
        is_right = form is None and all(holds for _, holds, _ in tested)
        solved = is_right and not checked.ignores_seed
        diagnosis = None
        if not solved and form is None:
            diagnosis = _diagnose(exercise, given)
            if not diagnosis and checked.ignores_seed:
                form = FIXED_NOISE
                tested = [(one, False, None) for one in exercise.criteria]  # of one draw, by chance
            elif not diagnosis:
                form = _imprecise(exercise, given)
    lines = []
    for one, holds, trouble in tested:
        advice = "" if form else f": {trouble or one.advice}"
        lines.append(f"ok   {one.claim}" if holds else f"no   {one.claim}{advice}")
    return Report(solved, tuple(lines), form, diagnosis)


def find(number: str) -> Exercise:
    """The exercise with this number.

    Raises:
        ValueError: if there is none; the message lists those of the lesson.
    """
    match = re.fullmatch(r"(\d\d)\.(\d)", str(number))
    known = lessons()
    if match and match[1] in known:
        exercises = of_lesson(match[1])
        for exercise in exercises:
            if exercise.number == number:
                return exercise
        numbers = ", ".join(exercise.number for exercise in exercises)
        raise ValueError(f"lesson {match[1]} has no exercise {number!r}; it has {numbers}")
    raise ValueError(
        f"no exercise {number!r}; numbers look like '{known[0]}.1', "
        f"and the lessons with exercises are {', '.join(known)}"
    )


def lessons() -> list[str]:
    """Two-digit numbers of the lessons that have exercises, in order."""
    package = importlib.import_module(__package__)
    names = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(name.removeprefix("lesson") for name in names if name.startswith("lesson"))


def of_lesson(lesson: str) -> tuple[Exercise, ...]:
    """All exercises of a lesson, e.g. ``of_lesson("01")``."""
    with double_precision():  # the fixed inputs are made on import
        return importlib.import_module(f"{__package__}.lesson{lesson}").EXERCISES


def normals(seed: int) -> Callable[..., torch.Tensor]:
    """``torch.randn`` in float64 from a generator of its own: the fixed inputs of a lesson."""
    generator = torch.Generator().manual_seed(seed)
    return functools.partial(torch.randn, generator=generator, dtype=torch.float64)


def close(left: Any, right: Any, atol: float = 1e-9) -> bool:
    """Whether two results have one shape and agree to ``atol``; ``False`` for what is no number."""
    left = numbers(left)
    right = numbers(right)
    if left is None or right is None or left.shape != right.shape:
        return False
    return bool(torch.allclose(left, right, rtol=0, atol=atol))


def agrees(
    call: Callable[[Answer], Any], expected: Any, atol: float = 1e-9
) -> Callable[[Answer], bool]:
    """The test that ``call`` gives what is expected: a value, or what another call gives."""
    other = expected if callable(expected) else lambda answer: expected
    return lambda answer: close(call(answer), other(answer), atol)


def _diagnose(exercise: Exercise, given: Any) -> str | None:
    """What the known error that gives the same is told."""
    size = _size(numbers(exercise.probe(exercise.solution)))
    atol = max(exercise.probe_atol, 1e-6 * size)  # in float32, too, an error is recognised
    for error in exercise.known_errors:
        if close(given, exercise.probe(error.answer), atol):
            return error.diagnosis
    return None


def _imprecise(exercise: Exercise, given: Any) -> str | None:
    """What is told to an answer of which the first digits are right."""
    right = numbers(exercise.probe(exercise.solution))
    if close(given, right) or not close(given, right, 1e-4 * _size(right)):
        return None
    return "only the first digits are right: is part of it in float32, or a small number added?"


def _size(value: torch.Tensor) -> float:
    """The largest finite entry."""
    return float(value[value.isfinite()].abs().amax()) if value.isfinite().any() else 0.0


def _attempt(call: Callable[[Answer], Any], answer: Answer) -> tuple[Any, str | None]:
    """What ``call`` gives, and what kept it from giving anything."""
    try:
        return call(answer), None
    except WrongForm as error:
        return None, str(error)
    except NotAttempted:
        raise
    except Exception as error:
        return None, f"your result cannot be used ({type(error).__name__}: {error})"
