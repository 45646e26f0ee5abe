"""The form of a lesson's stage: its clock, its slides, their notes, and code a class can read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from tools import metadata, replay, timing
from tools.metadata import minutes, sections_of
from tools.notebook import code_of, tags_of

STAGE_MINUTES, MAX_SLIDES = 50, 24
MOST = {"words": 60, "lines of formulas": 4, "lines of code": 12, "pictures": 1}  # on a slide
MAX_COLUMNS, MAX_PATH_LINES = 82, 110
_EFFECTS = {"append", "extend", "update", "add", "step", "backward"}


def stage(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """At most 50 minutes and 24 slides, one idea picture, nothing from behind the recap."""
    low, high = minutes(sections_of(notebook.cells))["lecture"]
    if (low + high) / 2 > STAGE_MINUTES:
        yield f"the stage takes {low} to {high} minutes, at most {STAGE_MINUTES} are allowed"
    if (n_slides := len(metadata.slides(notebook))) > MAX_SLIDES:
        yield f"the stage has {n_slides} slides, at most {MAX_SLIDES} are allowed"
    ideas = [cell for cell in notebook.cells if "idea" in tags_of(cell)]
    if len(ideas) != 1 or not timing.has_picture(ideas[0]):
        yield "one cell, which draws a picture, must have the tag 'idea'"
    for cells in timing.sections(notebook):
        if timing.part_of(cells) == "deeper":
            for cell in filter(timing.on_stage, cells):
                yield f"{cell.id}: what stands behind the recap is on the page alone (type skip)"


def slide_contents(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """A slide holds one thing: few words with formulas, code, or one picture."""
    section = ""
    for cells in metadata.slides(notebook)[1:]:
        name = cells[0].id
        texts = [c for c in cells if c.cell_type == "markdown"]
        section = metadata.slide_heading(cells) or section
        if not section:
            yield f"slide {name}: no heading, neither its own nor of its section"
        counts = {
            "words": sum(timing.spoken_words(timing.without_folds(c.source)) for c in texts),
            "lines of formulas": sum(timing.displayed_formulas(c.source) for c in texts),
            "lines of code": sum(len(timing.visible_lines(c)) for c in cells),
            "pictures": sum(map(timing.has_picture, cells)),
        }
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


def slide_notes(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """Every slide has its note, and every note its slide."""
    written = metadata.notes(path)
    opening = {cells[0].id for cells in metadata.slides(notebook)}
    for cell_id in sorted(opening - {*filter(written.get, written)}):
        yield f"slide {cell_id}: no note for the lecturer in notebooks/notes"
    for cell_id in written.keys() - opening:
        yield f"notebooks/notes: {cell_id} opens no slide"


def code(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """Visible code of the main path, and what a class cannot read."""
    total = 0
    for cells in timing.sections(notebook):
        if timing.part_of(cells):
            break
        total += sum(len(timing.visible_lines(c)) for c in cells if c.cell_type == "code")
    if total > MAX_PATH_LINES:
        yield f"{total} lines of visible code on the main path, {MAX_PATH_LINES} are allowed"
    kinds: dict[str, set[str]] = {}
    for cell in code_of(notebook):
        tree = ast.parse(cell.source)
        for problem in () if "hide-input" in tags_of(cell) else unreadable(tree):
            yield f"{cell.id}: {problem}"
        if "method" in tags_of(cell) and not any(replay.breaks(cell)):
            yield f"{cell.id}: a method in which no break can be planted"
        for name, kind in _bound(tree):
            kinds.setdefault(name, set()).add(kind)
    for name, meanings in kinds.items():
        if len(meanings) > 1:
            yield f"the name {name!r} has two meanings: {' and '.join(sorted(meanings))}"


def unreadable(tree: ast.AST) -> Iterator[str]:
    """Nested comprehensions, lines with two statements, expressions that are there for what they
    do."""
    comprehension = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    lines = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    for line in sorted({line for line in lines if lines.count(line) > 1}):
        yield f"two statements in line {line}"
    for node in ast.walk(tree):
        parts = [*ast.walk(node)]
        if isinstance(node, comprehension) and any(isinstance(p, comprehension) for p in parts[1:]):
            yield f"a comprehension within another: {ast.unparse(node)[:60]}"
        alone = isinstance(node, ast.Expr) and node.value
        called = {getattr(p.func, "attr", "") for p in parts if isinstance(p, ast.Call)}
        inside = isinstance(node, (ast.Lambda, ast.BoolOp, ast.IfExp, *comprehension))
        acts = inside and called & _EFFECTS
        if isinstance(alone, (*comprehension, ast.BoolOp, ast.IfExp)) or acts:
            yield f"a statement inside an expression: {ast.unparse(node)[:60]}"


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
