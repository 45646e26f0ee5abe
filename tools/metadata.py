"""Metadata of the lessons: titles, sections with their minutes, panels, exercises, notes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from bdl_lessons.core.files import NOTEBOOKS
from bdl_lessons.course.lesson_record import LessonRecord, lesson_records, read_record
from reproductions import markdown
from tools.notebook import read, tags_of
from tools.timing import RATES, on_stage, opens_slide, without_folds


@dataclass(frozen=True)
class Section:
    """A section of a lesson: its heading, its minutes ``(low, high)`` and its mode of teaching.

    ``roles`` says which it holds of the opening question, its answer, the idea picture, the main
    results, the panel, the sentence to take home and the recap; ``part`` is ``"exercises"``, or
    ``"deeper"`` behind the recap; ``text`` is what it says on its slides, without folds and notes;
    ``alone`` are the minutes of the whole section for a person who reads it; ``slides`` are the
    numbers of its slides, none if the page alone has it.
    """

    name: str
    minutes: tuple[int, int]
    mode: str
    roles: frozenset[str] = frozenset()
    part: str = ""
    text: str = field(default="", compare=False)
    alone: int = field(default=0, compare=False)
    slides: tuple[int, ...] = field(default=(), compare=False)

    @property
    def deeper(self) -> bool:
        """Whether it stands behind the recap."""
        return self.part == "deeper"


class Cell(NamedTuple):
    """A cell of a notebook: its id, its text, and the section in which it stands."""

    id: str
    source: str
    section: str


@dataclass(frozen=True)
class Lesson:
    """One notebook and its record, read from their files.

    The index of instructors, 90, has no record.
    """

    path: Path

    @property
    def number(self) -> str:
        return self.path.name[:2]

    @property
    def is_index(self) -> bool:
        """Whether it is the instructor's index, which teaches nothing and has no record."""
        return self.number == "90"

    @cached_property
    def record(self) -> LessonRecord:
        """What stands in its file in the folder ``lessons`` beside the notebook.

        Raises:
            ValueError: if there is no such file, or it is no record.
        """
        path = self.path.parent / "lessons" / f"{self.path.stem}.toml"
        if not path.exists():
            raise ValueError(f"{self.path.name} needs its record {path}")
        return read_record(path)

    @property
    def title(self) -> str:
        return "Instructor index" if self.is_index else self.record.title

    @property
    def needs(self) -> list[str]:
        """Numbers of the lessons that it requires."""
        return [number for number, required in self.asked_for if required]

    @property
    def asked_for(self) -> list[tuple[str, bool]]:
        """The lessons that it builds on: their numbers, and whether they are required."""
        if self.is_index:
            return []
        records = lesson_records()
        return [(records[need.lesson].number, need.required) for need in self.record.needs]

    @property
    def minutes(self) -> dict[str, tuple[int, int]]:
        """What is told of its length, least and most, as ``minutes`` says."""
        return minutes(self.sections)

    @property
    def sections(self) -> list[Section]:
        return sections_of(self._cells)

    def cells(self, tag: str) -> list[Cell]:
        """The cells that carry ``tag``, e.g. ``"panel"`` or ``"exercise"``."""
        section = ""
        tagged = []
        for cell in self._cells:
            section = _heading(cell) if "bdl" in cell.metadata else section
            if tag in tags_of(cell):
                tagged.append(Cell(cell.id, cell.source, section))
        return tagged

    @cached_property
    def _cells(self) -> list[NotebookNode]:
        return read(self.path).cells


