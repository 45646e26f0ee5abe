"""What a lecturer says at each slide: ``notebooks/notes/05.md``, a heading for each slide.

A heading is the id of the cell that opens the slide, as in ``## 05-06``, and its note is what
stands below it: what to say, what to ask, the usual wrong answer. The speaker's window and lesson
90 show the notes; the page and JupyterLab do not.
"""

from __future__ import annotations

import re
from pathlib import Path

from nbformat import NotebookNode

from tools.timing import on_stage, opens_slide


def path_of(lesson: Path) -> Path:
    """The file with the notes of a lesson."""
    return lesson.parent / "notes" / f"{lesson.name[:2]}.md"


def of_lesson(lesson: Path) -> dict[str, str]:
    """The notes of a lesson by the id of the cell that opens the slide; none without a file.

    Raises:
        ValueError: if two notes belong to one slide.
    """
    path = path_of(lesson)
    if not path.exists():
        return {}
    parts = re.split(r"^## (\S+).*\n", path.read_text(encoding="utf-8"), flags=re.M)[1:]
    ids, texts = parts[::2], parts[1::2]
    if twice := {cell_id for cell_id in ids if ids.count(cell_id) > 1}:
        raise ValueError(f"{path} has two notes for {', '.join(sorted(twice))}")
    return {cell_id: text.strip() for cell_id, text in zip(ids, texts, strict=True)}


def slides(notebook: NotebookNode) -> list[list[NotebookNode]]:
    """The cells of each slide, in order."""
    found: list[list[NotebookNode]] = []
    for cell in notebook.cells:
        if opens_slide(cell):
            found.append([])
        if found and on_stage(cell):
            found[-1].append(cell)
    return found


def heading(cells: list[NotebookNode]) -> str:
    """The heading of a slide that has one of its own, else an empty text."""
    first = cells[0].source.splitlines()[0] if cells[0].source else ""
    return re.sub(r"^#+ ", "", first) if re.match(r"#{1,3} ", first) else ""
