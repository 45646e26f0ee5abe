"""What a committed notebook must be. Each guard yields one sentence for each thing that is wrong.

Strict output comparison says nothing about a cell that was never run, a panel without a picture,
a section without a time, or what a reader is owed: brevity, numbers, terms and symbols. These
guards do, without executing anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

from nbformat import NotebookNode

from bdl_lessons.course.symbols import SYMBOLS
from bdl_lessons.exercises import __all__ as FOR_READERS
from tools import form, metadata, references, render, selftest, timing
from tools.instructor import GENERATED, ROLES
from tools.metadata import sections_of
from tools.notebook import code_of, tags_of, text
from tools.vocabulary import dialect

FORM = (form.stage, form.slide_contents, form.slide_notes, form.code)
MAX_BYTES = 1_000_000
TAGS = {
    "answer",
    "exercise",
    "hide-input",
    "idea",
    "method",
    "nbval-ignore-output",
    "open-question",
    "panel",
    "question",
    "references",
    "self-test",
    "task",
}
SLIDES = {"slide", "subslide", "fragment", "skip", "-"}
REQUIRED = {"minutes", "mode"}
OPTIONAL = {"role", "activity", "alone", "part"}
MODES = {"lecture", "pair", "solo"}
PARTS = {"exercises", "deeper"}
MAX_LINES = 25
MAX_METHOD_LINES = 15
NUMBER = re.compile(r"\d\.\d|\de-?\d")
KNOWN = re.compile(r"^ok   |^\d\d\.\d |^Hint|^ {5}[^│]*│ *│ *$")  # a long claim goes on
PLOT = re.compile(r"\bshow\(|\.subplots\(|^playground\(", re.MULTILINE)
NO_QUANTITY = re.compile(
    r"\\(?:begin|end)\{\w+\*?\}|\\(?:text|mathrm|operatorname)\{[^}]*\}|\\math(?:bb|cal)\s*\{?\w\}?"
)
GREEK = re.compile(
    "(?:var)?(?:alpha|beta|gamma|delta|epsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|rho|sigma|tau"
    "|phi|chi|psi|omega)|ell|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Phi|Psi|Omega"
)
LINK_OR_CODE = re.compile(r"(\[[^\]]*\]\([^)]*\))|```.*?```|`[^`]*`", re.S)
MENTION = re.compile(r"\b[Ll]essons?\s(?:§|\d\d)(?:(?:,|,? and|,? or| to)\s(?:§|\d\d\b(?!\.)))*")
LABELLED = re.compile(r"\[(?:[Ll]essons? )?(\d\d)\b[^\]]*\]\((\d\d)_")
PRIVATE_PATH = re.compile(r"/(?:home|root|Users|tmp)/|[A-Z]:\\\\Users")


def problems(notebook: NotebookNode, path: Path) -> list[str]:
    """Everything that is wrong with the notebook, in the order of the guards."""
    guards = [
        generated_text,
        outputs,
        marks,
        times,
        size,
        links,
        mentions,
        code_cells,
        terms,
        symbols,
    ]
    if not metadata.Lesson(path).is_index:
        guards += [numbers, minutes, helpers, self_test, citations]
        guards += FORM
    if path.name[:2] not in {"00", "90"}:
        guards.append(skeleton)
    every = []
    for guard in guards:
        every += [f"{path.name}: {problem}" for problem in guard(notebook, path)]
    return every


def generated_text(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """What is rendered from the records and the lessons says what they say now."""
    for cell, fresh in render.generated(notebook, path):
        if cell.source != fresh:
            yield f"{cell.id}: the rendered text is out of date; run render"


def outputs(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """Everything was run once, in order, and nothing stored belongs to one machine or one run."""
    counts = [cell.execution_count for cell in code_of(notebook)]
    if counts != list(range(1, len(counts) + 1)):
        yield f"execution counts must be 1..{len(counts)}, found {counts}; run rebuild"
    for cell in code_of(notebook):
        for output in cell.outputs:
            yield from (f"{cell.id}: {fault}" for fault in _stored(output))


def _stored(output: NotebookNode) -> Iterator[str]:
    """What of an output belongs to one machine or one run."""
    data = output.get("data", {})
    stream = output.get("text", "")
    shown = stream + str(data.get("text/plain", ""))
    if output.get("name") == "stderr":
        yield f"stderr is stored: {stream.strip()[:80]!r}"
    if "image/svg+xml" in data:
        yield "SVG holds dates and random ids; use PNG"
    if PRIVATE_PATH.search(shown):
        yield "a path of the author's machine is stored"
    if re.search(r"0x[0-9a-f]{6,}", shown):
        yield "an object's address is stored"


def marks(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """Tags and slide types are known, and every panel has its picture."""
    for cell in notebook.cells:
        unknown = tags_of(cell) - TAGS - GENERATED
        if unknown:
            yield f"{cell.id}: unknown tags {sorted(unknown)}; known are {sorted(TAGS)}"
        kind = cell.metadata.get("slideshow", {}).get("slide_type")
        if kind not in SLIDES:
            yield f"{cell.id}: slide type is {kind!r}, must be one of {sorted(SLIDES)}"
        if "panel" in tags_of(cell) and not timing.has_picture(cell):
            yield f"{cell.id}: the panel has no still picture"
    ignored = [cell.id for cell in notebook.cells if "nbval-ignore-output" in tags_of(cell)]
    if len(ignored) > 1:
        yield f"one ignored output is allowed, found {ignored}"


def times(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """Every section says in its metadata how long it takes, how it is taught, and what it is."""
    for cell in notebook.cells:
        if not cell.source.startswith("## "):
            continue
        opened = cell.metadata.get("bdl")
        if not opened or set(opened) - OPTIONAL != REQUIRED:
            yield f"{cell.id}: the section has no bdl metadata with minutes and mode"
            continue
        unknown = set(opened.get("role", [])) - ROLES
        if unknown:
            yield f"{cell.id}: unknown roles {sorted(unknown)}; known are {sorted(ROLES)}"
        part = opened.get("part", "")
        if part and part not in PARTS:
            yield f"{cell.id}: part is {part!r}, must be one of {sorted(PARTS)}"
        low, high = opened["minutes"]
        if not 0 < low <= high:
            yield f"{cell.id}: minutes must be a range like [6, 8], got {opened['minutes']}"
        if opened["mode"] not in MODES:
            yield f"{cell.id}: mode is {opened['mode']!r}, must be one of {sorted(MODES)}"


def size(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """A notebook opens fast and travels light."""
    n_bytes = len(text(notebook).encode())
    if n_bytes > MAX_BYTES:
        yield f"{n_bytes / 1e6:.2f} MB, the limit is {MAX_BYTES / 1e6:.0f} MB"


def code_cells(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """Cells can be replayed, are short, and hide what draws."""
    for index, cell in enumerate(code_of(notebook)):
        if re.search(r"^\s*[!%]|clear_output|interactive_output|@interact\b", cell.source, re.M):
            yield f"{cell.id}: magics, shell commands, interact and clear_output are not replayable"
        hidden = "hide-input" in tags_of(cell)
        if hidden != bool(cell.metadata.get("jupyter", {}).get("source_hidden")):
            yield f"{cell.id}: the tag hide-input and jupyter.source_hidden go together"
        is_plumbing = index == 0 or PLOT.search(cell.source) is not None
        if hidden != is_plumbing:
            kind = "is hidden" if hidden else "stands open"
            yield f"{cell.id}: cells that draw and the first cell are hidden, others not; it {kind}"
        limit = MAX_METHOD_LINES if "method" in tags_of(cell) else MAX_LINES
        n_lines = len(cell.source.strip().splitlines())
        if n_lines > limit and not hidden:
            yield f"{cell.id}: {n_lines} lines of code, the limit is {limit}"


def numbers(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """A measured number is shown by ``check`` or ``ResultsTable``, whose digits are masked."""
    for cell in code_of(notebook):
        if "nbval-ignore-output" in tags_of(cell):
            continue
        for output in cell.outputs:
            data = output.get("data", {})
            shown = output.get("text", "") + data.get("text/plain", "")
            is_table = "text/markdown" in data or "┃" in shown
            if is_table or "image/png" in data:
                continue
            for line in shown.splitlines():
                if NUMBER.search(line) and not KNOWN.search(line):
                    yield f"{cell.id}: a number outside of check and ResultsTable: {line[:60]!r}"


def minutes(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """The stored minutes are those that are counted, and the sections play every part."""
    timed = deepcopy(notebook)
    timing.fill(timed, metadata.notes(path))
    sections = sections_of(notebook.cells)
    for stored, fresh in zip(sections, sections_of(timed.cells), strict=True):
        if (stored.minutes, stored.alone) != (fresh.minutes, fresh.alone):
            yield f"{stored.name}: {stored.minutes} min stored, {fresh.minutes} timed; run rebuild"
    if path.name.startswith("00"):
        return
    roles = {role for section in sections if not section.deeper for role in section.roles}
    missing = ROLES - roles
    if missing:
        yield f"no section before the recap has the role {', '.join(sorted(missing))}"
    if not any(section.deeper for section in sections):
        yield "no section has the part 'deeper'"


def terms(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """The text speaks the language of the field."""
    for cell in _written(notebook):
        yield from (f"{cell.id}: {word}" for word in dialect(cell.source))


def symbols(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """Every letter of a formula stands in the table of symbols, from its lesson on."""
    last = "99" if path.name.startswith("00") else path.name[:2]
    known: set[str] = set()
    for symbol in SYMBOLS:
        if symbol.lesson <= last:
            known |= letters(symbol.latex)
    for cell in _written(notebook):
        for parts in re.findall(r"\$\$(.+?)\$\$|\$(.+?)\$", cell.source, re.S):
            formula = "".join(parts).strip()
            unknown = letters(formula) - known
            if unknown:
                yield f"{cell.id}: {sorted(unknown)} in {formula[:50]!r} not in symbols"
            if re.search(r"\\sigma\s*(?:\\big|\\Big|\\left)?\(", formula):
                yield f"{cell.id}: σ is a standard deviation; a nonlinearity is φ"


def letters(formula: str) -> set[str]:
    """The Latin and Greek letters of a formula that stand for a quantity."""
    formula = NO_QUANTITY.sub(" ", formula)
    macros = re.findall(r"\\([A-Za-z]+)", formula)
    without_macros = re.sub(r"\\[A-Za-z]+", " ", formula)
    latin = set(re.findall(r"[A-Za-z]", without_macros)) - {"d", "e"}
    greek = {f"\\{macro}" for macro in macros if GREEK.fullmatch(macro)}
    return latin | greek


def links(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """Every link to a file leads to one."""
    for cell in _markdown(notebook):
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", cell.source):
            if "://" not in target and not (path.parent / target).exists():
                yield f"{cell.id}: the link to {target} leads nowhere"


def mentions(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """Every mention of another lesson is a link, and leads to the lesson that it names."""
    number = path.name[:2]
    for cell in _written(notebook):
        for label, target in LABELLED.findall(cell.source):
            if label != target:
                yield f"{cell.id}: a link says lesson {label} and leads to {target}"
        for other in plain_mentions(cell.source):
            if other != number:
                yield f"{cell.id}: lesson {other} is named without a link to its notebook"


def plain_mentions(markdown: str) -> list[str]:
    """The numbers of lessons that a text names without a link, in code and formulas not counted.

    >>> plain_mentions("As in lessons 07 and [08](08_sparse.ipynb), and in `lesson 05`.")
    ['07']
    """
    prose = LINK_OR_CODE.sub(lambda match: "§" if match[1] else "", markdown)
    numbers = []
    for mention in MENTION.findall(prose):
        numbers += re.findall(r"\d\d", mention)
    return numbers


def citations(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """A paper is cited with a link to it, and every such link is one of the bibliography."""
    if not any("references" in tags_of(cell) for cell in notebook.cells):
        return
    record = metadata.Lesson(path).record
    for cell in _written(notebook):
        for words, entry in references.cited_without_link(cell.source, record):
            _, target = entry.links[0]
            yield f"{cell.id}: {words!r} is cited without a link; it is at {target}"
        for target in references.foreign_links(cell.source):
            yield f"{cell.id}: {target} is no address of docs/references.toml: add its entry"


def helpers(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """What texts and stubs tell readers to call, such as hint("01.1"), is imported."""
    stored = text(notebook)
    for name in FOR_READERS:
        is_imported = re.search(rf"\bimport .*\b{name}\b", stored)
        if f'{name}(\\"' in stored and not is_imported:
            yield f"readers are told to call {name}(): import it"


def self_test(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """What ``tools.selftest`` says of the record."""
    yield from selftest.problems(metadata.Lesson(path).record)


def skeleton(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """A lesson builds its method in view, has a panel, and says how long its exercises take."""
    for tag in ("panel", "method", "question", "open-question"):
        if not any(tag in tags_of(cell) for cell in notebook.cells):
            yield f"no cell is tagged {tag!r}"
    stated = metadata.Lesson(path).record.exercise_minutes
    stubs = [cell for cell in notebook.cells if "exercise" in tags_of(cell)]
    if len(stubs) != len(stated):
        yield f"{len(stubs)} exercises, and exercise_minutes of the record has {len(stated)}"
        return
    for stub, minutes in zip(stubs, stated, strict=True):
        if f"({minutes} minutes)" not in stub.source:
            yield f"{stub.id}: the stub does not say ({minutes} minutes), as its record does"
    for section in sections_of(notebook.cells):
        if section.part != "exercises":
            continue
        low, high = section.minutes
        if not low <= sum(stated) < high:
            yield f"the exercises take {sum(stated)} minutes, their section ({low}, {high})"


def _markdown(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "markdown"]


def _written(notebook: NotebookNode) -> list[NotebookNode]:
    """The text that a person writes, without what follows from other lessons."""
    return [cell for cell in _markdown(notebook) if not tags_of(cell) & GENERATED]
