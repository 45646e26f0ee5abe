import ast

import pytest

from bdl_lessons.core.files import ROOT
from tools.vocabulary import dialect

PACKAGES = [ROOT / name for name in ("bdl_lessons", "reproductions", "tools")]
FILES = {"archives.py", "vocabulary.py"}  # members of an archive; the table of the words itself


def modules():
    """Every module whose text somebody reads."""
    paths = []
    for package in PACKAGES:
        paths += [path for path in package.rglob("*.py") if path.name not in FILES]
    return sorted(paths)


def texts(path):
    """Docstrings; of panels and of the page of results all that is shown."""
    is_shown = path.parent.name == "panels" or "reproductions" in path.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""
        elif is_shown and isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_and_what_is_shown_speak_the_language_of_the_field(path):
    words = []
    for text in texts(path):
        if " " in text:
            words += dialect(text)
    assert words == []
