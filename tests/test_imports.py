"""Imports point one way: ``tools`` → ``reproductions`` → ``bdl_lessons``, and down inside the last.

A subpackage of ``bdl_lessons`` imports only from those that the docstring of its ``__init__``
names. That line, ``Imports: …``, is the one source: the table in the README is made from it.
"""

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "bdl_lessons"
ABOVE = {"bdl_lessons": set(), "reproductions": {"bdl_lessons"}}
ABOVE["tools"] = {"bdl_lessons", "reproductions"}
SUBPACKAGES = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))
MODULES = sorted(path for subpackage in SUBPACKAGES for path in subpackage.rglob("*.py"))
ALL = sorted(path for package in ABOVE for path in (ROOT / package).rglob("*.py"))


def named_by(subpackage):
    docstring = ast.get_docstring(ast.parse((subpackage / "__init__.py").read_text())) or ""
    line = re.search(r"^Imports: (.+)\.$", docstring, re.MULTILINE)
    assert line, f"the docstring of {subpackage.name} must end with 'Imports: …'"
    return set() if line[1] == "nothing" else set(line[1].split(", "))


NAMED = {subpackage.name: named_by(subpackage) for subpackage in SUBPACKAGES}


def below(name, on_the_way=()):
    assert name not in on_the_way, f"a circle: {' -> '.join([*on_the_way, name])}"
    return NAMED[name].union(*(below(other, (*on_the_way, name)) for other in NAMED[name]))


def imported(code):
    """Dotted names that a module or a notebook imports."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("subpackage", [subpackage.name for subpackage in SUBPACKAGES])
def test_no_subpackage_needs_itself(subpackage):
    assert below(subpackage) <= NAMED.keys()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_within_the_package_only_go_down(path):
    here = path.relative_to(PACKAGE).parts[0]
    names = [name.split(".") for name in imported(path.read_text())]
    found = {name[1] for name in names if name[0] == "bdl_lessons" and len(name) > 1}
    assert found <= below(here) | {here}


@pytest.mark.parametrize("path", ALL, ids=lambda path: str(path.relative_to(ROOT)))
def test_arrows_point_from_tools_to_reproductions_to_the_package(path):
    here = path.relative_to(ROOT).parts[0]
    found = {name.partition(".")[0] for name in imported(path.read_text())} & ABOVE.keys()
    assert found <= ABOVE[here] | {here}


@pytest.mark.parametrize("path", sorted(ROOT.glob("notebooks/*.ipynb")), ids=lambda p: p.name[:2])
def test_a_lesson_imports_the_package_alone(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    found = {name.partition(".")[0] for name in imported(code)} & ABOVE.keys()
    assert found <= {"bdl_lessons"}
