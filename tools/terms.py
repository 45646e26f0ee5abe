"""The terms and symbols of the course as a page: each in one sentence, with its lesson.

``docs/terms.toml`` has the terms; the symbols are those of ``bdl_lessons.course.symbols``.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bdl_lessons.core.files import ROOT
from bdl_lessons.course.lesson_record import lesson_records
from bdl_lessons.course.symbols import SYMBOLS
from reproductions import markdown

TERMS = ROOT / "docs" / "terms.toml"


@dataclass(frozen=True)
class Term:
    """A term of the field.

    Attributes:
        term: the term, with its abbreviation in brackets if it has one.
        lesson: the lesson that introduces it, by its name without the number.
        meaning: one sentence.
        words: how that lesson writes it, if otherwise.
    """

    term: str
    lesson: str
    meaning: str
    words: str = ""


@cache
def terms(path: Path = TERMS) -> list[Term]:
    """All terms, in the order of the alphabet.

    Raises:
        ValueError: if a term has a field that is unknown, or lacks one.
    """
    values = tomllib.loads(path.read_text(encoding="utf-8"))["terms"]
    try:
        all_terms = [Term(**value) for value in values]
    except TypeError as error:
        raise ValueError(f"{path}: {error}; other terms show the fields") from error
    return sorted(all_terms, key=lambda term: term.term.lower())


def page(link: str) -> str:
    """Terms and symbols as Markdown; ``link`` is put before the file name of a lesson."""
    records = lesson_records()
    stems = {record.number: record.stem for record in records.values()}
    lines = []
    for term in terms():
        record = records[term.lesson]
        place = f"[{record.number}]({link}{record.stem}.ipynb)"
        lines.append(f"- **{term.term}** ({place}). {term.meaning}")
    rows = []
    for symbol in SYMBOLS:
        code = f"`{symbol.code}`" if symbol.code else ""
        place = f"[{symbol.lesson}]({link}{stems[symbol.lesson]}.ipynb)"
        rows.append([f"${symbol.latex}$", code, symbol.meaning, place])
    return "\n\n".join(
        [
            f"{len(lines)} terms, each with the lesson that introduces it.",
            "\n".join(lines),
            "## Symbols",
            "Each has one meaning, in text, code and figures.",
            markdown.table(["symbol", "code", "meaning", "lesson"], rows),
        ]
    )
