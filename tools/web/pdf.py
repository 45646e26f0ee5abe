"""Lessons on paper: each page of the site as a PDF, and all of them in one, printed by Chromium."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

import reproductions
from bdl_lessons.exercises import show_solution
from bdl_lessons.exercises.grader import lessons as lessons_with_exercises
from bdl_lessons.exercises.grader import of_lesson
from tools import address, formulas, metadata, notebook
from tools.web.page import PLACE_OF_PDF

if TYPE_CHECKING:
    from playwright.sync_api import Page
    from pypdf import PageObject, PdfWriter

WHOLE_COURSE = "course.pdf"
_PRINT = Path(__file__).with_name("static") / "print.js"
_APPENDICES = {
    "results/index.html": "Results",
    **{f"results/{name}.html": reproductions.load(name).title for name in reproductions.PLACES},
    "terms.html": "Terms and symbols",
    **{f"{sheet.name}.html": sheet.title for sheet in formulas.SHEETS},
    "references.html": "References",
}
"""Pages of the site that are printed with the whole course, behind the lessons, in this order."""
_MARGIN = {"top": "15mm", "bottom": "18mm", "left": "14mm", "right": "14mm"}
_FOOTER = (
    '<div style="width: 100%; margin: 0 14mm; display: flex; justify-content: space-between; '
    'font: 7pt sans-serif; color: #555"><span>{title}</span>'
    '<span><span class="pageNumber"></span> of <span class="totalPages"></span></span></div>'
)
_PATIENCE_MS = 300_000  # a page has some MB, and the machine may have more to do
_FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


@dataclass(frozen=True)
class Printed:
    """A page of the site on paper: its name without an ending, its title, and the PDF."""

    stem: str
    title: str
    path: Path


def write(site: Path, folder: Path, numbers: list[str] | None = None) -> Iterator[Path]:
    """Print lessons of a site that was built, the results, and with all lessons the whole course.

    Hidden code is left out. Answers in folds, those to the self-test and the solutions of the
    exercises stand at the end of a lesson. Links between lessons lead from file to file, or inside
    the file of the whole course. The slides of a lesson are a file of their own, one to a page.

    Args:
        site: the folder of ``make site``.
        folder: where to.
        numbers: two-digit numbers of lessons; default: all that the site has, and the results.

    Yields:
        Each PDF when it is written.

    Raises:
        ValueError: if the site lacks a lesson, or Chromium or a package that printing needs.
    """
    pages = _pages(site, numbers)
    browser_path = _chromium()
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it counts the objects of Chromium anew
    with tempfile.TemporaryDirectory() as unfinished, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=_FLAGS)
        stems = {_stem(path) for path in pages}
        printed = []
        for path, title in pages.items():
            stem = _stem(path)
            part = Printed(stem=stem, title=title, path=Path(unfinished, f"{stem}.pdf"))
            _print_page(browser.new_page(), path, part)
            printed.append(part)
            links = {"PDF": folder / f"{stem}.pdf"}
            yield _link_files(part.path, stems, links["PDF"])
            deck = site / "slides" / f"{stem}.html"
            if deck.exists():
                unlinked = Path(unfinished, "slides.pdf")
                _print_slides(browser.new_page(), deck, unlinked)
                links["PDF of the slides"] = folder / f"{stem}_slides.pdf"
                yield _link_files(unlinked, stems, links["PDF of the slides"])
            _link_from(path, links, before=" · ")
        if numbers is None:
            cover = Path(unfinished, "cover.pdf")
            _print_cover(browser.new_page(), site, printed, cover)
            yield _bind(cover, printed, folder / WHOLE_COURSE)
            links = {"The whole course on paper, as a PDF.": folder / WHOLE_COURSE}
            _link_from(site / "index.html", links, before="")
        browser.close()


def _pages(site: Path, numbers: list[str] | None) -> dict[Path, str]:
    """The pages to print with their titles, in order; ValueError for a lesson that is not there.

    Pages beside the lessons are printed with the whole course alone.
    """
    pages = {}
    for lesson in metadata.lessons():
        if numbers is not None and lesson.number not in numbers:
            continue
        page = site / "lessons" / f"{lesson.path.stem}.html"
        if page.exists():
            pages[page] = f"{lesson.number} · {lesson.title.replace('$', '')}"  # a plain text
        elif numbers is not None:
            raise ValueError(f"{site} has no lesson {lesson.number}: make site writes it")
    if numbers is None:
        for name, title in _APPENDICES.items():
            if (site / name).exists():
                pages[site / name] = title
    if not pages:
        raise ValueError(f"{site} has no lessons to print: run `make site` first")
    return pages


def _stem(page: Path) -> str:
    """The name of a page's PDF without its ending."""
    return "results" if page.parts[-2:] == ("results", "index.html") else page.stem


