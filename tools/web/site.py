"""The course as pages: every lesson with its stored outputs and live panels, built by Sphinx."""

from __future__ import annotations

import importlib
import pkgutil
import re
import shutil
from html import escape
from importlib.util import find_spec
from pathlib import Path

import bdl_lessons
from bdl_lessons import playground
from bdl_lessons.core.files import DATA, ROOT
from bdl_lessons.course import route_table
from bdl_lessons.course.lesson_map import map_rows
from bdl_lessons.course.lesson_record import LessonRecord, lesson_records
from reproductions import report
from tools import address, formulas, metadata, notebook, references, slides, terms
from tools.web import page, pictures, store

_STATIC = Path(__file__).with_name("static")
_VENDOR = Path(__file__).parents[1] / "vendor"
_PANEL = "many-networks"  # on the front page


def build(folder: Path, numbers: list[str] | None = None, source: Path | None = None) -> Path:
    """Write the site; what has not changed since the last time is not built again.

    Args:
        folder: where to.
        numbers: two-digit numbers of the lessons; default: all.
        source: the folder of the pages' sources; default: ``build/site``.

    Returns:
        The front page, which opens from the disk too.

    Raises:
        ValueError: if Sphinx and its theme are not installed, for an unknown lesson, or if a page
            cannot be built.
    """
    if find_spec("sphinx_book_theme") is None or find_spec("myst_nb") is None:
        raise ValueError("the site needs more packages: pip install -e '.[site]'")
    from sphinx.cmd.build import build_main

    source = source or ROOT / "build" / "site"
    lessons = notebook.paths(numbers)
    options = ["-q", "-j", "2", "-d", str(source / ".cache")]
    unfinished = source / "unfinished"
    if unfinished.exists():  # a page may be half written, though Sphinx takes it for done
        options += ["-E", "-a"]
    pictures.write_if_changed(unfinished, b"a build has begun")
    _prepare(source, lessons)
    if build_main([*options, str(source), str(folder)]):
        raise ValueError("Sphinx could not build the site; its messages are above")
    for lesson in lessons:
        shutil.copyfile(lesson, folder / "_sources" / "lessons" / lesson.name)
    slides.write_older(lessons, folder / "slides")
    play = playground.page(home="index.html")
    pictures.write_if_changed(folder / "playground.html", play.encode())
    if address.archive():
        pictures.write_if_changed(folder / address.ARCHIVE, address.archive())
    unfinished.unlink()
    return folder / "index.html"


def _prepare(source: Path, lessons: list[Path]) -> None:
    """The pages' sources: notebooks with live figures, generated pages, files that they load."""
    names = {lesson.name for lesson in lessons}
    for path in (source / "lessons").glob("*.ipynb"):
        if path.name not in names:
            path.unlink()
    shown_panels = {_PANEL}
    for lesson in lessons:
        page_source = notebook.read(lesson)
        shown_panels.update(pictures.make_live(page_source, "../_static/panels"))
        missing = pictures.describe(page_source)
        if missing:
            raise ValueError(f"{lesson.name}: no sentence under the figure of {', '.join(missing)}")
        text = notebook.text(page_source)
        text = text.replace("../data/results/README.md", "../results/index.md")
        pictures.write_if_changed(source / "lessons" / lesson.name, text.encode())
    pictures.write_files(sorted(shown_panels), source / "_static" / "panels")
    for name, path in _copies().items():
        pictures.write_if_changed(source / name, path.read_bytes())
    subpackages = []
    for module in pkgutil.iter_modules(bdl_lessons.__path__):
        if module.ispkg:
            subpackages.append(module.name)
    for name in subpackages:
        pictures.write_if_changed(source / "package" / f"{name}.rst", _subpackage(name).encode())
    pictures.write_if_changed(source / "index.md", front_page(lessons, subpackages).encode())
    for name, text in _rendered_pages().items():
        page_text = _with_links_of_site(text, names)
        pictures.write_if_changed(source / f"{name}.md", page_text.encode())
    # 1.6 MB; a font has the icons too
    pictures.write_if_changed(source / "_static" / "scripts" / "fontawesome.js", b"")


def _rendered_pages() -> dict[str, str]:
    """Pages that follow from the course, by their names: to look things up in."""
    pages = _results()
    pages["terms"] = f"# Terms and symbols\n\n{terms.page(link='lessons/')}\n"
    pages["references"] = f"# References\n\n{references.page(link='lessons/')}\n"
    for sheet in formulas.SHEETS:
        pages[sheet.name] = formulas.page(sheet, link="lessons/")
    return pages


def _results() -> dict[str, str]:
    """What was measured: the verdicts, and a page for each experiment."""
    text = (DATA / "results" / "README.md").read_text(encoding="utf-8")
    pages = {f"results/{name}": part for name, part in report.pages(text).items()}
    names = [name.removeprefix("results/") for name in pages if name != "results/index"]
    listed = "\n".join(names)
    pages["results/index"] += f"\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    return pages


