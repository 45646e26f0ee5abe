"""The form of a lesson's stage: its clock, its slides, their notes, and code a class can read."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from tools import metadata, replay, timing
from tools.metadata import minutes, sections_of
from tools.notebook import code_of, tags_of

STAGE_MINUTES = 50
MAX_SLIDES = 24
MOST = {"words": 60, "lines of formulas": 4, "lines of code": 12, "pictures": 1}  # on a slide
MAX_COLUMNS = 82
MAX_PATH_LINES = 110
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_EFFECTS = {"append", "extend", "update", "add", "step", "backward"}


def stage(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """At most 50 minutes and 24 slides, one idea picture, nothing from behind the recap."""
    low, high = minutes(sections_of(notebook.cells))["lecture"]
    if (low + high) / 2 > STAGE_MINUTES:
        yield f"the stage takes {low} to {high} minutes, at most {STAGE_MINUTES} are allowed"
    n_slides = len(metadata.slides(notebook))
    if n_slides > MAX_SLIDES:
        yield f"the stage has {n_slides} slides, at most {MAX_SLIDES} are allowed"
    ideas = [cell for cell in notebook.cells if "idea" in tags_of(cell)]
    if len(ideas) != 1 or not timing.has_picture(ideas[0]):
        yield "one cell, which draws a picture, must have the tag 'idea'"
    for cells in timing.sections(notebook):
        if timing.part_of(cells) != "deeper":
            continue
        for cell in cells:
            if timing.on_stage(cell):
                yield f"{cell.id}: what stands behind the recap is on the page alone (type skip)"


def slide_contents(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """A slide holds one thing: few words with formulas, code, or one picture."""
    section = ""
    for cells in metadata.slides(notebook)[1:]:
        name = cells[0].id
        section = metadata.slide_heading(cells) or section
        if not section:
            yield f"slide {name}: no heading, neither its own nor of its section"
        counts = _counts(cells)
        for what, count in counts.items():
            if count > MOST[what]:
                yield f"slide {name}: {count} {what}, at most {MOST[what]} are allowed"
        things = [what for what, count in counts.items() if count and what != "words"]
        if len(things) > 1:
            yield f"slide {name}: one thing for a slide, it has {' and '.join(things)}"
        if counts["pictures"] and not counts["words"]:
            yield f"slide {name}: a picture needs a sentence that says what to see"
        for cell in cells:
            for line in timing.visible_lines(cell):
                if len(line) > MAX_COLUMNS:
                    yield f"slide {name}: code of {len(line)} columns, {MAX_COLUMNS} fit: {line!r}"


def _counts(cells: list[NotebookNode]) -> dict[str, int]:
    """How much a slide has of each thing that ``MOST`` bounds."""
    counts = dict.fromkeys(MOST, 0)
    for cell in cells:
        if cell.cell_type == "markdown":
            text = timing.without_folds(cell.source)
            counts["words"] += timing.spoken_words(text)
            counts["lines of formulas"] += timing.displayed_formulas(cell.source)
        counts["lines of code"] += len(timing.visible_lines(cell))
        counts["pictures"] += timing.has_picture(cell)
    return counts


def slide_notes(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """Every slide has its note, and every note its slide."""
    notes = metadata.notes(path)
    with_note = {cell_id for cell_id, note in notes.items() if note}
    opening = {cells[0].id for cells in metadata.slides(notebook)}
    for cell_id in sorted(opening - with_note):
        yield f"slide {cell_id}: no note for the lecturer in notebooks/notes"
    for cell_id in notes.keys() - opening:
        yield f"notebooks/notes: {cell_id} opens no slide"


def code(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """Visible code of the main path, and what a class cannot read."""
    n_lines = _path_lines(notebook)
    if n_lines > MAX_PATH_LINES:
        yield f"{n_lines} lines of visible code on the main path, {MAX_PATH_LINES} are allowed"
    kinds: dict[str, set[str]] = {}
    for cell in code_of(notebook):
        tree = ast.parse(cell.source)
        if "hide-input" not in tags_of(cell):
            yield from (f"{cell.id}: {problem}" for problem in unreadable(tree))
        if "method" in tags_of(cell) and not any(replay.breaks(cell)):
            yield f"{cell.id}: a method in which no break can be planted"
        for name, kind in _bound(tree):
            kinds.setdefault(name, set()).add(kind)
    for name, meanings in kinds.items():
        if len(meanings) > 1:
            yield f"the name {name!r} has two meanings: {' and '.join(sorted(meanings))}"


def _path_lines(notebook: NotebookNode) -> int:
    """Lines of visible code before the exercises."""
    n_lines = 0
    for cells in timing.sections(notebook):
        if timing.part_of(cells):
            break
        for cell in cells:
            if cell.cell_type == "code":
                n_lines += len(timing.visible_lines(cell))
    return n_lines


def unreadable(tree: ast.AST) -> Iterator[str]:
    """Nested comprehensions, lines with two statements, expressions that are there for what they
    do.
    """
    n_statements = Counter(node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt))
    for line in sorted(n_statements):
        if n_statements[line] > 1:
            yield f"two statements in line {line}"
    for node in ast.walk(tree):
        if isinstance(node, _COMPREHENSIONS) and _has_another_inside(node):
            yield f"a comprehension within another: {ast.unparse(node)[:60]}"
        if _is_a_statement_in_disguise(node):
            yield f"a statement inside an expression: {ast.unparse(node)[:60]}"


def _has_another_inside(comprehension: ast.AST) -> bool:
    _, *parts = ast.walk(comprehension)
    return any(isinstance(part, _COMPREHENSIONS) for part in parts)


def _is_a_statement_in_disguise(node: ast.AST) -> bool:
    """Whether an expression stands alone, or changes something, where a statement would say so."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, (*_COMPREHENSIONS, ast.BoolOp, ast.IfExp))
    if not isinstance(node, (*_COMPREHENSIONS, ast.BoolOp, ast.IfExp, ast.Lambda)):
        return False
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)]
    return any(getattr(call.func, "attr", "") in _EFFECTS for call in calls)


def _bound(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names of a cell that are bound at its top level, and to what kind of thing."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            yield statement.name, "a function"
        elif isinstance(statement, ast.ClassDef):
            yield statement.name, "a class"
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            for alias in statement.names:
                yield (alias.asname or alias.name).partition(".")[0], "an import"
        elif isinstance(statement, ast.Assign | ast.For | ast.With):
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id, "a value"
