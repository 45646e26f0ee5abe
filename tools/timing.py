"""How long a lesson takes: its text read aloud, its formulas written, its pictures looked at."""

from __future__ import annotations

import re

from nbformat import NotebookNode

WORDS_PER_MINUTE = 130
FORMULA_MINUTES, CODE_LINE_MINUTES, PICTURE_MINUTES = 0.25, 1 / 15, 0.75


def sections(notebook: NotebookNode) -> list[list[NotebookNode]]:
    """The cells of each section; what stands before the first one belongs to it."""
    found: list[list[NotebookNode]] = [[]]
    for cell in notebook.cells:
        if cell.source.startswith("## ") and any(c.source.startswith("## ") for c in found[-1]):
            found.append([])
        found[-1].append(cell)
    return found


def fill(notebook: NotebookNode) -> None:
    """Store the minutes of every lecture and pair section; those of work alone are estimates."""
    for cells in sections(notebook):
        timing = next((cell.metadata["bdl"] for cell in cells if "bdl" in cell.metadata), None)
        if timing and timing["mode"] != "solo":
            whole = max(1, round(minutes(cells) + timing.get("activity", 0)))
            timing["minutes"] = [whole, whole]


def minutes(cells: list[NotebookNode]) -> float:
    """Minutes to present the cells: words, displayed formulas, visible code and pictures.

    The line that imports a panel is not read out.
    """
    total = 0.0
    for cell in cells:
        if cell.metadata.get("slideshow", {}).get("slide_type") in {"skip", "notes"}:
            continue
        if cell.cell_type == "markdown":
            total += spoken_words(cell.source) / WORDS_PER_MINUTE
            total += FORMULA_MINUTES * displayed_formulas(cell.source)
            continue
        if "hide-input" not in cell.metadata.get("tags", []):
            lines = [line for line in cell.source.splitlines() if line.strip()]
            spoken = [line for line in lines if not line.startswith("from bdl_lessons.panels ")]
            total += CODE_LINE_MINUTES * len(spoken)
        if any("image/png" in output.get("data", {}) for output in cell.outputs):
            total += PICTURE_MINUTES
    return total


def spoken_words(markdown: str) -> int:
    """Words read aloud: no folds, no code, no displayed formulas; an inline formula is one word."""
    text = re.sub(
        r"<details>.*?</details>|```.*?```|\$\$.*?\$\$|<[^>]+>", " ", markdown, flags=re.S
    )
    text = re.sub(r"\$[^$]+\$", " formula ", text)
    text = re.sub(r"\]\([^)]*\)", " ", text)
    return len(re.findall(r"[^\W_]+(?:['’.–-][^\W_]+)*", text))


def displayed_formulas(markdown: str) -> int:
    """Lines of the displayed formulas."""
    displays = re.findall(r"\$\$(.*?)\$\$", markdown, re.S)
    return sum(len(re.split(r"\\\\", re.sub(r"\\\\\s*$", "", part.strip()))) for part in displays)
