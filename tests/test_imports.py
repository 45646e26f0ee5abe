"""A subpackage imports only from those that the docstring of its ``__init__`` names.

That line, ``Imports: …``, is the one source: the table in the README is generated from it.
"""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "bdl_lessons"
SUBPACKAGES = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))
MODULES = sorted(path for subpackage in SUBPACKAGES for path in subpackage.rglob("*.py"))


def named_by(subpackage):
    docstring = ast.get_docstring(ast.parse((subpackage / "__init__.py").read_text())) or ""
    line = re.search(r"^Imports: (.+)\.$", docstring, re.MULTILINE)
    assert line, f"the docstring of {subpackage.name} must end with 'Imports: …'"
    return set() if line[1] == "nothing" else set(line[1].split(", "))


NAMED = {subpackage.name: named_by(subpackage) for subpackage in SUBPACKAGES}


def below(name, on_the_way=()):
    assert name not in on_the_way, f"a circle: {' -> '.join([*on_the_way, name])}"
    return NAMED[name].union(*(below(other, (*on_the_way, name)) for other in NAMED[name]))


def imported_subpackages(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bdl_lessons"):
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else (alias.name for alias in node.names)


def test_there_are_nine_subpackages_and_one_command():
    assert len(SUBPACKAGES) == 9
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}


@pytest.mark.parametrize("subpackage", [subpackage.name for subpackage in SUBPACKAGES])
def test_no_subpackage_needs_itself(subpackage):
    assert below(subpackage) <= NAMED.keys()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_only_go_down(path):
    here = path.relative_to(PACKAGE).parts[0]
    assert set(imported_subpackages(path)) <= below(here) | {here}
