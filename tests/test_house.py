"""The house gets smaller: lines of Python in each folder, docstrings and empty lines included.

A limit is the next hundred, or the budget if that is less: a small change needs no new one. It goes
down when a folder has shrunk, and up only in a commit that says what is worth it.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIMITS = {
    "bdl_lessons": 14_400,
    "bdl_lessons/core": 900,
    "bdl_lessons/probability": 1_150,
    "bdl_lessons/models": 1_700,
    "bdl_lessons/reference": 1_000,
    "bdl_lessons/inference": 850,
    "bdl_lessons/evaluation": 700,
    "bdl_lessons/panels": 2_700,
    "bdl_lessons/exercises": 4_700,
    "bdl_lessons/datasets": 800,
    "bdl_lessons/course": 300,
    "reproductions": 6_300,
    "tools": 3_300,
    "tests": 14_000,
}


@pytest.mark.parametrize("folder", LIMITS)
def test_a_folder_keeps_its_limit(folder):
    lines = sum(len(path.read_text().splitlines()) for path in (ROOT / folder).rglob("*.py"))
    assert lines <= LIMITS[folder], f"{lines} lines in {folder}: take something away"
