"""Text of the lessons that follows from the lessons themselves: plans, tables.

A markdown cell with the tag ``generated-NAME`` holds what the function called NAME returns.
``rebuild`` writes it, and a test compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nbformat import NotebookNode

from tools import instructor, metadata
from tools.notebook import tags_of

TEXTS: dict[str, Callable[[], str]] = {
    "lesson-table": metadata.lesson_table,
    "lesson-plans": instructor.lesson_plans,
    "panels": instructor.panels,
    "exercises": instructor.exercises,
    "known-errors": instructor.known_errors,
    "notes": instructor.notes,
}
_PREFIX = "generated-"
TAGS = {f"{_PREFIX}{name}" for name in TEXTS}


def fill(notebook: NotebookNode) -> None:
    """Write the text of every generated cell of the notebook."""
    for cell, name in _cells(notebook):
        cell.source = TEXTS[name]()


def stale(notebook: NotebookNode) -> list[str]:
    """The names of generated cells that do not hold what their function returns."""
    return [name for cell, name in _cells(notebook) if cell.source != TEXTS[name]()]


def _cells(notebook: NotebookNode) -> Iterator[tuple[NotebookNode, str]]:
    for cell in notebook.cells:
        for tag in tags_of(cell) & TAGS:
            yield cell, tag.removeprefix(_PREFIX)
