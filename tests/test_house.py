"""The house gets smaller: lines of Python in each folder, docstrings and empty lines included.

A limit goes down when a folder has shrunk. It goes up only in a commit that says what is worth it.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIMITS = {
    "bdl_lessons": 14_400,
    "bdl_lessons/core": 801,
    "bdl_lessons/probability": 1_118,
    "bdl_lessons/models": 1_611,
    "bdl_lessons/reference": 1_021,
    "bdl_lessons/inference": 827,
    "bdl_lessons/evaluation": 804,
    "bdl_lessons/panels": 2_538,
    "bdl_lessons/exercises": 4_670,
    "bdl_lessons/datasets": 720,
    "bdl_lessons/course": 284,
    "reproductions": 8_063,
    "tools": 3_577,
    "tests": 17_076,
}


@pytest.mark.parametrize("folder", LIMITS)
def test_a_folder_keeps_its_limit(folder):
    lines = sum(len(path.read_text().splitlines()) for path in (ROOT / folder).rglob("*.py"))
    assert lines <= LIMITS[folder], f"{lines} lines in {folder}: take something away"
