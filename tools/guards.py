"""What a committed notebook must be. Each guard yields one sentence for each thing that is wrong.

Strict output comparison says nothing about a cell that was never run, a panel without a picture
or a section without a time. These guards do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from tools import generated, reader_guards
from tools.lesson_plans import ROLES
from tools.metadata import SECOND_EDITION
from tools.notebook import WIDGET_VIEW, text

MAX_BYTES = 1_000_000
MAX_CELLS = 60
MAX_IMPORTS = 8
TAGS = {
    "panel",
    "exercise",
    "instructor",
    "hide-input",
    "method",
    "nbval-ignore-output",
    "raises-exception",
}
SLIDES = {"slide", "subslide", "fragment", "skip", "notes", "-"}
MODES = {"lecture", "pair", "solo"}
HEADINGS = ("Predict", "Spot the bug", "Exercises", "Where this breaks", "Recap", "Going deeper")
IMPORT = re.compile(r"^(?:from|import) (bdl_lessons[\w.]*)(?: import (\([^)]*\)|.*))?", re.M)
PRIVATE_PATH = re.compile(r"/(?:home|root|Users|tmp)/|[A-Z]:\\\\Users")


def problems(notebook: NotebookNode, path: Path) -> list[str]:
    """Everything that is wrong with the notebook, in the order of the guards below."""
    guards = [
        generated_text,
        execution,
        outputs,
        panels,
        tags,
        slides,
        times,
        size,
        sources,
        imports,
        links,
    ]
    if path.name[:2] not in {"00", "90"}:
        guards.append(skeleton)
    if path.name[:2] in SECOND_EDITION:
        guards += reader_guards.GUARDS
    if path.name.startswith("90"):
        guards += reader_guards.OF_THE_INDEX
    return [f"{path.name}: {problem}" for guard in guards for problem in guard(notebook, path)]


def generated_text(notebook: NotebookNode, path: Path) -> Iterator[str]:
    for name in generated.stale(notebook):
        yield f"the generated cell {name!r} is out of date; run rebuild"


def execution(notebook: NotebookNode, path: Path) -> Iterator[str]:
    counts = [cell.execution_count for cell in _code(notebook)]
    if counts != list(range(1, len(counts) + 1)):
        yield f"execution counts must be 1..{len(counts)}, found {counts}; run rebuild"


def outputs(notebook: NotebookNode, path: Path) -> Iterator[str]:
    if "widgets" in notebook.metadata:
        yield "metadata.widgets is stored; run rebuild"
    for cell in _code(notebook):
        for output in cell.outputs:
            if output.output_type == "error" and "raises-exception" not in _tags(cell):
                yield f"{cell.id}: an error is stored"
            if output.get("name") == "stderr":
                yield f"{cell.id}: stderr is stored: {output.text.strip()[:80]!r}"
            if WIDGET_VIEW in output.get("data", {}):
                yield f"{cell.id}: a widget view is stored; run rebuild"
            if "image/svg+xml" in output.get("data", {}):
                yield f"{cell.id}: SVG holds dates and random ids; use PNG"
            shown = output.get("text", "") + str(output.get("data", {}).get("text/plain", ""))
            if PRIVATE_PATH.search(shown):
                yield f"{cell.id}: a path of the author's machine is stored"
            if re.search(r"0x[0-9a-f]{6,}", shown):
                yield f"{cell.id}: an object's address is stored"


def panels(notebook: NotebookNode, path: Path) -> Iterator[str]:
    for cell in _code(notebook):
        pictures = any("image/png" in output.get("data", {}) for output in cell.outputs)
        if "panel" in _tags(cell) and not pictures:
            yield f"{cell.id}: the panel has no still picture"


def tags(notebook: NotebookNode, path: Path) -> Iterator[str]:
    for cell in notebook.cells:
        if unknown := _tags(cell) - TAGS - generated.tags():
            yield f"{cell.id}: unknown tags {sorted(unknown)}; known are {sorted(TAGS)}"
    ignored = [cell.id for cell in notebook.cells if "nbval-ignore-output" in _tags(cell)]
    if len(ignored) > 1:
        yield f"one ignored output is allowed, found {ignored}"


def slides(notebook: NotebookNode, path: Path) -> Iterator[str]:
    for cell in notebook.cells:
        kind = cell.metadata.get("slideshow", {}).get("slide_type")
        if kind not in SLIDES:
            yield f"{cell.id}: slide type is {kind!r}, must be one of {sorted(SLIDES)}"
        if ("instructor" in _tags(cell)) != (kind == "notes"):
            yield f"{cell.id}: instructor notes are tagged 'instructor' and have slide type 'notes'"


def times(notebook: NotebookNode, path: Path) -> Iterator[str]:
    sections = [cell for cell in notebook.cells if cell.source.startswith("## ")]
    low = high = 0
    for cell in sections:
        timing = cell.metadata.get("bdl")
        if not timing or set(timing) - {"role", "activity"} != {"minutes", "mode", "section"}:
            yield f"{cell.id}: the section has no bdl metadata with minutes, mode and section"
            continue
        if unknown := set(timing.get("role", [])) - ROLES:
            yield f"{cell.id}: unknown roles {sorted(unknown)}; known are {sorted(ROLES)}"
        first, last = timing["minutes"]
        if not 0 < first <= last:
            yield f"{cell.id}: minutes must be a range like [6, 8], got {timing['minutes']}"
        if timing["mode"] not in MODES:
            yield f"{cell.id}: mode is {timing['mode']!r}, must be one of {sorted(MODES)}"
        low, high = low + first, high + last
    stated = re.search(r"(\d+)–(\d+) min", notebook.cells[0].source)
    second = path.name[:2] in SECOND_EDITION
    if not second and (not stated or (int(stated[1]), int(stated[2])) != (low, high)):
        found = stated[0] if stated else "nothing"
        yield f"the first cell must say '{low}–{high} min', the sum of its sections; found {found}"
    for cell in notebook.cells:
        if "bdl" in cell.metadata and cell not in sections:
            yield f"{cell.id}: bdl metadata belongs on a cell that opens a section with '## '"


def size(notebook: NotebookNode, path: Path) -> Iterator[str]:
    if (length := len(text(notebook).encode())) > MAX_BYTES:
        yield f"{length / 1e6:.2f} MB, the limit is {MAX_BYTES / 1e6:.0f} MB"
    if len(notebook.cells) > MAX_CELLS:
        yield f"{len(notebook.cells)} cells, the limit is {MAX_CELLS}"


def sources(notebook: NotebookNode, path: Path) -> Iterator[str]:
    for cell in _code(notebook):
        lines = cell.source.strip().splitlines() or [""]
        if lines[-1].rstrip().endswith(";"):
            yield f"{cell.id}: a trailing ';' does not silence output when the lesson is checked"
        if re.search(r"^\s*[!%]|clear_output|interactive_output|@interact\b", cell.source, re.M):
            yield f"{cell.id}: magics, shell commands, interact and clear_output are not replayable"


def imports(notebook: NotebookNode, path: Path) -> Iterator[str]:
    found = [(cell.id, IMPORT.findall(cell.source)) for cell in _code(notebook)]
    if (number := sum(len(statements) for _, statements in found)) > MAX_IMPORTS:
        yield f"{number} imports from bdl_lessons, the limit is {MAX_IMPORTS}: use its subpackages"
    for cell_id, statements in found:
        modules = [module for module, _ in statements]
        names = [re.findall(r"\w[\w ]*", names) for _, names in statements]
        if modules != sorted(modules) or any(n != sorted(n, key=_kind) for n in names):
            yield f"{cell_id}: imports are not sorted by subpackage, CONSTANTS, Classes, functions"


def _kind(name: str) -> tuple[int, str]:
    """Constants before classes before the rest, each by name: the order of isort."""
    first = name.partition(" ")[0]
    return (0 if first.isupper() and len(first) > 1 else 1 if first[0].isupper() else 2, name)


def links(notebook: NotebookNode, path: Path) -> Iterator[str]:
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", cell.source):
            if "://" not in target and not (path.parent / target).exists():
                yield f"{cell.id}: the link to {target} leads nowhere"


def skeleton(notebook: NotebookNode, path: Path) -> Iterator[str]:
    if not re.match(r"# \d\d · \S", notebook.cells[0].source):
        yield "the title must read '# NN · Claim'"
    headings = [
        line.removeprefix("## ")
        for cell in notebook.cells
        for line in cell.source.splitlines()
        if cell.cell_type == "markdown" and line.startswith("## ")
    ]
    found = [heading for heading in headings if heading.startswith(HEADINGS)]
    missing = [wanted for wanted in HEADINGS[:-1] if not any(h.startswith(wanted) for h in found)]
    if missing:
        yield f"sections missing: {', '.join(missing)}"
    order = [next(i for i, h in enumerate(HEADINGS) if found_h.startswith(h)) for found_h in found]
    if order != sorted(order):
        yield f"sections out of order: {found}"
    if not any("panel" in _tags(cell) for cell in notebook.cells):
        yield "a lesson has at least one cell tagged 'panel'"
    exercises = sum("exercise" in _tags(cell) for cell in notebook.cells)
    if not 3 <= exercises <= 5:
        yield f"a lesson has 3 to 5 exercises, found {exercises}"


def _code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _tags(cell: NotebookNode) -> set[str]:
    return set(cell.metadata.get("tags", []))
