"""The self-test of a lesson: five questions with a reason for every option, read from its cell.

The cell is tagged ``self-test`` and is written as a reader meets it. A question begins with its
number in bold; each option is a fold, whose text begins with "Right:" or "Not so:".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from nbformat import NotebookNode

from tools.notebook import tags_of

N_QUESTIONS = 5
_QUESTION = re.compile(r"^\*\*(\d)\.\*\* ", re.M)
_OPTION = re.compile(
    r"<details><summary>([A-D])\. (.+?)</summary>\n\n(Right|Not so): (.+?)\n\n</details>", re.S
)
_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ max-width: 42em; margin: 2em auto; font: 12pt/1.5 sans-serif }}
ul > li {{ list-style: "☐  "; break-inside: avoid }}
table {{ border-collapse: collapse }} td, th {{ border: 1px solid; padding: 0 0.5em }}
h2 {{ break-before: page }}
</style></head><body>
{body}
</body></html>
"""


class Option(NamedTuple):
    """An answer to choose, and what is said about it."""

    letter: str
    text: str
    right: bool
    reason: str


class Question(NamedTuple):
    """A question, and the options in the order shown."""

    text: str
    options: list[Option]

    @property
    def answer(self) -> Option:
        """The right option."""
        return next(option for option in self.options if option.right)


def questions(lesson: NotebookNode) -> list[Question]:
    """The questions of the lesson's self-test; none if it has no such cell."""
    cell = next((cell for cell in lesson.cells if "self-test" in tags_of(cell)), None)
    parts = _QUESTION.split(cell.source)[2::2] if cell else []
    return [
        Question(
            part.partition("<details>")[0].strip(),
            [Option(a, b, c == "Right", d) for a, b, c, d in _OPTION.findall(part)],
        )
        for part in parts
    ]


def problems(lesson: NotebookNode, path: Path) -> Iterator[str]:
    """Guard: five questions, one right option each, and a wrong one says what mends it."""
    asked = questions(lesson)
    if len(asked) != N_QUESTIONS:
        yield f"self-test: {len(asked)} questions, {N_QUESTIONS} are wanted"
    for number, (_, options) in enumerate(asked, start=1):
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


def sheet(lesson: NotebookNode) -> str:
    """The self-test to print: questions and options, and the answers on a page of their own."""
    title = lesson.cells[0].source.splitlines()[0].removeprefix("# ")
    asked = questions(lesson)
    answers = [
        f"{number}. {question.answer.letter}: {_plain(question.answer.reason)}"
        for number, question in enumerate(asked, 1)
    ]
    text = [f"# {title}", "Name:", *map(unanswered, asked, range(1, len(asked) + 1))]
    body = "\n\n".join([*text, "## Answers", "\n".join(answers)])
    body = re.sub(r"\$\$(.+?)\$\$|\$(.+?)\$", _formula, body, flags=re.S)
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(body)
    return _PAGE.format(title=escape(title), body=html)


def unanswered(question: Question, number: int) -> str:
    """The question as Markdown, without what is said about its options."""
    options = "\n".join(f"- {option.letter}. {option.text}" for option in question.options)
    return f"**{number}.** {question.text}\n\n{options}"


def _plain(text: str) -> str:
    return re.sub(r"\[([^\]]+)\]\(#[^)]*\)", r"\1", text)


def _formula(found: re.Match[str]) -> str:
    return convert(found[1] or found[2], display="block" if found[1] else "inline")
