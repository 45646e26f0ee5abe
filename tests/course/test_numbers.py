"""Lessons were numbered again once: no old number may be left in text, links, cells, exercises."""

import json
import re
from pathlib import Path

import pytest

from bdl_lessons.course.symbols import SYMBOLS
from bdl_lessons.exercises.grader import lessons

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-8][0-9]_*.ipynb"))
NUMBERS = {path.name[:2] for path in NOTEBOOKS}
SOURCES = [
    *NOTEBOOKS,
    *(ROOT / "notebooks" / "notes").glob("*.md"),
    *(ROOT / "notebooks" / "lessons").glob("*.toml"),
    *(ROOT / "docs").glob("*.md"),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(ROOT / "bdl_lessons").rglob("*.py"),
    *(ROOT / "reproductions").rglob("*.py"),
]


def text_of(path: Path) -> str:
    """What a reader sees: of a notebook the sources of its cells."""
    if path.suffix != ".ipynb":
        return path.read_text(encoding="utf-8")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells)


def test_lessons_are_numbered_without_a_gap():
    assert sorted(NUMBERS) == [f"{number:02}" for number in range(len(NUMBERS))]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_a_number_in_the_text_of_a_link_is_that_of_its_target(path):
    links = re.findall(r"\[([^][]*?)\]\((?:notebooks/)?(\d\d)_\w+\.ipynb", text_of(path))
    numbered = [(re.search(r"\b(\d\d)\b", words), target) for words, target in links]
    assert [
        (words.string, target) for words, target in numbered if words and words[1] != target
    ] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_a_lesson_that_is_named_exists(path):
    lists = re.findall(r"\b[Ll]essons? (\d\d\b(?:(?:, and |, | and | to )\d\d\b)*)", text_of(path))
    named = {number for numbers in lists for number in re.findall(r"\d\d", numbers)}
    assert named <= NUMBERS | {"90"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_cells_notes_and_exercises_have_the_number_of_their_lesson(path):
    number = path.name[:2]
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert {cell["id"].split("-")[0] for cell in cells} == {number}
    exercises = re.findall(r'(?:autocheck|exercise|hint)\("(\d\d)\.', text_of(path))
    assert set(exercises) == {number}
    notes = (ROOT / "notebooks" / "notes" / f"{number}.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## (\d\d)-", notes, flags=re.MULTILINE)) == {number}


def test_symbols_and_exercises_belong_to_lessons():
    assert {symbol.lesson for symbol in SYMBOLS} <= NUMBERS
    assert set(lessons()) <= NUMBERS
