"""Metadata of the lessons: titles, sections with their minutes, panels, exercises."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bdl_lessons.core.files import NOTEBOOKS
from bdl_lessons.experiments import markdown

SECOND_EDITION = ("00", "01", "02", "03")  # lessons that the rules of the second edition bind


@dataclass(frozen=True)
class Section:
    """A section of a lesson: its name, its minutes ``(low, high)`` and its mode of teaching."""

    name: str
    minutes: tuple[int, int]
    mode: str


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook: its id and its text."""

    id: str
    source: str


@dataclass(frozen=True)
class Lesson:
    """One notebook, read from its file."""

    path: Path

    @property
    def number(self) -> str:
        return self.path.name[:2]

    @property
    def title(self) -> str:
        heading = self._source(self._cells[0]).splitlines()[0]
        return heading.removeprefix("# ").split(" · ", 1)[-1]

    @property
    def sections(self) -> list[Section]:
        found = [cell["metadata"]["bdl"] for cell in self._cells if "bdl" in cell["metadata"]]
        return [Section(s["section"], tuple(s["minutes"]), s["mode"]) for s in found]

    @property
    def minutes(self) -> tuple[int, int]:
        """Minutes for the quickest and for the slowest reader, summed over the sections."""
        low, high = zip(*(section.minutes for section in self.sections), strict=True)
        return sum(low), sum(high)

    def cells(self, tag: str) -> list[Cell]:
        """The cells that carry ``tag``, e.g. ``"panel"`` or ``"exercise"``."""
        tagged = [cell for cell in self._cells if tag in cell["metadata"].get("tags", [])]
        return [Cell(cell["id"], self._source(cell)) for cell in tagged]

    @cached_property
    def _cells(self) -> list[dict]:
        return json.loads(self.path.read_text(encoding="utf-8"))["cells"]

    @staticmethod
    def _source(cell: dict) -> str:
        return "".join(cell["source"])


def lessons(folder: Path = NOTEBOOKS) -> list[Lesson]:
    """Every lesson in ``folder``, in order."""
    return [Lesson(path) for path in sorted(folder.glob("[0-9][0-9]_*.ipynb"))]


def lesson_table(folder: Path = NOTEBOOKS, link: str = "") -> str:
    """The lessons as a Markdown table; ``link`` is put before each file name."""
    rows = [
        [
            f"{lesson.number} [{lesson.title}]({link}{lesson.path.name})",
            "{}–{}".format(*lesson.minutes),
            str(len(lesson.cells("panel"))),
            str(len(lesson.cells("exercise"))),
        ]
        for lesson in lessons(folder)
    ]
    return markdown.table(["lesson", "minutes", "panels", "exercises"], rows)
