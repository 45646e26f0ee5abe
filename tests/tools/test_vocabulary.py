import ast

import pytest

from bdl_lessons.core.files import ROOT
from tools.vocabulary import dialect

PACKAGES = [ROOT / name for name in ("bdl_lessons", "reproductions", "tools")]
FILES = {"archives.py", "vocabulary.py"}  # members of an archive; the table of the words itself


def modules():
    paths = (path for package in PACKAGES for path in package.rglob("*.py"))
    return sorted(path for path in paths if path.name not in FILES)


def docstrings(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""


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


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_speak_the_language_of_the_field(path):
    assert [found for text in docstrings(path) for found in dialect(text)] == []


SHOWN = [*(ROOT / "bdl_lessons" / "panels").glob("*.py"), *(ROOT / "reproductions").rglob("*.py")]


@pytest.mark.parametrize("path", sorted(SHOWN), ids=lambda path: str(path.relative_to(ROOT)))
def test_text_of_panels_and_of_the_page_of_results_speaks_it_too(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    strings = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    shown = [text for text in strings if isinstance(text, str) and " " in text]
    assert [found for text in shown for found in dialect(text)] == []
