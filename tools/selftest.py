"""The self-test of a lesson: five questions with a reason for every option, read from its cell.

The cell is tagged ``self-test`` and is written as a reader meets it. A question begins with its
number in bold; each option is a fold, whose text begins with "Right:" or "Not so:".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from tools.notebook import tags_of

N_QUESTIONS = 5
_QUESTION = re.compile(r"^\*\*(\d)\.\*\* ", re.M)
_OPTION = re.compile(
    r"<details><summary>([A-D])\. (.+?)</summary>\n\n(Right|Not so): (.+?)\n\n</details>", re.S
)


class Option(NamedTuple):
    """An answer to choose, and what is said about it."""

    letter: str
    text: str
    right: bool
    reason: str


class Question(NamedTuple):
    """A question, and the options in the order shown."""

    number: int
    text: str
    options: list[Option]

    @property
    def answer(self) -> Option:
        """The right option."""
        return next(option for option in self.options if option.right)


def questions(lesson: NotebookNode) -> list[Question]:
    """The questions of the lesson's self-test; none if it has no such cell."""
    cell = next((cell for cell in lesson.cells if "self-test" in tags_of(cell)), None)
    _, *parts = _QUESTION.split(cell.source if cell else "")
    found = []
    for number, part in zip(parts[::2], parts[1::2], strict=True):
        options = [Option(a, b, c == "Right", d) for a, b, c, d in _OPTION.findall(part)]
        found.append(Question(int(number), part.partition("<details>")[0].strip(), options))
    return found


def problems(lesson: NotebookNode, path: Path) -> Iterator[str]:
    """Guard: five questions, one right option each, and a wrong one says what mends it."""
    asked = questions(lesson)
    if len(asked) != N_QUESTIONS:
        yield f"self-test: {len(asked)} questions, {N_QUESTIONS} are wanted"
    for number, _, options in asked:
        if "".join(option.letter for option in options) not in {"ABC", "ABCD"}:
            yield f"self-test, question {number}: options are A, B, C and perhaps D, in the form"
        if sum(option.right for option in options) != 1:
            yield f"self-test, question {number}: one option is right"
            return
        for option in options:
            if not option.right and "](#" not in option.reason:
                yield f"self-test, question {number}, {option.letter}: no link to what mends it"
    if asked and len({question.answer.letter for question in asked}) == 1:
        yield "self-test: the right option stands in the same place everywhere"


def unanswered(question: Question) -> str:
    """The question as Markdown, without what is said about its options."""
    options = "\n".join(f"- {option.letter}. {option.text}" for option in question.options)
    return f"**{question.number}.** {question.text}\n\n{options}"
