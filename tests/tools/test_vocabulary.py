import ast

import pytest

from bdl_lessons.core.files import ROOT
from tools.vocabulary import dialect

PACKAGES = [ROOT / name for name in ("bdl_lessons", "reproductions", "tools")]
FILES = {"archives.py", "vocabulary.py"}  # members of an archive; the table of the words itself


def modules():
    paths = (path for package in PACKAGES for path in package.rglob("*.py"))
    return sorted(path for path in paths if path.name not in FILES)


def texts(path):
    """Docstrings; of panels and of the page of results all that is shown."""
    shown = path.parent.name == "panels" or "reproductions" in path.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""
        elif shown and isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_and_what_is_shown_speak_the_language_of_the_field(path):
    assert [found for text in texts(path) if " " in text for found in dialect(text)] == []
