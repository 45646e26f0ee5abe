"""The front page of the site: a live panel, three ways in, and the map of the course."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from bdl_lessons.core.files import ROOT
from bdl_lessons.course.lesson_map import ROWS
from tools import address
from tools.metadata import Lesson, minutes
from tools.metadata import lessons as all_lessons
from tools.web import page, store

PANEL = "many-networks"


def text(lessons: list[Path], subpackages: list[str]) -> str:
    """The page as Markdown, for the lessons that the site has and the parts of the package."""
    panel = store.load(PANEL)
    files = f"_static/panels/{panel.name}"
    parts = {
        "PANEL": page.figure(panel, f"{files}.png", f"{files}.js"),
        "MAP": _map([Lesson(path) for path in lessons]),
        "COMMANDS": _commands(),
        "GET": _get(),
        "MINUTES": str(minutes(all_lessons()[0].sections)["alone"][0]),
        "LESSONS": "\n".join(f"lessons/{lesson.stem}" for lesson in lessons),
        "PACKAGE": "\n".join(f"package/{subpackage}" for subpackage in subpackages),
    }
    made = Path(__file__).with_name("static").joinpath("front.md").read_text(encoding="utf-8")
    for name, value in parts.items():
        made = made.replace(f"@{name}@", value)
    return made


def footer() -> str:
    """Below every page: version, date, licence, and how to cite the course."""
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    facts = dict(re.findall(r'^ *(?:- )?([\w-]+): "?([^"\n]+?)"?$', cited, re.M))
    version, where = address.version(), address.address() or "see CITATION.cff"
    return (
        f"<p>{facts['title']}, version {version}, {facts['date-released']}. "
        f"{facts['license']} licence. To cite: {facts['name']} ({facts['date-released'][:4]}), "
        f"<i>{facts['title']}</i>, version {version}, {where}.</p>"
    )


def _map(lessons: list[Lesson]) -> str:
    """The map of lesson 00 as a list of links: rows, questions, and what to read before."""
    listed = {lesson.number: lesson for lesson in lessons}
    lines = []
    for colour, theme, row in ROWS:
        lines += [f'<p class="map-row">{escape(theme)}</p>', '<ul class="map">']
        for number, (title, question) in row.items():
            name, after = escape(f"{number} {title}"), ""
            if lesson := listed.get(number):
                name = f'<a href="lessons/{lesson.path.stem}.html">{name}</a>'
                needs = " and ".join(", ".join(lesson.needs).rsplit(", ", 1))
                after = f'<p class="after">after {needs}</p>' if needs else ""
            asked = f"<p>{escape(' '.join(question.split()))}</p>"
            tile = f'<li class="tile" style="--row:{colour}"><b>{name}</b>{asked}{after}</li>'
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
    found = re.search(r"^## Two commands\n+```\n(.+?)```", readme, re.M | re.S)
    if not found:
        raise ValueError("README.md has no block of commands under '## Two commands'")
    return found[1].rstrip()
