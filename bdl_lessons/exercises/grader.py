"""What an exercise is, and how an answer is graded.

An exercise holds its reference solution, three to five checks that every right answer passes, and
the known errors: wrong answers that readers give. Every result of an answer is first compared in
form with that of the reference; what is missing, raised, misshapen or NaN is told as such, in place
of advice. An answer that fails a check is compared with the known errors on one fixed call; if it
agrees with one, the reader is told which error that is. A check never prints the reference.
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

from bdl_lessons.exercises.form import WrongForm, in_form, numbers

Answer = Callable[..., Any]
Kind = Literal["transcription", "predict", "derive", "extend", "debug", "design"]


@dataclass(frozen=True)
class Check:
    """The test of a claim that holds for every right answer.

    Attributes:
        holds: the test; receives the answer and returns whether the claim holds.
        advice: where to look when it does not hold.
    """

    holds: Callable[[Answer], bool]
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
        probe: calls an answer on fixed inputs and returns its result, to tell answers apart.
        checks: three to five, each of which every right answer passes, by the claim that they test;
            the claim is printed whether or not it holds.
        known_errors: the wrong answers that are recognised.
        hints: graded, from a nudge to nearly the answer.
        kind: what it asks of the reader.
    """

    number: str
    title: str
    solution: Answer
    probe: Callable[[Answer], Any]
    checks: dict[str, Check]
    known_errors: tuple[KnownError, ...]
    hints: tuple[str, ...]
    kind: Kind | None = None


@dataclass(frozen=True)
class Report:
    """The outcome of grading: a line for each check, and why it is not solved, if that is known.

    Attributes:
        form: what is wrong with the form of the result; the lines then give no advice.
        diagnosis: what a known error that fits is told.
    """

    solved: bool
    lines: tuple[str, ...]
    form: str | None = None
    diagnosis: str | None = None


def grade(exercise: Exercise, answer: Answer) -> Report:
    """Run every check on ``answer``; on a failure look for a wrong form, else for a known error.

    Raises:
        NotImplementedError: if the answer is still the empty stub.
    """
    answer = in_form(answer, exercise.solution)
    given, form = _attempt(exercise.probe, answer)
    solved, lines = form is None, []
    for claim, check in exercise.checks.items():
        holds, trouble = _attempt(check.holds, answer)
        advice = "" if form else f": {trouble or check.advice}"
        lines.append(f"ok   {claim}" if holds else f"no   {claim}{advice}")
        solved = solved and bool(holds)
    diagnosis = None if solved or form else _diagnose(exercise, given)
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
    return importlib.import_module(f"{__package__}.lesson{lesson}").EXERCISES


def normals(seed: int) -> Callable[..., torch.Tensor]:
    """``torch.randn`` in float64 from a generator of its own: the fixed inputs of a lesson."""
    generator = torch.Generator().manual_seed(seed)
    return functools.partial(torch.randn, generator=generator, dtype=torch.float64)


def close(left: Any, right: Any, atol: float = 1e-9) -> bool:
    """Whether two results have one shape and agree to ``atol``; ``False`` for what is no number."""
    left, right = numbers(left), numbers(right)
    if left is None or right is None or left.shape != right.shape:
        return False
    return bool(torch.allclose(left, right, rtol=0, atol=atol))


def agrees(call: Callable[[Answer], Any], expected: Any, advice: str, atol: float = 1e-9) -> Check:
    """The check that ``call`` gives what is expected: a value, or what another call gives."""
    other = expected if callable(expected) else lambda answer: expected
    return Check(lambda answer: close(call(answer), other(answer), atol), advice)


def _diagnose(exercise: Exercise, given: Any) -> str | None:
    right = numbers(exercise.probe(exercise.solution))
    scale = float(right[right.isfinite()].abs().amax()) if right.isfinite().any() else 0.0
    atol = max(1e-9, 1e-6 * scale)  # an answer in float32 is recognised, too
    for error in exercise.known_errors:
        if close(given, exercise.probe(error.answer), atol):
            return error.diagnosis
    if close(given, right, atol) and not close(given, right):
        return "only the first digits are right. Part of it is float32: give torch.tensor a dtype."
    return None


def _attempt(call: Callable[[Answer], Any], answer: Answer) -> tuple[Any, str | None]:
    """What ``call`` gives, and what kept it from giving anything."""
    try:
        return call(answer), None
    except WrongForm as error:
        return None, str(error)
    except NotImplementedError:
        raise
    except Exception as error:
        return None, f"your result cannot be used ({type(error).__name__}: {error})"
