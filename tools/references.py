"""The bibliography of the course, and what pages and lessons render from it.

``docs/references.toml`` has an entry for each paper. The record of a lesson names the keys of those
it builds on, and what it takes from each. So authors, title and address stand in one place.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bdl_lessons.core.files import ROOT
from bdl_lessons.course.lesson_record import LessonRecord, lesson_records

BIBLIOGRAPHY = ROOT / "docs" / "references.toml"
MAX_AUTHORS = 6  # of more the first one is named alone
_INITIALS = re.compile(r"^(?:\S+\. )+")
_NO_PROSE = re.compile(r"\[[^\]]*\]\([^)]*\)|\$\$.*?\$\$|`[^`]*`", re.S)  # links, formulas, code
_ADDRESS = re.compile(r"\]\((https?://[^)\s]+)\)")
_PLACES_OF_PAPERS = re.compile(r"arxiv\.org|doi\.org|jmlr\.org|mlr\.press|n(?:eur)?ips\.cc")


@dataclass(frozen=True)
class Entry:
    """A paper, a book, or slides.

    Attributes:
        key: how records name it: the first author and the year, in small letters.
        authors: initials and surname of each.
        title: the title, with capital letters only where a sentence has them.
        venue: where it was published, e.g. ``"ICML"``, or a journal with its volume.
        year: None where none is stated, as in slides.
        doi: the identifier alone, without an address; may be empty.
        arxiv: the same, e.g. ``"1506.02142"``.
        url: an address, for what has neither of the two.
        further: what it is good for, if no lesson cites it.
    """

    key: str
    authors: tuple[str, ...]
    title: str
    venue: str
    year: int | None = None
    doi: str = ""
    arxiv: str = ""
    url: str = ""
    further: str = ""

    @property
    def links(self) -> list[tuple[str, str]]:
        """Words and address of each place where it can be read; the first is the best."""
        places = []
        if self.doi:
            places.append((f"doi:{self.doi}", f"https://doi.org/{self.doi}"))
        if self.arxiv:
            places.append((f"arXiv:{self.arxiv}", f"https://arxiv.org/abs/{self.arxiv}"))
        if self.url:
            places.append(("online", self.url))
        return places

    @property
    def text(self) -> str:
        """The entry as Markdown, with its links, as it stands in a list of references."""
        names = ", ".join(self.authors)
        if len(self.authors) > MAX_AUTHORS:
            names = f"{self.authors[0]} et al."
        parts = [names, f"*{self.title}*", self.venue]
        if self.year is not None:
            parts.append(str(self.year))
        parts += [f"[{words}]({target})" for words, target in self.links]
        return ", ".join(parts)

    @property
    def citation(self) -> re.Pattern[str]:
        """How a text cites it: the surnames, or the first one and "et al.", and the year."""
        surnames = [re.escape(surname(name)) for name in self.authors]
        *others, last = surnames
        forms = []
        if len(surnames) > 2:
            forms.append(rf"{surnames[0]} et al\.")
        if len(surnames) <= 3:
            forms.append(f"{', '.join(others)} and {last}" if others else last)
        return re.compile(rf"(?:{'|'.join(forms)}) \(?{self.year}\b")


@cache
def bibliography(path: Path = BIBLIOGRAPHY) -> dict[str, Entry]:
    """The entries by their keys, in the order of surnames and years.

    Raises:
        ValueError: if an entry has a field that is unknown, or lacks one; it names the entry.
    """
    entries = []
    for key, values in tomllib.loads(path.read_text(encoding="utf-8")).items():
        try:
            authors = tuple(values.pop("authors"))
            entries.append(Entry(key=key, authors=authors, **values))
        except (TypeError, KeyError) as error:
            raise ValueError(f"{path}: {key}: {error}; other entries show the fields") from error
    return {entry.key: entry for entry in sorted(entries, key=_alphabetical)}


def _alphabetical(entry: Entry) -> tuple[str, int, str]:
    return plain_surname(entry.authors[0]), entry.year or 0, entry.key


def surname(author: str) -> str:
    """The name of an author without initials.

    >>> surname("J. van Amersfoort")
    'van Amersfoort'
    """
    return _INITIALS.sub("", author)


def plain_surname(author: str) -> str:
    """:func:`surname` in small letters without accents.

    >>> plain_surname("J. Demšar")
    'demsar'
    """
    letters = unicodedata.normalize("NFKD", surname(author))
    return letters.encode("ascii", "ignore").decode().lower()


def entry_of(key: str) -> Entry:
    """The entry with this key; ValueError if there is none."""
    entries = bibliography()
    if key not in entries:
        raise ValueError(f"no entry {key!r} in {BIBLIOGRAPHY.relative_to(ROOT)}; add it there")
    return entries[key]


def cell(record: LessonRecord) -> str:
    """The references of a lesson: each with what is taken from it, and which lesson comes next."""
    lines = []
    for reference in record.references:
        text = entry_of(reference.cite).text
        takes = f": {reference.takes}" if reference.takes else ""
        lines.append(f"- {text}{takes}.")
    parts = ["**References**", "\n".join(lines), record.after_references, _next_lesson(record)]
    return "\n\n".join(part for part in parts if part)


def _next_lesson(record: LessonRecord) -> str:
    """A link to the lesson that follows; empty for the last one."""
    records = list(lesson_records().values())
    later = [other for other in records if other.number > record.number]
    if not later:
        return ""
    return f"Next: [{later[0].number} {later[0].short_title}]({later[0].stem}.ipynb)."


def page(link: str) -> str:
    """The whole bibliography as Markdown; ``link`` is put before the file name of a lesson.

    The entries that a lesson cites come first, each with its lessons, then what is worth reading
    besides.
    """
    cited = []
    further = []
    for entry in bibliography().values():
        links = []
        for record in lesson_records().values():
            if entry.key in [reference.cite for reference in record.references]:
                links.append(f"[{record.number}]({link}{record.stem}.ipynb)")
        if links:
            word = "Lesson" if len(links) == 1 else "Lessons"
            cited.append(f"- {entry.text}. {word} {', '.join(links)}.")
        else:
            further.append(f"- {entry.text}: {entry.further}.")
    return "\n\n".join(
        [
            "What the lessons build on, by the first author. Behind each entry stand the lessons "
            "that cite it; the end of a lesson says what it takes from it.",
            "\n".join(cited),
            "## Further reading",
            "\n".join(further),
        ]
    )


def cited_without_link(text: str, record: LessonRecord) -> Iterator[tuple[str, Entry]]:
    """The citations in a text that lead nowhere, each with its entry.

    Where several references of the lesson read like a citation, the first one is meant.
    """
    prose = _NO_PROSE.sub("", text)
    seen = set()
    for reference in record.references:
        entry = entry_of(reference.cite)
        if not entry.links or entry.citation in seen:
            continue
        seen.add(entry.citation)
        for match in entry.citation.finditer(prose):
            yield match[0], entry


def foreign_links(text: str) -> Iterator[str]:
    """Addresses of papers in a text that no entry of the bibliography has."""
    known = set()
    for entry in bibliography().values():
        known.update(target for _, target in entry.links)
    for target in _ADDRESS.findall(text):
        if _PLACES_OF_PAPERS.search(target) and target not in known:
            yield target
