"""How long a lesson takes: its text read aloud, its formulas written, its pictures looked at.

The *stage* of a lesson is what a lecturer shows: the cells with a slide type other than ``skip``.
The *page* is what a person alone reads: all cells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from nbformat import NotebookNode

from tools.notebook import tags_of

WORDS_PER_MINUTE = 130
FORMULA_MINUTES = 40 / 60
CODE_LINE_MINUTES = 6 / 60
PICTURE_MINUTES = 1.0
TABLE_MINUTES = 25 / 60
QUESTIONS = 1.05
ASKED_MINUTES = 0.5
RATES = (
    f"counted at {WORDS_PER_MINUTE} words a minute, {60 * FORMULA_MINUTES:.0f} s for a line of "
    f"formula, {60 * CODE_LINE_MINUTES:.0f} s for a line of code, {60 * PICTURE_MINUTES:.0f} s for "
    f"a picture and {60 * TABLE_MINUTES:.0f} s for a table of results, folds open, "
    f"{100 * (QUESTIONS - 1):.0f} % for questions from the class, and {60 * ASKED_MINUTES:.0f} s "
    "for one that the lecturer asks where no activity is"
)
"""What the minutes rest on, in words: it stands wherever they do."""


def on_stage(cell: Mapping) -> bool:
    """Whether a lecturer shows the cell."""
    return slide_type(cell) != "skip"


def slide_type(cell: Mapping) -> str:
    """The slide type of a cell, ``"skip"`` if it has none."""
    return cell["metadata"].get("slideshow", {}).get("slide_type", "skip")


def opens_slide(cell: Mapping) -> bool:
    """Whether a slide begins at the cell."""
    return slide_type(cell) in {"slide", "subslide"}


def without_folds(markdown: str) -> str:
    """What stands open: the text without what opens on a click."""
    return re.sub(r"<details>.*?</details>", "", markdown, flags=re.S)


def sections(notebook: NotebookNode) -> list[list[NotebookNode]]:
    """The cells of each section, which the first one's ``bdl`` metadata opens.

    What stands before the first section belongs to it.
    """
    parts: list[list[NotebookNode]] = [[]]
    for cell in notebook.cells:
        if "bdl" in cell.metadata and opening_of(parts[-1]):
            parts.append([])
        parts[-1].append(cell)
    return parts


def opening_of(section: list[NotebookNode]) -> dict:
    """The ``bdl`` metadata of a section: minutes, mode, roles, part; empty if it has none."""
    return next((cell.metadata["bdl"] for cell in section if "bdl" in cell.metadata), {})


def part_of(section: list[NotebookNode]) -> str:
    """``"exercises"``, ``"deeper"`` behind the recap, else an empty text."""
    return opening_of(section).get("part", "")


def fill(notebook: NotebookNode, notes: Mapping[str, str]) -> None:
    """Store the minutes of every section but those of work alone, which are estimates.

    ``minutes`` are those of the stage, behind the recap those of the page; ``alone`` those of the
    page.

    Args:
        notes: of the lecturer, by the id of the cell that opens a slide. A question that a note
            marks by "Ask:" takes time, unless the section has minutes for an activity, which
            contain it.
    """
    for cells in sections(notebook):
        timing = opening_of(cells)
        if not timing or timing["mode"] == "solo":
            continue
        activity = timing.get("activity", 0)
        shown = [cell for cell in cells if on_stage(cell)]
        page = max(1, round(minutes(cells) + activity))
        asked = 0 if activity else sum("Ask:" in notes.get(cell.id, "") for cell in shown)
        stage = max(1, round(minutes(shown) + activity + ASKED_MINUTES * asked))
        whole = page if part_of(cells) == "deeper" else stage
        timing |= {"minutes": [whole, whole], "alone": page}


def minutes(cells: list[NotebookNode]) -> float:
    """Minutes to present the cells: words, formulas, visible code, pictures and tables.

    The call of a panel is not read out, nor is the table under the title.
    """
    total = 0.0
    for cell in cells:
        if cell.cell_type == "markdown" and not cell.source.startswith("# "):
            total += spoken_words(cell.source) / WORDS_PER_MINUTE
            total += FORMULA_MINUTES * displayed_formulas(cell.source)
        total += CODE_LINE_MINUTES * len(visible_lines(cell))
        total += PICTURE_MINUTES * has_picture(cell)
        total += TABLE_MINUTES * n_tables(cell)
    return QUESTIONS * total


def visible_lines(cell: NotebookNode) -> list[str]:
    """The lines of code that a reader sees, in a text too, without the call of a panel."""
    if tags_of(cell) & {"hide-input", "panel"}:
        return []
    source = cell.source
    if cell.cell_type == "markdown":
        source = "".join(re.findall(r"^```\w*\n(.*?)^```", source, re.S | re.M))
    return [line for line in source.splitlines() if line.strip()]


def has_picture(cell: NotebookNode) -> bool:
    """Whether the cell shows a figure or a panel."""
    return any("image/png" in output.get("data", {}) for output in cell.get("outputs", []))


def n_tables(cell: NotebookNode) -> int:
    """How many tables of results or checks the cell shows."""
    n = 0
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        has_results = "text/html" in data or "text/markdown" in data
        has_checks = "ok   " in output.get("text", "")
        n += has_results or has_checks
    return n


def spoken_words(markdown: str) -> int:
    """Words read aloud: no code, no displayed formulas; an inline formula is one word."""
    text = re.sub(r"```.*?```|\$\$.*?\$\$|<[^>]+>", " ", markdown, flags=re.S)
    text = re.sub(r"\$[^$]+\$", " formula ", text)
    text = re.sub(r"\]\([^)]*\)", " ", text)
    return len(re.findall(r"[^\W_]+(?:['’.–-][^\W_]+)*", text))


def displayed_formulas(markdown: str) -> int:
    """Lines of the displayed formulas."""
    n_lines = 0
    for formula in re.findall(r"\$\$(.*?)\$\$", markdown, re.S):
        without_last_break = re.sub(r"\\\\\s*$", "", formula.strip())
        n_lines += without_last_break.count(r"\\") + 1
    return n_lines
