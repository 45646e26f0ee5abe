import ast

import pytest

from bdl_lessons.core.files import ROOT
from tools.vocabulary import dialect

PACKAGES = [ROOT / name for name in ("bdl_lessons", "reproductions", "tools")]
FILES = {"archives.py", "vocabulary.py"}  # members of an archive; the table of the words itself


def modules():
    paths = (path for package in PACKAGES for path in package.rglob("*.py"))
    return sorted(path for path in paths if path.name not in FILES)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("The law of the weights", "law"),
        ("What it costs", "costs"),
        ("It is sure of its answer", "sure"),
        ("The training rows", "training rows"),
        ("A committee of networks", "committee"),
        ("Every member votes", "member"),
    ],
)
def test_a_word_of_the_dialect_is_found_with_its_term(text, word):
    (found,) = dialect(text)
    assert found.startswith(f"{word!r} in ")
    assert ": say " in found


@pytest.mark.parametrize(
    "text",
    [
        "By the law of large numbers",
        "Make sure that it runs",
        "the ensemble member that disagrees",
        "a lawful measure",
        "the rows of a matrix",
    ],
)
def test_the_same_letters_elsewhere_are_left_alone(text):
    assert list(dialect(text)) == []


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
