"""A wheel installed somewhere else, without the repository, has all that the lessons import."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from bdl_lessons.core.files import ROOT
from tools import notebook

SCRIPT = """
import ast
import importlib.util
import json
from pathlib import Path

import bdl_lessons
from bdl_lessons.datasets import co2, load_records, published_table
from bdl_lessons.panels import arrays

assert Path(bdl_lessons.__file__).parents[1] == Path("wheel").resolve(), bdl_lessons.__file__
for above in ("reproductions", "tools"):
    assert importlib.util.find_spec(above) is None, above

found = json.loads(Path("found.json").read_text())
assert len(co2().ppm) > 500
loaders = {"panels/*.npz": arrays.load, "results/*.jsonl": load_records}
for files, load in (loaders | {"published/*.csv": published_table}).items():
    for name in found[files]:
        assert load(name)
for name, cell in found["imports"]:
    exec(compile(cell, name, "exec"), {})
for name, cell in found["panels"]:
    *statements, last = ast.parse(cell).body
    names = {}
    exec(compile(ast.Module(statements, []), name, "exec"), names)
    shown = eval(compile(ast.Expression(last.value), name, "eval"), names)
    assert shown._repr_mimebundle_()["image/png"], name
print(len(found["imports"]), "imports,", len(found["panels"]), "panels")
"""


def found_in_the_repository():
    """Names of the data files; import statements and panel cells of the lessons."""
    kinds = ("panels/*.npz", "results/*.jsonl", "published/*.csv")
    found = {files: sorted(path.stem for path in (ROOT / "data").glob(files)) for files in kinds}
    found |= {"imports": [], "panels": []}
    lessons = map(notebook.read, notebook.paths())
    for cell in (cell for lesson in lessons for cell in notebook.code_of(lesson)):
        nodes = ast.walk(ast.parse(cell.source))
        if imports := [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]:
            found["imports"].append((cell.id, "\n".join(map(ast.unparse, imports))))
        if "panel" in notebook.tags_of(cell):
            found["panels"].append((cell.id, cell.source))
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A folder with the unpacked wheel in ``wheel/``."""
    folder = tmp_path_factory.mktemp("elsewhere")
    source = folder / "source"
    for name in ("bdl_lessons", "data"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(source)], check=True)
    with ZipFile(*folder.glob("*.whl")) as archive:
        archive.extractall(folder / "wheel")
    return folder


def test_every_lesson_imports_its_names_and_every_panel_cell_runs_by_itself(wheel):
    found = found_in_the_repository()
    assert len(found["panels"]) >= 17
    (wheel / "found.json").write_text(json.dumps(found))
    how = {"cwd": wheel, "env": os.environ | {"PYTHONPATH": str(wheel / "wheel")}}
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, **how)
    imports, panels = len(found["imports"]), len(found["panels"])
    assert run.stdout == f"{imports} imports, {panels} panels\n", run.stderr
