"""The lessons as their own metadata describe them: titles, minutes, panels, exercises."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bdl_lessons.core.files import NOTEBOOKS


@dataclass(frozen=True)
class Section:
    """A section of a lesson: its name, its minutes ``(low, high)`` and how it is best taught."""

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
        """From the quickest to the slowest reader, summed over the sections."""
        low, high = zip(*(section.minutes for section in self.sections), strict=True)
        return sum(low), sum(high)

    def cells(self, tag: str) -> list[Cell]:
        """The cells that carry ``tag``, e.g. ``"panel"`` or ``"exercise"``."""
        tagged = [cell for cell in self._cells if tag in cell["metadata"].get("tags", [])]
        return [Cell(cell["id"], self._source(cell)) for cell in tagged]

    def count(self, tag: str) -> int:
        """How many cells carry ``tag``."""
        return len(self.cells(tag))

    @cached_property
    def _cells(self) -> list[dict]:
        return json.loads(self.path.read_text(encoding="utf-8"))["cells"]

    @staticmethod
    def _source(cell: dict) -> str:
        return "".join(cell["source"])


def lessons(folder: Path = NOTEBOOKS) -> list[Lesson]:
    """Every lesson in ``folder``, in order."""
    return [Lesson(path) for path in sorted(folder.glob("[0-9][0-9]_*.ipynb"))]


def table(folder: Path = NOTEBOOKS, link: str = "") -> str:
    """The lessons as a Markdown table; ``link`` is put before each file name."""
    rows = ["| lesson | minutes | panels | exercises |", "|---|---|---|---|"]
    for lesson in lessons(folder):
        low, high = lesson.minutes
        rows.append(
            f"| {lesson.number} [{lesson.title}]({link}{lesson.path.name}) | {low}–{high} "
            f"| {lesson.count('panel')} | {lesson.count('exercise')} |"
        )
    return "\n".join(rows)
