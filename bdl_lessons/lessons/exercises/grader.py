"""What an exercise is, and how an answer is graded.

An exercise holds its reference solution, three to five checks that every right answer passes, and
the known errors: wrong answers that readers give. An answer that fails a check is compared with the
known errors on one fixed call; if it agrees with one, the reader is told which error that is. The
reference solution is never printed by a check.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Answer = Callable[..., Any]


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
        solution: the reference answer, a function a reader can learn from.
        probe: calls an answer on fixed inputs and returns its result, to tell answers apart.
        checks: three to five, each of which every right answer passes, by the claim that they test;
            the claim is printed whether or not it holds.
        known_errors: the wrong answers that are recognised.
        hints: graded, from a nudge to nearly the answer.
    """

    number: str
    title: str
    solution: Answer
    probe: Callable[[Answer], Any]
    checks: dict[str, Check]
    known_errors: tuple[KnownError, ...]
    hints: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """The outcome of grading: a line for each check, and a diagnosis if a known error fits."""

    solved: bool
    lines: tuple[str, ...]
    diagnosis: str | None = None


def grade(exercise: Exercise, answer: Answer) -> Report:
    """Run every check on ``answer``; on a failure look for a known error.

    Raises:
        NotImplementedError: if the answer is still the empty stub.
    """
    lines, solved = [], True
    for claim, check in exercise.checks.items():
        trouble = _trouble(check, answer)
        solved = solved and trouble is None
        lines.append(f"ok   {claim}" if trouble is None else f"no   {claim}: {trouble}")
    diagnosis = None if solved else _diagnose(exercise, answer)
    return Report(solved, tuple(lines), diagnosis)


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
    try:
        left, right = (torch.as_tensor(side, dtype=torch.float64) for side in (left, right))
    except (TypeError, ValueError, RuntimeError):
        return False
    return left.shape == right.shape and bool(torch.allclose(left, right, rtol=0, atol=atol))


def agrees(call: Callable[[Answer], Any], expected: Any, advice: str, atol: float = 1e-9) -> Check:
    """The check that ``call`` gives what is expected: a value, or what another call gives."""
    other = expected if callable(expected) else lambda answer: expected
    return Check(lambda answer: close(call(answer), other(answer), atol), advice)


def _trouble(check: Check, answer: Answer) -> str | None:
    try:
        return None if check.holds(answer) else check.advice
    except NotImplementedError:
        raise
    except Exception as error:
        return f"your function raised {type(error).__name__}: {error}"


def _diagnose(exercise: Exercise, answer: Answer) -> str | None:
    try:
        given = exercise.probe(answer)
    except Exception:
        return None
    for error in exercise.known_errors:
        if close(given, exercise.probe(error.answer)):
            return error.diagnosis
    return None
