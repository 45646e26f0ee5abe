"""The house stays small: lines of Python in each folder, docstrings and empty lines included.

A limit is raised only by a commit that says what took its place elsewhere.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIMITS = {
    "bdl_lessons": 14_400,
    "bdl_lessons/core": 700,
    "bdl_lessons/probability": 1_150,
    "bdl_lessons/models": 1_600,
    "bdl_lessons/reference": 950,
    "bdl_lessons/inference": 850,
    "bdl_lessons/evaluation": 750,
    "bdl_lessons/panels": 2_700,
    "bdl_lessons/exercises": 4_700,
    "reproductions": 6_300,
    "tools": 2_400,
    "tests": 14_000,
}


@pytest.mark.parametrize("folder", LIMITS)
def test_a_folder_keeps_its_limit(folder):
    lines = sum(len(path.read_text().splitlines()) for path in (ROOT / folder).rglob("*.py"))
    assert lines <= LIMITS[folder], f"{lines} lines in {folder}: take something away"
