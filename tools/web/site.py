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
from bdl_lessons.course.lesson_map import map_rows
from bdl_lessons.course.lesson_record import lesson_records
from tools import address, metadata, notebook, slides
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
    pictures.write_if_changed(folder / "playground.html", playground.page().encode())
    if address.archive():
        pictures.write_if_changed(folder / address.ARCHIVE, address.archive())
    unfinished.unlink()
    return folder / "index.html"


def _prepare(source: Path, lessons: list[Path]) -> None:
    """The pages' sources: notebooks with live figures, generated pages, files that they load."""
    for path in (source / "lessons").glob("*.ipynb"):
        if path.name not in {lesson.name for lesson in lessons}:
            path.unlink()
    used = [_PANEL]
    for lesson in lessons:
        made = notebook.read(lesson)
        used += pictures.make_live(made, "../_static/panels")
        if missing := pictures.describe(made):
            raise ValueError(f"{lesson.name}: no sentence under the figure of {', '.join(missing)}")
        text = notebook.text(made).replace("../data/results/README.md", "../results/index.md")
        pictures.write_if_changed(source / "lessons" / lesson.name, text.encode())
    pictures.write_files(sorted(set(used)), source / "_static" / "panels")
    subpackages = [m.name for m in pkgutil.iter_modules(bdl_lessons.__path__) if m.ispkg]
    vendored = [*(_VENDOR / "katex").rglob("*.*"), *(_VENDOR / "fonts").iterdir()]
    copies = {f"_static/{path.relative_to(_VENDOR)}": path for path in vendored}
    copies |= {f"_static/{name}": _STATIC / name for name in ("site.css", "site.js", "scorer.js")}
    copies |= {f"_templates/{name}": _STATIC / name for name in ("home.html", "layout.html")}
    copies |= {f"results/{path.name}": path for path in (DATA / "results").glob("*.png")}
    copies |= {"results/index.md": DATA / "results" / "README.md"}
    copies |= {"conf.py": _STATIC / "conf.py.txt"}
    contents = {name: path.read_bytes() for name, path in copies.items()}
    contents |= {f"package/{name}.rst": _subpackage(name).encode() for name in subpackages}
    contents |= {"index.md": front_page(lessons, subpackages).encode()}
    contents["_static/scripts/fontawesome.js"] = b""  # 1.6 MB; a font has the icons too
    for name, content in contents.items():
        pictures.write_if_changed(source / name, content)


def _subpackage(name: str) -> str:
    """The reference of one part of the package: the docstrings of all its modules."""
    top = f"bdl_lessons.{name}"
    subpackage = importlib.import_module(top)
    modules = [m.name for m in pkgutil.walk_packages(subpackage.__path__, f"{top}.") if not m.ispkg]
    lines = [top, "=" * len(top), "", f".. automodule:: {top}", ""]
    for module in modules:
        short = module.removeprefix(f"{top}.")
        lines += [short, "-" * len(short), "", f".. automodule:: {module}", "   :members:", ""]
    return "\n".join(lines)


def front_page(lessons: list[Path], subpackages: list[str]) -> str:
    """A live panel, three ways in, and the map of the course, for the lessons that the site has."""
    panel = store.load(_PANEL)
    files = f"_static/panels/{panel.name}"
    parts = {
        "PANEL": page.figure(panel, f"{files}.png", f"{files}.js"),
        "MAP": _map([metadata.Lesson(path) for path in lessons]),
        "COMMANDS": _commands(),
        "GET": _get(),
        "MINUTES": str(metadata.minutes(metadata.lessons()[0].sections)["alone"][0]),
        "LESSONS": "\n".join(f"lessons/{lesson.stem}" for lesson in lessons),
        "PACKAGE": "\n".join(f"package/{subpackage}" for subpackage in subpackages),
    }
    made = (_STATIC / "front.md").read_text(encoding="utf-8")
    for name, value in parts.items():
        made = made.replace(f"@{name}@", value)
    return made


def footer() -> str:
    """Below every page: version, date, licence, and how to cite the course."""
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    facts = dict(re.findall(r'^ *(?:- )?([\w-]+): "?([^"\n]+?)"?$', cited, re.M))
    version = address.version()
    where = address.address() or "see CITATION.cff"
    return (
        f"<p>{facts['title']}, version {version}, {facts['date-released']}. "
        f"{facts['license']} licence. To cite: {facts['name']} ({facts['date-released'][:4]}), "
        f"<i>{facts['title']}</i>, version {version}, {where}.</p>"
    )


def _map(lessons: list[metadata.Lesson]) -> str:
    """The map of lesson 00 as a list of links: rows, questions, and what to read before."""
    listed = {lesson.number: lesson for lesson in lessons}
    lines = []
    for row in map_rows(lesson_records().values()):
        lines += [f'<p class="map-row">{escape(row.theme)}</p>', '<ul class="map">']
        for record in row.lessons:
            name = escape(f"{record.number} {record.short_title}")
            after = ""
            if lesson := listed.get(record.number):
                name = f'<a href="lessons/{lesson.path.stem}.html">{name}</a>'
                needs = " and ".join(", ".join(lesson.needs).rsplit(", ", 1))
                after = f'<p class="after">after {needs}</p>' if needs else ""
            asked = f"<p>{escape(' '.join(record.map.question.split()))}</p>"
            tile = f'<li class="tile" style="--row:{row.colour}"><b>{name}</b>{asked}{after}</li>'
            lines.append(tile)
        lines.append("</ul>")
    return "\n".join(lines)


def _get() -> str:
    """Where the course is to be had: at its address, and as one file beside these pages."""
    ways = []
    if published := address.address():
        ways.append(f"It is published: {address.markdown_links(published)}.")
    if address.archive():
        ways.append(
            f'<a href="{address.ARCHIVE}">The whole course as one file</a> has notebooks, package '
            "and data, for work without a network."
        )
    return " ".join(ways) or "You have it: these pages were made in the folder of the course."


def _commands() -> str:
    """The commands under the first heading of README.md."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.search(r"^## Two commands\n+```\n(.+?)```", readme, re.M | re.S)[1].rstrip()
