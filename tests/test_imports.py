"""Imports point one way: ``tools`` → ``reproductions`` → ``bdl_lessons``, and down inside the last.

A subpackage of ``bdl_lessons`` imports only from those that the docstring of its ``__init__``
names. That line, ``Imports: …``, is the one source: the table in the README is made from it.
"""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import notebook, readme

ROOT = Path(__file__).resolve().parents[1]
ABOVE = {"bdl_lessons": set(), "reproductions": {"bdl_lessons"}}
ABOVE["tools"] = {"bdl_lessons", "reproductions"}
ALL = sorted(path for package in ABOVE for path in (ROOT / package).rglob("*.py"))


NAMED = {name: {*imports} for name, (_, imports) in readme.described().items()}


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


@pytest.mark.parametrize("subpackage", NAMED)
def test_no_subpackage_needs_itself(subpackage):
    assert below(subpackage) <= NAMED.keys()


@pytest.mark.parametrize("path", ALL, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_from_tools_to_reproductions_to_the_package_and_down_inside(path):
    here, part, *_ = path.relative_to(ROOT).parts
    names = [name.split(".") for name in imported(path.read_text())]
    assert {name[0] for name in names} & ABOVE.keys() <= ABOVE[here] | {here}
    if here == "bdl_lessons" and part in NAMED:
        subpackages = {name[1] for name in names if name[0] == "bdl_lessons" and len(name) > 1}
        assert subpackages <= below(part) | {part}


@pytest.mark.parametrize("path", notebook.paths(), ids=lambda path: path.name[:2])
def test_a_lesson_imports_the_package_alone(path):
    code = "\n".join(cell.source for cell in notebook.code_of(notebook.read(path)))
    packages = {name.partition(".")[0] for name in imported(code)} & ABOVE.keys()
    assert packages <= {"bdl_lessons"}


def test_a_reader_is_not_warned_of_what_pytorch_says_about_itself():
    said = "`torch.jit.script` is deprecated. Please switch to `torch.compile`."
    warn = f"import bdl_lessons, warnings; warnings.warn_explicit({said!r}, FutureWarning, 'x', 1)"
    process = subprocess.run([sys.executable, "-c", warn], capture_output=True, text=True, cwd=ROOT)
    assert (process.returncode, process.stderr) == (0, "")


FIRST = """\
import importlib.util
for above in ("reproductions", "tools"):
    assert importlib.util.find_spec(above) is None, above
"""


def test_every_import_and_panel_of_the_lessons_works_alone(tmp_path):
    """What lessons import and every panel, without the folders that measure and build."""
    parts = [FIRST]
    for cell in (c for path in notebook.paths() for c in notebook.code_of(notebook.read(path))):
        tree = ast.parse(cell.source)
        imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
        parts += map(ast.unparse, imports)
        if "panel" in notebook.tags_of(cell):
            *before, last = tree.body
            parts += [*map(ast.unparse, before), f"({ast.unparse(last)})._repr_mimebundle_()"]
    (tmp_path / "all.py").write_text("\n".join(parts))
    shutil.copytree(ROOT / "bdl_lessons", tmp_path / "bdl_lessons")
    shutil.copytree(ROOT / "data", tmp_path / "bdl_lessons" / "data")  # as in a wheel
    command = [sys.executable, "-P", "all.py"]
    alone = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
