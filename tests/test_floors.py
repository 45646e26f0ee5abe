"""The package is a house: a room imports only from the rooms that its own page names.

The line ``Imports: …`` in the docstring of each room's ``__init__`` is the one source. The README's
table is generated from it.
"""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "bdl_lessons"
ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))
MODULES = sorted(path for room in ROOMS for path in room.rglob("*.py"))


def named_by(room):
    docstring = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
    line = re.search(r"^Imports: (.+)\.$", docstring, re.MULTILINE)
    assert line, f"the docstring of {room.name} must end with 'Imports: …'"
    return set() if line[1] == "nothing" else set(line[1].split(", "))


NAMED = {room.name: named_by(room) for room in ROOMS}


def below(room, on_the_way=()):
    assert room not in on_the_way, f"a circle: {' -> '.join([*on_the_way, room])}"
    return NAMED[room].union(*(below(other, (*on_the_way, room)) for other in NAMED[room]))


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bdl_lessons"):
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else (alias.name for alias in node.names)


def test_there_are_nine_rooms_and_one_door():
    assert len(ROOMS) == 9
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}


@pytest.mark.parametrize("room", [room.name for room in ROOMS])
def test_the_rooms_stand_on_each_other_without_a_circle(room):
    assert below(room) <= NAMED.keys()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_only_go_down(path):
    here = path.relative_to(PACKAGE).parts[0]
    assert set(imported_rooms(path)) <= below(here) | {here}
