"""Formula sheets: for each half of the course its main formulas, on two printed pages.

The record of a lesson says which of its numbered formulas stand there, and what each is. The
formula is that of the notebook, the sentence above it the one to take home.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bdl_lessons.core.files import NOTEBOOKS
from bdl_lessons.course.lesson_record import LessonRecord, lesson_records
from bdl_lessons.course.symbols import SYMBOLS, Symbol
from tools import notebook
from tools.web.page import PLACE_OF_PDF

_DISPLAYED = re.compile(r"\$\$(.*?)\$\$", re.S)
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{aligned\}")
_NEXT_ROW = re.compile(r"\\\\\s*\n")
_NUMBER = re.compile(r"\s*(?:&&|\\q?quad)\s*\((\d+[a-z]?)\)\s*(?:\\\\)?\s*$")
_SENTENCE = re.compile(r"^> (\*\*.+\*\*)$", re.M)
_WORD = re.compile(r"\\text\{.*?\}")
_MACRO_OR_LETTER = re.compile(r"\\[A-Za-z]+|[A-Za-z]")


@dataclass(frozen=True)
class Sheet:
    """A sheet: the name of its page, its title, and the numbers of its lessons."""

    name: str
    title: str
    lessons: tuple[str, ...]


SHEETS = (
    Sheet(
        name="formulas_theory",
        title="Formulas: what is inferred",
        lessons=("01", "02", "03", "04", "05", "09", "10"),
    ),
    Sheet(
        name="formulas_methods",
        title="Formulas: noise that is learned, and what it decides",
        lessons=("06", "07", "08", "11", "12", "13", "14", "15"),
    ),
)


def numbered(texts: Iterable[str]) -> dict[str, str]:
    r"""The numbered formulas in the texts of a lesson, without their numbers.

    A formula whose left side stands in a row above it has those rows too.

    >>> numbered([r"$$x = 1 \qquad (3)$$"])
    {'3': 'x = 1'}
    """
    formulas = {}
    for text in texts:
        for displayed in _DISPLAYED.findall(text):
            rows: list[str] = []
            for row in _NEXT_ROW.split(_ENVIRONMENT.sub("", displayed)):
                if not row.strip().startswith("&"):
                    rows = []
                number = _NUMBER.search(row)
                rows.append(_NUMBER.sub("", row).strip())
                if number:
                    formulas[number[1]] = "\\\\\n".join(rows)
    return formulas


def page(sheet: Sheet, link: str, folder: Path = NOTEBOOKS) -> str:
    """A sheet as Markdown; ``link`` is put before the file name of a lesson.

    Raises:
        ValueError: if a record names a formula that its notebook does not have.
    """
    on_paper = f'<p class="lesson-ways">Two pages when printed{PLACE_OF_PDF}</p>'
    parts = [f"# {sheet.title}", f"```{{raw}} html\n{on_paper}\n```"]
    shown = ""
    for record in lesson_records().values():
        if record.number not in sheet.lessons:
            continue
        texts = _texts(record, folder)
        heading = f"## [{record.number} {record.short_title}]({link}{record.stem}.ipynb)"
        parts += [heading, *_SENTENCE.findall("\n".join(texts))[:1]]
        formulas = numbered(texts)
        for formula in record.formulas:
            if formula.number not in formulas:
                raise ValueError(f"{record.stem} has no formula ({formula.number}): its record")
            rows = formulas[formula.number]
            shown += rows
            displayed = f"$$\n\\begin{{aligned}}\n{rows}\n\\end{{aligned}}\n$$"
            indented = displayed.replace("\n", "\n  ")
            parts.append(f"{formula.says} ({formula.number})\n: {indented}")
    introduced = _symbols_in(shown, sheet.lessons)
    symbols = " · ".join(f"${symbol.latex}$ {symbol.meaning}" for symbol in introduced)
    return "\n\n".join([*parts, "## Symbols", symbols, ""])


def _texts(record: LessonRecord, folder: Path) -> list[str]:
    cells = notebook.read(folder / f"{record.stem}.ipynb").cells
    return [cell.source for cell in cells if cell.cell_type == "markdown"]


def _symbols_in(formulas: str, lessons: Iterable[str]) -> list[Symbol]:
    """The symbols of these lessons that formulas have, without indices, each once."""
    letters = set(_MACRO_OR_LETTER.findall(_WORD.sub(" ", formulas)))
    symbols = {}
    for symbol in SYMBOLS:
        words = _WORD.findall(symbol.latex)
        has_letters = set(_MACRO_OR_LETTER.findall(_WORD.sub(" ", symbol.latex))) <= letters
        if symbol.lesson in lessons and has_letters and all(word in formulas for word in words):
            symbols.setdefault(symbol.latex, symbol)
    return [symbol for symbol in symbols.values() if not symbol.meaning.startswith("index of")]