def _copies() -> dict[str, Path]:
    """The files that Sphinx gets as they are: where to, and where from."""
    copies = {"conf.py": _STATIC / "conf.py.txt"}
    for path in [*(_VENDOR / "katex").rglob("*.*"), *(_VENDOR / "fonts").iterdir()]:
        copies[f"_static/{path.relative_to(_VENDOR)}"] = path
    for name in ("site.css", "site.js", "scorer.js"):
        copies[f"_static/{name}"] = _STATIC / name
    for name in ("home.html", "layout.html"):
        copies[f"_templates/{name}"] = _STATIC / name
    for path in (DATA / "results").glob("*.png"):
        copies[f"results/{path.name}"] = path
    return copies


def _subpackage(name: str) -> str:
    """The reference of one part of the package: the docstrings of all its modules."""
    top = f"bdl_lessons.{name}"
    subpackage = importlib.import_module(top)
    lines = [top, "=" * len(top), "", f".. automodule:: {top}", ""]
    for module in pkgutil.walk_packages(subpackage.__path__, f"{top}."):
        if module.ispkg:
            continue
        heading = module.name.removeprefix(f"{top}.")
        lines += [heading, "-" * len(heading), ""]
        lines += [f".. automodule:: {module.name}", "   :members:", ""]
    return "\n".join(lines)


def front_page(lessons: list[Path], subpackages: list[str]) -> str:
    """A live panel, ways in, routes and the map of the course, for the lessons of the site."""
    panel = store.load(_PANEL)
    files = f"_static/panels/{panel.name}"
    minutes_of_first, _ = metadata.lessons()[0].minutes["alone"]
    parts = {
        "PANEL": page.figure(panel, picture=f"{files}.png", source=f"{files}.js"),
        "MAP": _map([metadata.Lesson(path) for path in lessons]),
        "ROUTES": _with_links_of_site(
            route_table(link="lessons/"), {path.name for path in lessons}
        ),
        "COMMANDS": _commands(),
        "GET": _get(),
        "MINUTES": str(minutes_of_first),
        "LESSONS": "\n".join(f"lessons/{lesson.stem}" for lesson in lessons),
        "PACKAGE": "\n".join(f"package/{subpackage}" for subpackage in subpackages),
    }
    text = (_STATIC / "front.md").read_text(encoding="utf-8")
    for name, value in parts.items():
        text = text.replace(f"@{name}@", value)
    return text


def footer() -> str:
    """Below every page: version, date, licence, and how to cite the course."""
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    facts = dict(re.findall(r'^ *(?:- )?([\w-]+): "?([^"\n]+?)"?$', citation, re.M))
    title = facts["title"]
    date = facts["date-released"]
    version = address.version()
    place = address.address() or "see CITATION.cff"
    return (
        f"<p>{title}, version {version}, {date}. {facts['license']} licence. "
        f"To cite: {facts['name']} ({date[:4]}), <i>{title}</i>, version {version}, {place}.</p>"
    )


def _with_links_of_site(text: str, names: set[str]) -> str:
    """The text with links to those lessons that the site has; to others there are words alone."""

    def link_or_words(match: re.Match[str]) -> str:
        return match[0] if match[2] in names else match[1]

    return re.sub(r"\[([^\]]*)\]\(lessons/([^)#]*)[^)]*\)", link_or_words, text)


def _map(lessons: list[metadata.Lesson]) -> str:
    """The map of lesson 00 as a list of links: rows, questions, and what to read before."""
    by_number = {lesson.number: lesson for lesson in lessons}
    lines = []
    for row in map_rows(lesson_records().values()):
        lines.append(f'<p class="map-row">{escape(row.theme)}</p>')
        lines.append('<ul class="map">')
        for record in row.lessons:
            content = _tile(record, by_number.get(record.number))
            lines.append(f'<li class="tile" style="--row:{row.colour}">{content}</li>')
        lines.append("</ul>")
    return "\n".join(lines)


def _tile(record: LessonRecord, lesson: metadata.Lesson | None) -> str:
    """A lesson of the map: name, question and needs; a link if the site has the lesson."""
    name = escape(f"{record.number} {record.short_title}")
    asked = " ".join(record.map.question.split())
    question = f"<p>{escape(asked)}</p>"
    if lesson is None:
        return f"<b>{name}</b>{question}"
    tile = f'<b><a href="lessons/{lesson.path.stem}.html">{name}</a></b>{question}'
    if lesson.needs:
        needs = " and ".join(", ".join(lesson.needs).rsplit(", ", 1))
        tile += f'<p class="after">after {needs}</p>'
    return tile


def _get() -> str:
    """Where the course is to be had: at its address, and as one file beside these pages."""
    ways = []
    published = address.address()
    if published:
        ways.append(f"It is published: {address.markdown_links(published)}.")
    if address.archive():
        ways.append(
            f'<a href="{address.ARCHIVE}">The whole course as one file</a> has notebooks, package '
            "and data, for work without a network."
        )
    ways = ways or ["You have it: these pages were made in the folder of the course."]
    return " ".join([*ways, page.PLACE_OF_PDF])


def _commands() -> str:
    """The commands under the first heading of README.md."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.search(r"^## Two commands\n+```\n(.+?)```", readme, re.M | re.S)
    return commands[1].rstrip()
