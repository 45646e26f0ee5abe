"""What a lesson of the second edition owes its reader: brevity, numbers, terms and symbols.

Like ``guards``, each guard yields one sentence for each thing that is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

from nbformat import NotebookNode

from bdl_lessons.course.symbols import SYMBOLS
from tools import generated, timing
from tools.lesson_plans import ROLES
from tools.metadata import main_path, sections_of, summary
from tools.vocabulary import dialect

MAX_LINES, MAX_METHOD_LINES = 25, 15
MAX_SLIDE_WORDS = 90
LECTURE_MINUTES = (45, 55)
MAX_MAIN_CELLS = 45
NUMBER = re.compile(r"\d\.\d|\de-?\d")
KNOWN = re.compile(r"^ok   |^\d\d\.\d |^Hint")
PLOT = re.compile(r"\bshow\(|\.subplots\(")


def code_cells(notebook: NotebookNode, path: Path) -> Iterator[str]:
    methods = 0
    for index, cell in enumerate(c for c in notebook.cells if c.cell_type == "code"):
        tags = set(cell.metadata.get("tags", []))
        hidden = "hide-input" in tags
        if hidden != bool(cell.metadata.get("jupyter", {}).get("source_hidden")):
            yield f"{cell.id}: the tag hide-input and jupyter.source_hidden go together"
        if hidden != bool(PLOT.search(cell.source) or index == 0):
            kind = "stands open" if not hidden else "is hidden"
            yield f"{cell.id}: cells that draw and the first cell are hidden, others not; it {kind}"
        methods += "method" in tags
        most = MAX_METHOD_LINES if "method" in tags else MAX_LINES
        lines = len(cell.source.strip().splitlines())
        if lines > most and not hidden:
            yield f"{cell.id}: {lines} lines of code, the limit is {most}"
    if not methods and not path.name.startswith(("00", "90")):
        yield "no cell is tagged 'method': the lesson's own method must be built in view"


def numbers(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """A measured number is shown by ``check`` or ``ResultsTable``, whose digits are masked."""
    for cell in notebook.cells:
        if cell.cell_type != "code" or "nbval-ignore-output" in cell.metadata.get("tags", []):
            continue
        for output in cell.outputs:
            data = output.get("data", {})
            if {"image/png", "text/markdown"} & {*data}:
                continue
            shown = output.get("text", "") + data.get("text/plain", "")
            for line in shown.splitlines() if "┃" not in shown else []:
                if NUMBER.search(line) and not KNOWN.search(line):
                    yield f"{cell.id}: a number outside of check and ResultsTable: {line[:60]!r}"


def minutes(notebook: NotebookNode, path: Path) -> Iterator[str]:
    timed = deepcopy(notebook)
    timing.fill(timed)
    sections, measured = (sections_of(each.cells) for each in (notebook, timed))
    for stored, fresh in zip(sections, measured, strict=True):
        if stored.minutes != fresh.minutes:
            yield f"{stored.name}: {stored.minutes} min stored, {fresh.minutes} timed; run rebuild"
    if (line := summary(sections)) not in notebook.cells[0].source:
        yield f"the first cell must say '{line}'"
    if path.name.startswith("00"):
        return
    low, high = main_path(sections)
    if not LECTURE_MINUTES[0] <= (low + high) / 2 <= LECTURE_MINUTES[1]:
        yield f"the main path takes {low} to {high} minutes, it must be {LECTURE_MINUTES}"
    roles = [role for section in sections if not section.deeper for role in section.roles]
    if missing := ROLES - {*roles}:
        yield f"no section on the main path has the role {', '.join(sorted(missing))}"
    sources = [cell.source for cell in notebook.cells]
    behind = next((i for i, s in enumerate(sources) if s.startswith("## Going deeper")), None)
    if behind is None:
        yield "no section '## Going deeper' behind the recap"
    elif behind > MAX_MAIN_CELLS:
        yield f"{behind} cells on the main path, the limit is {MAX_MAIN_CELLS}"


def slides(notebook: NotebookNode, path: Path) -> Iterator[str]:
    words, first = 0, ""
    for cell in [*_written(notebook), None]:
        kind = cell.metadata.get("slideshow", {}).get("slide_type") if cell else "slide"
        if kind in {"slide", "subslide"}:
            if words > MAX_SLIDE_WORDS:
                yield f"{first}: {words} words on one slide, the limit is {MAX_SLIDE_WORDS}"
            words, first = 0, cell.id if cell else ""
        if cell and cell.cell_type == "markdown" and kind not in {"skip", "notes"}:
            words += timing.spoken_words(cell.source)


def terms(notebook: NotebookNode, path: Path) -> Iterator[str]:
    for cell in _written(notebook):
        if cell.cell_type == "markdown":
            yield from (f"{cell.id}: {found}" for found in dialect(cell.source))


def symbols(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """Every letter of a formula stands in the table of symbols, from its lesson on."""
    last = "99" if path.name.startswith("00") else path.name[:2]
    known = set().union(*(letters(s.latex) for s in SYMBOLS if s.lesson <= last))
    for cell in _written(notebook):
        if cell.cell_type != "markdown":
            continue
        for parts in re.findall(r"\$\$(.+?)\$\$|\$(.+?)\$", cell.source, re.S):
            formula = "".join(parts).strip()
            if unknown := letters(formula) - known:
                yield f"{cell.id}: {sorted(unknown)} in {formula[:50]!r} not in symbols"
            if re.search(r"\\sigma\s*(?:\\big|\\Big|\\left)?\(", formula):
                yield f"{cell.id}: σ is a standard deviation; a nonlinearity is φ"


def letters(formula: str) -> set[str]:
    """The Latin and Greek letters of a formula that stand for a quantity."""
    formula = NO_QUANTITY.sub(" ", formula)
    macros = set(re.findall(r"\\([A-Za-z]+)", formula))
    plain = set(re.findall(r"[A-Za-z]", re.sub(r"\\[A-Za-z]+", " ", formula)))
    return plain - {"d", "e"} | {f"\\{macro}" for macro in macros & GREEK}


NO_QUANTITY = re.compile(
    r"\\(?:begin|end)\{\w+\*?\}|\\(?:text|mathrm|operatorname)\{[^}]*\}|\\math(?:bb|cal)\s*\{?\w\}?"
)
GREEK = {
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "varepsilon",
    "zeta",
    "eta",
    "theta",
    "vartheta",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "rho",
    "sigma",
    "tau",
    "phi",
    "varphi",
    "chi",
    "psi",
    "omega",
    "ell",
    "Gamma",
    "Delta",
    "Theta",
    "Lambda",
    "Xi",
    "Pi",
    "Sigma",
    "Phi",
    "Psi",
    "Omega",
}
GUARDS = (code_cells, numbers, minutes, slides, terms, symbols)
OF_THE_INDEX = (code_cells, slides, terms, symbols)  # tables for a lecturer, no lesson


def _written(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells that a person writes: not those that follow from other lessons."""
    return [cell for cell in notebook.cells if not generated.is_generated(cell)]