def sections_of(cells: Iterable[NotebookNode]) -> list[Section]:
    """The sections that the cells of a notebook open."""
    opened_sections: list[Section] = []
    n_slides = 0
    for cell in cells:
        n_slides += opens_slide(cell)
        if opened := cell.metadata.get("bdl"):
            section = Section(
                name=_heading(cell),
                minutes=tuple(opened["minutes"]),
                mode=opened["mode"],
                roles=frozenset(opened.get("role", ())),
                part=opened.get("part", ""),
                alone=opened.get("alone", 0),
            )
            opened_sections.append(section)
        if not opened_sections:
            continue
        last = opened_sections[-1]
        if opens_slide(cell):
            last = replace(last, slides=(*last.slides, n_slides))
        if "idea" in tags_of(cell):
            last = replace(last, roles=last.roles | {"idea"})
        if cell.cell_type == "markdown" and on_stage(cell):
            last = replace(last, text=f"{last.text}\n\n{without_folds(cell.source)}".strip())
        opened_sections[-1] = last
    return opened_sections


def _heading(cell: NotebookNode) -> str:
    return cell.source.splitlines()[0].removeprefix("## ")


def minutes(sections: Iterable[Section]) -> dict[str, tuple[int, int]]:
    """What is told of the length of a lesson, least and most.

    ``"lecture"`` is the stage up to the recap, work in pairs included, and ``"alone"`` the page up
    to it, both without the ``"exercises"``; ``"going deeper"`` is what stands behind the recap.
    """
    totals = dict.fromkeys(("lecture", "alone", "exercises", "going deeper"), (0, 0))

    def add(kind: str, low: int, high: int) -> None:
        totals[kind] = (totals[kind][0] + low, totals[kind][1] + high)

    for section in sections:
        if section.deeper:
            add("going deeper", *section.minutes)
        elif section.mode == "solo":
            add("exercises", *section.minutes)
        else:
            add("lecture", *section.minutes)
            add("alone", section.alone, section.alone)
    return totals


def summary(sections: list[Section]) -> str:
    """How long a lesson takes, in one line."""
    times = minutes(sections)
    return " · ".join(f"{span(time)} min {name}" for name, time in times.items() if time[1])


def lessons(folder: Path = NOTEBOOKS) -> list[Lesson]:
    """Every lesson in ``folder``, in order."""
    return [Lesson(path) for path in sorted(folder.glob("[0-9][0-9]_*.ipynb"))]


def lesson_table(folder: Path = NOTEBOOKS, link: str = "") -> str:
    """The lessons as a Markdown table; ``link`` is put before each file name."""
    rows = [
        [
            f"{lesson.number} [{lesson.title}]({link}{lesson.path.name})",
            ", ".join(n if required else f"({n})" for n, required in lesson.asked_for) or "–",
            *map(span, lesson.minutes.values()),
        ]
        for lesson in lessons(folder)
        if not lesson.is_index
    ]
    table = markdown.table(["lesson", "needs", *(f"{name}, min" for name in minutes([]))], rows)
    return f"{table}\n\nA lesson in brackets is useful, not required. Minutes are {RATES}."


def span(minutes: tuple[int, int]) -> str:
    """Minutes as text: ``"5–8"``, ``"5"`` if both are equal, ``"–"`` for none."""
    low, high = minutes
    return str(low or "–") if low == high else f"{low}–{high}"


def notes(lesson: Path) -> dict[str, str]:
    """What a lecturer says at each slide, from ``notes/05.md`` beside the lesson; none without it.

    A heading there is the id of the cell that opens the slide, as in ``## 05-06``, and its note is
    what stands below it: what to say, what to ask, the usual wrong answer.
    """
    path = lesson.parent / "notes" / f"{lesson.name[:2]}.md"
    if not path.exists():
        return {}
    parts = re.split(r"^## (\S+).*\n", path.read_text(encoding="utf-8"), flags=re.M)[1:]
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


def slides(notebook: NotebookNode) -> list[list[NotebookNode]]:
    """The cells of each slide, in order."""
    shown: list[list[NotebookNode]] = []
    for cell in notebook.cells:
        if opens_slide(cell):
            shown.append([])
        if shown and on_stage(cell):
            shown[-1].append(cell)
    return shown


def slide_heading(cells: list[NotebookNode]) -> str:
    """The heading of a slide that has one of its own, else an empty text."""
    first = cells[0].source.splitlines()[0] if cells[0].source else ""
    return re.sub(r"^#+ ", "", first) if re.match(r"#{1,3} ", first) else ""
