"""Exercises in a notebook: ``@exercise``, ``autocheck``, ``score``, ``hint``, ``show_solution``."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable
from numbers import Integral
from typing import Any

from IPython import get_ipython

from bdl_lessons.exercises.form import NotAttempted, is_stub
from bdl_lessons.exercises.grader import Answer, find, grade

_answers: dict[str, Answer] = {}


def exercise(number: str) -> Callable[[Answer], Answer]:
    """Hand in the decorated function as the answer to exercise ``number``.

    While the function still raises ``NotImplementedError``, calls to it fall back on the reference
    solution and say so once, so that the cells below keep working.

    Raises:
        ValueError: if there is no such exercise.

    >>> @exercise("00.1")
    ... def mask_variance(p_drop):
    ...     raise NotImplementedError
    >>> print(f"{mask_variance(0.5):.2f}")
    00.1 is not attempted yet: the reference solution stands in.
    0.25
    """
    reference = find(number).solution

    def hand_in(answer: Answer) -> Answer:
        _answers[number] = answer
        announced = False

        @functools.wraps(answer)
        def answer_or_reference(*args: Any, **kwargs: Any) -> Any:
            nonlocal announced
            try:
                return answer(*args, **kwargs)
            except NotImplementedError as error:
                if not is_stub(error, answer):
                    raise
                if not announced:
                    print(f"{number} is not attempted yet: the reference solution stands in.")
                announced = True
                return reference(*args, **kwargs)

        return answer_or_reference

    return hand_in


def autocheck(number: str) -> None:
    """Grade the answer handed in for ``number`` and print which checks it passes.

    The answer gets copies of its arguments, float64 by default, and 20 seconds for all its calls
    together (on Windows, or outside of the main thread, as long as it takes). Its memory is not
    limited: one that needs more than the machine has ends the kernel. Of what it prints, the first
    100 lines are shown.

    Raises:
        ValueError: if there is no such exercise, or nothing was handed in for it.

    >>> mask_variance = exercise("00.1")(lambda p_drop: p_drop * (1 - p_drop))
    >>> autocheck("00.1")
    ✓ ok   at p_drop = ½ the variance is ¼
    ✓ ok   a unit that is never dropped has no variance
    ✓ ok   at p_drop = 0.2 the variance is 0.16
    ✓ ok   keep and p_drop play the same part
    <BLANKLINE>
    ✓ 00.1 · the variance of a mask entry: solved.
    """
    _graded(number)


def score(number: str) -> int:
    """What :func:`autocheck` prints, and as a number how many of the checks the answer passes.

    A test cell of an assignment ends with it: nbgrader takes the number as points.

    Raises:
        ValueError: if there is no such exercise, or nothing was handed in for it.

    >>> mask_variance = exercise("00.1")(lambda p_drop: 0.25)
    >>> score("00.1")  # doctest: +ELLIPSIS
    ✓ ok   at p_drop = ½ the variance is ¼
    ✗ no   ...
    2
    """
    return _graded(number)


def _graded(number: str) -> int:
    """Print the report on an answer; how many checks it passes."""
    task = find(number)
    if number not in _answers:
        raise ValueError(
            f"nothing was handed in for {number}: run the cell with @exercise({number!r}) first"
        )
    try:
        report = grade(task, _answers[number])
    except NotAttempted:
        print(f'{number} · {task.title}: not attempted yet. hint("{number}") starts you off.')
        return 0
    for line in report.lines:
        mark = line[:2]
        print(_marked(mark, mark == "ok") + line[2:])
    if report.form:
        end = "" if report.form.endswith("?") else "."
        print(f"\nBefore anything else: {report.form}{end}")
    if report.diagnosis:
        print(f"\nLooks familiar: {report.diagnosis}")
    outcome = "solved." if report.solved else "not there yet."
    print("\n" + _marked(f"{number} · {task.title}: {outcome}", report.solved))
    return sum(line.startswith("ok") for line in report.lines)


def _marked(text: str, is_right: bool) -> str:
    """The text with a tick or a cross; in a notebook, where it is seen, in green or red."""
    marked = f"✓ {text}" if is_right else f"✗ {text}"
    if not get_ipython():
        return marked
    colour = 32 if is_right else 31
    return f"\033[{colour}m{marked}\033[0m"


def hint(number: str, level: int = 1) -> None:
    """Print a hint; a higher ``level``, a whole number, gives more away.

    Raises:
        ValueError: if there is no such exercise or no such level.

    >>> hint("00.1")
    Hint 1 of 3: Var[z] = E[z²] − E[z]².
    """
    hints = find(number).hints
    if not isinstance(level, Integral) or not 1 <= level <= len(hints):
        raise ValueError(f"hint level must be 1 to {len(hints)} for {number}, got {level!r}")
    print(f"Hint {level} of {len(hints)}: {hints[level - 1]}")


def show_solution(number: str) -> None:
    """Print the reference solution, to be pasted in place of the stub's function.

    It needs no more than what the first cell of its lesson imports.

    Raises:
        ValueError: if there is no such exercise.

    >>> show_solution("00.1")  # doctest: +ELLIPSIS
    def mask_variance(p_drop):
        ...
        return keep * p_drop
    <BLANKLINE>
    """
    print(_without_annotations(inspect.getsource(find(number).solution)))


def _without_annotations(source: str) -> str:
    """The functions of ``source`` with plain arguments: a notebook does not import the types."""
    lines = source.splitlines(keepends=True)
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    for function in sorted(functions, key=lambda function: function.lineno, reverse=True):
        for node in ast.walk(function.args):
            if isinstance(node, ast.arg):
                node.annotation = None
        indent = " " * function.col_offset
        signature = f"{indent}def {function.name}({ast.unparse(function.args)}):\n"
        lines[function.lineno - 1 : function.body[0].lineno - 1] = [signature]
    return "".join(lines)
