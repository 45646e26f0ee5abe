"""A lesson as data: what its title cell, the map, plans, slides and assignments are rendered from.

Each lesson ``notebooks/05_monte_carlo_dropout.ipynb`` has a record, the file of the same name in
``notebooks/lessons`` that ends with ``.toml``. Records name each other without their numbers.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from bdl_lessons.core.files import IS_INSTALLED, NOTEBOOKS, ROOT

RECORDS = ROOT / "bdl_lessons" / "lessons" if IS_INSTALLED else NOTEBOOKS / "lessons"
LETTERS = "ABCD"


@dataclass(frozen=True)
class Need:
    """A lesson that another one builds on.

    Attributes:
        lesson: its name without the number, e.g. ``"dropout_is_an_ensemble"``.
        takes: what is taken from it, in a few words; may be empty.
        required: False if it is useful, but not required.
    """

    lesson: str
    takes: str = ""
    required: bool = True


@dataclass(frozen=True)
class Option:
    """An answer to choose, and what is said about it."""

    text: str
    reason: str
    right: bool = False


@dataclass(frozen=True)
class Question:
    """A question of the self-test, and its options in the order shown."""

    text: str
    options: tuple[Option, ...]

    @property
    def key(self) -> str:
        """The letter of the right option.

        Raises:
            ValueError: unless exactly one option is right.
        """
        lettered = zip(LETTERS, self.options, strict=False)
        right = [letter for letter, option in lettered if option.right]
        if len(right) != 1:
            raise ValueError(
                f"{len(right)} options are marked `right = true`, mark one: {self.text!r}"
            )
        return right[0]


@dataclass(frozen=True)
class OpenQuestion:
    """The last task of a lesson, which no check can mark.

    Attributes:
        text: the task.
        model_answer: what a good answer has.
        detail: what stands behind "an open question" in its heading; may be empty.
    """

    text: str
    model_answer: str
    detail: str = ""


@dataclass(frozen=True)
class Reference:
    """A paper on which a lesson builds.

    Attributes:
        cite: its key in the bibliography of the course, e.g. ``"gal-2016"``.
        takes: what is taken from it, without a full stop at the end; may be empty.
    """

    cite: str
    takes: str = ""


@dataclass(frozen=True)
class Formula:
    """A formula of the lesson that stands on the formula sheet.

    Attributes:
        number: its number in the lesson, e.g. ``"10"``.
        says: what it is, in a few words.
    """

    number: str
    says: str


@dataclass(frozen=True)
class MapBox:
    """The box of a lesson on the map of the course.

    Attributes:
        row: the key of its row in ``lesson_map.THEMES``.
        question: what the lesson asks, in two short lines.
        arrows_from: names of the lessons, without their numbers, from which an arrow leads here.
    """

    row: str
    question: str
    arrows_from: tuple[str, ...] = ()


@dataclass(frozen=True)
class LessonRecord:
    """All that a lesson says about itself.

    Attributes:
        stem: the name of its files, e.g. ``"05_monte_carlo_dropout"``.
        title: the claim in its title.
        short_title: its name on the map and in the title cells of other lessons.
        question: the opening question, without marks.
        objectives: what a reader will be able to do.
        needs: the lessons that it builds on.
        background: what it needs besides lessons; may be empty.
        runs_in: how long it runs; may be empty.
        exercise_minutes: the minutes of each exercise; empty where none are stated.
        map: its box on the map; None for a lesson that is not on it.
        formulas: those of its numbered formulas that stand on the formula sheet.
        references: the papers that it builds on, in the order of their list.
        after_references: a paragraph below that list; may be empty.
        open_question: its last task; None if it has none.
        self_test: its questions.
    """

    stem: str
    title: str
    short_title: str
    question: str
    objectives: tuple[str, ...]
    needs: tuple[Need, ...] = ()
    background: str = ""
    runs_in: str = ""
    exercise_minutes: tuple[int, ...] = ()
    map: MapBox | None = None
    formulas: tuple[Formula, ...] = ()
    references: tuple[Reference, ...] = ()
    after_references: str = ""
    open_question: OpenQuestion | None = None
    self_test: tuple[Question, ...] = field(default=())

    @property
    def number(self) -> str:
        """Two digits: they stand in the names of the two files and nowhere else."""
        return self.stem[:2]

    @property
    def name(self) -> str:
        """The name of its files without the number: it stays if lessons are counted again."""
        return self.stem[3:]


def read_record(path: Path) -> LessonRecord:
    """The record in a TOML file.

    Raises:
        ValueError: if the file is no TOML, or has a field that is unknown or lacks one; it names
            the file.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        return _record(path.stem, values)
    except (TypeError, KeyError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: {error}; the other lessons' files show the fields") from error


@cache
def lesson_records(folder: Path = RECORDS) -> dict[str, LessonRecord]:
    """The records of all lessons by their names without numbers, in the order of the numbers.

    >>> lesson_records()["monte_carlo_dropout"].short_title
    'Monte Carlo dropout'
    """
    records = [read_record(path) for path in sorted(folder.glob("[0-9][0-9]_*.toml"))]
    return {record.name: record for record in records}


def _record(stem: str, values: dict[str, Any]) -> LessonRecord:
    values = dict(values)
    box = values.pop("map", None)
    open_question = values.pop("open_question", None)
    return LessonRecord(
        stem=stem,
        objectives=tuple(values.pop("objectives")),
        needs=tuple(Need(**need) for need in values.pop("needs", [])),
        exercise_minutes=tuple(values.pop("exercise_minutes", [])),
        map=_box(**box) if box else None,
        formulas=tuple(Formula(**formula) for formula in values.pop("formulas", [])),
        references=tuple(Reference(**reference) for reference in values.pop("references", [])),
        open_question=OpenQuestion(**open_question) if open_question else None,
        self_test=tuple(_question(**question) for question in values.pop("self_test", [])),
        **values,
    )


def _box(row: str, question: str, arrows_from: list[str] = ()) -> MapBox:
    return MapBox(row=row, question=question, arrows_from=tuple(arrows_from))


def _question(text: str, options: list[dict[str, Any]]) -> Question:
    return Question(text=text, options=tuple(Option(**option) for option in options))
