"""The package without the folders that measure and build: all that lessons import, every panel."""

import ast
import os
import shutil
import subprocess
import sys

from bdl_lessons.core.files import ROOT
from tools import notebook

FIRST = """\
import importlib.util
for above in ("reproductions", "tools"):
    assert importlib.util.find_spec(above) is None, above
"""


def test_every_import_and_panel_of_the_lessons_works_alone(tmp_path):
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