def _chromium() -> str:
    """The browser that prints; ValueError if it, Playwright or pypdf is missing."""
    for package in ("playwright", "pypdf"):
        if find_spec(package) is None:
            raise ValueError(f"printing needs the package {package}: make workshop installs it")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("BDL_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if path is None:
        raise ValueError(
            "printing needs Chromium on the PATH, or its address in BDL_CHROMIUM; without it, open "
            "the pages of make site in a browser and print them"
        )
    return path


def _print_page(page: Page, path: Path, part: Printed) -> None:
    """Open a page of the site, put answers and solutions at its end, print it, and close it."""
    page.set_default_timeout(_PATIENCE_MS)
    page.goto(path.resolve().as_uri())
    page.wait_for_function("!document.querySelector('.math[data-tex]:not(:has(.katex))')")
    page.emulate_media(media="print")
    number = part.stem[:2]
    solutions = list(_solutions(number)) if number in lessons_with_exercises() else []
    arguments = {"prefix": part.stem, "solutions": solutions}
    page.evaluate(_PRINT.read_text(encoding="utf-8"), arguments)
    page.wait_for_function("[...document.images].every(image => image.complete)")
    page.pdf(
        path=part.path,
        format="A4",
        margin=_MARGIN,
        outline=True,
        tagged=True,
        display_header_footer=True,
        header_template="<span></span>",
        footer_template=_FOOTER.format(title=escape(part.title)),
    )
    page.close()
    _mend_bookmarks(part.path)


def _mend_bookmarks(path: Path) -> None:
    """Say once what Chromium says twice: a heading that it moved to the next page."""
    from pypdf import PdfWriter
    from pypdf.generic import NameObject, TextStringObject

    writer = PdfWriter(clone_from=str(path))
    waiting = [writer.root_object.get("/Outlines")]
    while waiting:
        item = waiting.pop()
        if item is None:
            continue
        item = item.get_object()
        title = str(item.get("/Title", ""))
        half = title[: len(title) // 2]
        if title and title == half + half:
            item[NameObject("/Title")] = TextStringObject(half)
        waiting += [item.get("/First"), item.get("/Next")]
    writer.write(str(path))


def _print_slides(page: Page, deck: Path, to: Path) -> None:
    """Print the slides of a lesson by the view that reveal.js has for it, and close the page."""
    page.set_default_timeout(_PATIENCE_MS)
    page.goto(f"{deck.resolve().as_uri()}?print-pdf")
    page.locator(".pdf-page").first.wait_for()
    page.wait_for_function("!document.querySelector('figure.bdl-panel:not([data-state])')")
    page.wait_for_function("[...document.images].every(image => image.complete)")
    page.pdf(path=to, prefer_css_page_size=True, print_background=True, tagged=True)
    page.close()


def _solutions(number: str) -> Iterator[tuple[str, str]]:
    """Number and title of each exercise of a lesson, with the code of its solution."""
    for exercise in of_lesson(number):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            show_solution(exercise.number)
        yield f"{exercise.number} · {exercise.title}", printed.getvalue().strip()


def _print_cover(page: Page, site: Path, printed: Iterable[Printed], to: Path) -> None:
    """The title page of the whole course, with links to its parts."""
    lines = []
    for each in printed:
        target = (site / f"{each.stem}.html").resolve().as_uri()
        lines.append(f'<li><a href="{target}">{escape(each.title)}</a></li>')
    page.set_content(
        '<html lang="en"><style>body { font: 11pt sans-serif; margin: 30mm 8mm } '
        "h1 { font-size: 28pt } li { list-style: none; margin: 5pt 0 } ul { padding: 0 } "
        "a { color: inherit; text-decoration: none }</style>"
        f"<title>{_TITLE}</title><h1>{_TITLE}</h1><p>Version {escape(address.version())}</p>"
        f"<ul>{''.join(lines)}</ul></html>"
    )
    page.pdf(path=to, format="A4", margin=_MARGIN, outline=True, tagged=True)
    page.close()


def _link_from(page_path: Path, links: Mapping[str, Path], before: str) -> None:
    """Link a page of the site to its PDFs; a page that is built again loses the links, as it must.

    Args:
        links: the words of each link, and the file that it leads to.
        before: what stands before each of them.
    """
    place = PLACE_OF_PDF.removesuffix("</span>")
    anchors = []
    for words, file in links.items():
        target = quote(os.path.relpath(file.resolve(), page_path.resolve().parent))
        anchors.append(f'{before}<a href="{target}">{words}</a>')
    linked = f"{place}{''.join(anchors)}</span>"
    html = page_path.read_text(encoding="utf-8")
    html = re.sub(rf"{place}.*?</span>", lambda _: linked, html)
    notebook.write(page_path, html)


def _bind(cover: Path, printed: Iterable[Printed], to: Path) -> Path:
    """One file with a bookmark for each part, whose links between parts lead inside it."""
    from pypdf import PdfWriter

    writer = PdfWriter()
    writer.append(str(cover), import_outline=False)
    first_pages = {}
    for each in printed:
        first_pages[each.stem] = len(writer.pages)
        writer.append(str(each.path), outline_item=each.title)
    starts = {stem: writer.pages[number] for stem, number in first_pages.items()}
    _relink(writer, lambda stem: _inside(starts, stem))
    writer.add_metadata({"/Title": _TITLE})
    writer.write(str(to))
    return to


def _link_files(path: Path, stems: set[str], to: Path) -> Path:
    """Copy a PDF; links to other pages of the site lead to the PDFs beside it."""
    from pypdf import PdfWriter

    writer = PdfWriter(clone_from=str(path))
    _relink(writer, lambda stem: _beside(stems, stem))
    writer.write(str(to))
    return to


def _relink(writer: PdfWriter, entries_for: Callable[[str], dict]) -> None:
    """Give each link to a file of the site its new entries; what has none is no link any more."""
    from pypdf.generic import ArrayObject, NameObject

    for page in writer.pages:
        kept = ArrayObject()
        for reference in page.get("/Annots", ArrayObject()):
            annotation = reference.get_object()
            stem = _linked_page(annotation)
            if stem is not None:
                entries = entries_for(stem)
                if not entries:
                    continue
                del annotation["/A"]
                annotation.update(entries)
            kept.append(reference)
        if "/Annots" in page:
            page[NameObject("/Annots")] = kept


def _linked_page(annotation: Mapping) -> str | None:
    """The page of the site that a link leads to, without its ending; ``None``: elsewhere."""
    action = annotation.get("/A", {})
    parts = urlsplit(str(action.get("/URI", "")))
    if parts.scheme != "file":
        return None
    return _stem(Path(unquote(parts.path)))


def _inside(starts: Mapping[str, PageObject], stem: str) -> dict:
    """Entries of a link to the first page of a part."""
    from pypdf.generic import ArrayObject, NameObject

    if stem not in starts:
        return {}
    place = ArrayObject([starts[stem].indirect_reference, NameObject("/Fit")])
    return {NameObject("/Dest"): place}


def _beside(stems: set[str], stem: str) -> dict:
    """Entries of a link to another file in the same folder."""
    from pypdf.generic import (
        ArrayObject,
        DictionaryObject,
        NameObject,
        NumberObject,
        TextStringObject,
    )

    if stem not in stems:
        return {}
    action = DictionaryObject(
        {
            NameObject("/S"): NameObject("/GoToR"),
            NameObject("/F"): TextStringObject(f"{stem}.pdf"),
            NameObject("/D"): ArrayObject([NumberObject(0), NameObject("/Fit")]),
        }
    )
    return {NameObject("/A"): action}


_TITLE = "Bayesian deep learning through dropout"
