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
from reproductions import markdown
from tools import address
from tools.notebook import read, tags_of
from tools.timing import RATES, on_stage, opens_slide, without_folds


@dataclass(frozen=True)
class Section:
    """A section of a lesson: its heading, its minutes ``(low, high)`` and its mode of teaching.

    ``roles`` says which it holds of the opening question, its answer, the idea picture, the main
    results, the panel, the sentence to take home and the recap; ``deeper`` whether it stands behind
    the recap; ``text`` is what it says on its slides, without folds, references and notes;
    ``alone`` are the minutes of the whole section for a person who reads it; ``slides`` are the
    numbers of its slides, none if the page alone has it.
    """

    name: str
    minutes: tuple[int, int]
    mode: str
    roles: frozenset[str] = frozenset()
    deeper: bool = False
    text: str = field(default="", compare=False)
    alone: int = field(default=0, compare=False)
    slides: tuple[int, ...] = field(default=(), compare=False)


class Cell(NamedTuple):
    """A cell of a notebook: its id, its text, and the section in which it stands."""

    id: str
    source: str
    section: str


@dataclass(frozen=True)
class Lesson:
    """One notebook, read from its file."""

    path: Path

    @property
    def number(self) -> str:
        return self.path.name[:2]

    @property
    def title(self) -> str:
        heading = self._cells[0].source.splitlines()[0]
        return heading.removeprefix("# ").split(" · ", 1)[-1]

    @property
    def needs(self) -> list[str]:
        """Numbers of the lessons that its first page asks for, without those called useful."""
        return [number for number, useful in self.asked_for if not useful]

    @property
    def asked_for(self) -> list[tuple[str, str]]:
        """The lessons in the row "Needs", each with the word "useful" if its part says so."""
        row = re.search(r"^\| \*\*Needs\*\* \|.*", self._cells[0].source, re.M)
        return re.findall(r"\((\d\d)_(?=[^;]*(useful)|)", row[0] if row else "")

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
    found: list[Section] = []
    n_slides = 0
    for cell in cells:
        n_slides += opens_slide(cell)
        if opened := cell.metadata.get("bdl"):
            named = _heading(cell), tuple(opened["minutes"]), opened["mode"]
            roles = frozenset(opened.get("role", ()))
            deeper = cell.source.startswith("## Going deeper")
            found.append(Section(*named, roles, deeper, alone=opened.get("alone", 0)))
        if found and opens_slide(cell):
            found[-1] = replace(found[-1], slides=(*found[-1].slides, n_slides))
        if found and "idea" in tags_of(cell):
            found[-1] = replace(found[-1], roles=found[-1].roles | {"idea"})
        if found and cell.cell_type == "markdown" and on_stage(cell):
            text = f"{found[-1].text}\n\n{without_folds(cell.source)}".strip()
            shown = {"recap": text.startswith("## Recap"), "sentence": "\n> **" in text}
            roles = found[-1].roles.union(role for role in shown if shown[role])
            found[-1] = replace(found[-1], text=text, roles=roles)
    return found


def _heading(cell: NotebookNode) -> str:
    return cell.source.splitlines()[0].removeprefix("## ")


def minutes(sections: Iterable[Section]) -> dict[str, tuple[int, int]]:
    """What is told of the length of a lesson, least and most.

    ``"lecture"`` is the stage up to the recap, work in pairs included, and ``"alone"`` the page up
    to it, both without the ``"exercises"``; ``"going deeper"`` is what stands behind the recap.
    """
    found = dict.fromkeys(("lecture", "alone", "exercises", "going deeper"), (0, 0))
    for one in sections:
        kind = "going deeper" if one.deeper else "exercises" if one.mode == "solo" else "lecture"
        added = {kind: one.minutes} | ({"alone": (one.alone,) * 2} if kind == "lecture" else {})
        for name, (low, high) in added.items():
            found[name] = found[name][0] + low, found[name][1] + high
    return found


def summary(sections: list[Section]) -> str:
    """How long a lesson takes, in one line."""
    times = minutes(sections)
    return " · ".join(f"{span(time)} min {name}" for name, time in times.items() if time[1])


def fill_title(notebook: NotebookNode, name: str = "") -> None:
    """Write into the first cell how long the lesson takes, and where the file ``name`` opens."""
    first = notebook.cells[0]
    rows = f"| **Minutes** | {summary(sections_of(notebook.cells))}<br><small>{RATES}</small> |"
    if opens := address.markdown_links(address.address(), name):
        rows += f"\n| **Elsewhere** | {opens} |"
    source = re.sub(r"\n\| \*\*Elsewhere\*\* \|.*$", "", first.source, flags=re.M)
    first.source = re.sub(r"^\| \*\*Minutes\*\* \|.*$", lambda _: rows, source, flags=re.M)


def lessons(folder: Path = NOTEBOOKS) -> list[Lesson]:
    """Every lesson in ``folder``, in order."""
    return [Lesson(path) for path in sorted(folder.glob("[0-9][0-9]_*.ipynb"))]


def lesson_table(folder: Path = NOTEBOOKS, link: str = "") -> str:
    """The lessons as a Markdown table; ``link`` is put before each file name."""
    rows = [
        [
            f"{lesson.number} [{lesson.title}]({link}{lesson.path.name})",
            ", ".join(f"({n})" if useful else n for n, useful in lesson.asked_for) or "–",
            *map(span, minutes(lesson.sections).values()),
        ]
        for lesson in lessons(folder)
        if lesson.number != "90"  # the index has no lecture
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
    found: list[list[NotebookNode]] = []
    for cell in notebook.cells:
        if opens_slide(cell):
            found.append([])
        if found and on_stage(cell):
            found[-1].append(cell)
    return found


def slide_heading(cells: list[NotebookNode]) -> str:
    """The heading of a slide that has one of its own, else an empty text."""
    first = cells[0].source.splitlines()[0] if cells[0].source else ""
    return re.sub(r"^#+ ", "", first) if re.match(r"#{1,3} ", first) else ""
