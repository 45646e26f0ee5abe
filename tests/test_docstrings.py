"""Every module that a lesson teaches names the lesson, so that a reader finds the explanation."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "bdl_lessons"
TAUGHT = ("probability", "reference", "models", "inference", "evaluation")
MODULES = sorted(
    path for name in TAUGHT for path in (PACKAGE / name).rglob("*.py") if path.stem != "__init__"
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_taught_module_names_its_lesson(path):
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert re.search(r"[Ll]essons? \d\d", docstring)
