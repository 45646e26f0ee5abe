"""Lessons as slides for reveal.js: panels move, without a network and without a kernel."""

from __future__ import annotations

import re
import shutil
from html import escape
from pathlib import Path
from urllib.parse import unquote

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from bdl_lessons.core.files import DATA, NOTEBOOKS, ROOT
from tools import address, metadata, notebook
from tools.notebook import tags_of
from tools.timing import on_stage, slide_type
from tools.web import pictures

_VENDOR = Path(__file__).with_name("vendor")


def write(lesson: Path, folder: Path) -> Path:
    """Write the slides of one lesson into ``folder``, and what they load into ``folder/web``.

    A slide starts at a cell of slide type ``slide`` or ``subslide``. Code of cells tagged
    ``hide-input`` and cells of type ``skip`` are left out; panels are live. The first slide shows
    the title, the opening question and the idea picture; a continuation repeats the heading of its
    section; notes are shown in the speaker's window alone (key S). Links to lessons lead to their
    slides.

    Returns:
        The page, ``folder/<name of the notebook>.html``.
    """
    from nbconvert import SlidesExporter

    exporter = SlidesExporter(
        template_name="deck",
        extra_template_basedirs=[str(_VENDOR)],
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    deck = notebook.read(lesson)
    pictures.describe(deck)
    _prepare(deck, lesson)
    panels = pictures.make_live(deck, "web/panels")
    pictures.write_files(panels, folder / "web" / "panels")
    html, _ = exporter.from_notebook_node(deck)
    shutil.copytree(_VENDOR, folder / "web", dirs_exist_ok=True)
    page = folder / f"{lesson.stem}.html"
    notebook.write(page, _with_links_of_slides(html))
    return page


def _with_links_of_slides(html: str) -> str:
    """Links to lessons lead to their slides; one to a section that is not shown is its words."""
    html = re.sub(r'(href="\d\d_\w+)\.ipynb', r"\1.html", html)
    ids = set(re.findall(r'\bid="([^"]*)"', html))

    def link_or_words(match: re.Match[str]) -> str:
        target, words = match.groups()
        arrives = target in ids or unquote(target) in ids
        return match[0] if arrives else words

    return re.sub(r'<a href="#([^"]*)">(.*?)</a>', link_or_words, html, flags=re.S)


def write_older(lessons: list[Path], folder: Path) -> None:
    """Write the slides that are older than their lesson or than what makes slides and notes."""
    sources: list[Path] = []
    sources += _VENDOR.parent.rglob("*.*")
    sources += (NOTEBOOKS / "notes").glob("*.md")
    sources += (ROOT / "bdl_lessons" / "panels").glob("*.py")
    sources += (DATA / "panels").glob("*.*")
    newest = max(path.stat().st_mtime for path in sources if path.suffix != ".pyc")
    for lesson in lessons:
        page = folder / f"{lesson.stem}.html"
        if not page.exists() or page.stat().st_mtime <= max(newest, lesson.stat().st_mtime):
            write(lesson, folder)


def _prepare(deck: NotebookNode, path: Path) -> None:
    """Give every slide its heading and its note, and the first one its design, in place."""
    notes = metadata.notes(path)
    section = ""
    cells = []
    for cell in deck.cells:
        heading = metadata.slide_heading([cell])
        if on_stage(cell) and cell.source.startswith("## "):
            section = heading
        elif slide_type(cell) == "subslide" and not heading and section:
            cells.append(_cell_beside(cell, f'<h2 class="again">{section}</h2>', kind="subslide"))
            cell.metadata["slideshow"]["slide_type"] = "-"
        cells.append(cell)
        if cell.id in notes:
            cells.append(_cell_beside(cell, notes[cell.id], kind="notes"))
    lesson = metadata.Lesson(path)
    deck.metadata["title"] = f"{lesson.number} · {lesson.title}"
    deck.metadata["form"] = not lesson.is_index
    if not lesson.is_index:
        cells[0].source = _title(lesson, deck)
    deck.cells = cells


def _title(lesson: metadata.Lesson, deck: NotebookNode) -> str:
    """The first slide: number, title, question, and the idea picture if the lesson has one."""
    links = address.markdown_links(address.address(), lesson.path.stem)
    place = links or f"In the folder of the course: `notebooks/{lesson.path.name}`"
    return (
        f'<div class="title"><p class="number">{lesson.number}</p>\n\n# {lesson.title}\n\n'
        f'<p class="question">{lesson.record.question}</p>\n'
        f'<div class="address">\n\n{place}\n\n</div>\n{_idea_picture(deck)}</div>'
    )


def _idea_picture(deck: NotebookNode) -> str:
    """The picture of the cell tagged ``idea``, with the text that ``describe`` gave it."""
    for cell in deck.cells:
        if "idea" not in tags_of(cell):
            continue
        alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
        for output in cell.outputs:
            png = output.get("data", {}).get("image/png")
            if png is not None:
                return f'<img alt="{escape(alt)}" src="data:image/png;base64,{png.strip()}">'
    return ""


def _cell_beside(cell: NotebookNode, text: str, kind: str) -> NotebookNode:
    """A cell of text of this slide type, named after the one that it stands beside."""
    return new_markdown_cell(
        text,
        id=f"{cell.id}-{kind}",
        metadata={"slideshow": {"slide_type": kind}},
    )
