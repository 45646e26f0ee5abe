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
    slides. Returns the page, ``folder/<name of the notebook>.html``.
    """
    from nbconvert import SlidesExporter

    no_prompts = {"exclude_input_prompt": True, "exclude_output_prompt": True}
    template = {"template_name": "deck", "extra_template_basedirs": [str(_VENDOR)]}
    exporter = SlidesExporter(**template, **no_prompts)
    made = notebook.read(lesson)
    pictures.describe(made)
    _prepare(made, lesson)
    pictures.write_files(pictures.make_live(made, "web/panels"), folder / "web" / "panels")
    html, _ = exporter.from_notebook_node(made)
    shutil.copytree(_VENDOR, folder / "web", dirs_exist_ok=True)
    html = re.sub(r'(href="\d\d_\w+)\.ipynb', r"\1.html", html)
    ids = {*re.findall(r'\bid="([^"]*)"', html)}  # a section that is not on the stage has none
    here = re.compile(r'<a href="#([^"]*)">(.*?)</a>', re.S)
    page = folder / f"{lesson.stem}.html"
    notebook.write(page, here.sub(lambda a: a[0] if {a[1], unquote(a[1])} & ids else a[2], html))
    return page


def write_older(lessons: list[Path], folder: Path) -> None:
    """Write the slides that are older than their lesson or than what makes slides and notes."""
    sources = [*_VENDOR.parent.rglob("*.*"), *(NOTEBOOKS / "notes").glob("*.md")]
    sources += (ROOT / "bdl_lessons" / "panels").glob("*.py")
    sources += (DATA / "panels").glob("*.*")
    newest = max(path.stat().st_mtime for path in sources if path.suffix != ".pyc")
    for lesson in lessons:
        page = folder / f"{lesson.stem}.html"
        if not page.exists() or page.stat().st_mtime <= max(newest, lesson.stat().st_mtime):
            write(lesson, folder)


def _prepare(made: NotebookNode, lesson: Path) -> None:
    """Give every slide its heading and its note, and the first one its design, in place."""
    spoken = metadata.notes(lesson)
    section = ""
    cells = []
    for cell in made.cells:
        if on_stage(cell) and cell.source.startswith("## "):
            section = metadata.slide_heading([cell])
        elif slide_type(cell) == "subslide" and not metadata.slide_heading([cell]) and section:
            cells.append(_cell(cell, f'<h2 class="again">{section}</h2>', "subslide"))
            cell.metadata["slideshow"]["slide_type"] = "-"
        cells.append(cell)
        if cell.id in spoken:
            cells.append(_cell(cell, spoken[cell.id], "notes"))
    title = metadata.Lesson(lesson)
    made.metadata |= {"title": f"{title.number} · {title.title}", "form": not title.is_index}
    if not title.is_index:
        cells[0].source = _title(title, made)
    made.cells = cells


def _title(lesson: metadata.Lesson, made: NotebookNode) -> str:
    """The first slide: number, title, question, and the idea picture if the lesson has one."""
    shown = [
        f'<img alt="{escape(cell.metadata.get("mystnb", {}).get("image", {}).get("alt", ""))}" '
        f'src="data:image/png;base64,{output.data["image/png"].strip()}">'
        for cell in made.cells
        if "idea" in tags_of(cell)
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    links = address.markdown_links(address.address(), lesson.path.stem)
    where = links or f"In the folder of the course: `notebooks/{lesson.path.name}`"
    return (
        f'<div class="title"><p class="number">{lesson.number}</p>\n\n# {lesson.title}\n\n'
        f'<p class="question">{lesson.record.question}</p>\n'
        f'<div class="address">\n\n{where}\n\n</div>\n{"".join(shown[:1])}</div>'
    )


def _cell(beside: NotebookNode, text: str, kind: str) -> NotebookNode:
    metadata = {"slideshow": {"slide_type": kind}}
    return new_markdown_cell(text, id=f"{beside.id}-{kind}", metadata=metadata)
