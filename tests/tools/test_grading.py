"""Submitted notebooks become a table; ``test_assignments`` runs them, here the marks are given."""

import csv

import nbformat
import pytest

from bdl_lessons.exercises import grader
from tools import grading

new = nbformat.v4


@pytest.fixture
def folder(tmp_path):
    """Submissions of two students, one of whom JupyterLab kept a checkpoint beside."""
    folder = tmp_path / "in"
    for name in ("ada/x.ipynb", "bob/x.ipynb", "ada/.ipynb_checkpoints/x-checkpoint.ipynb"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(new.new_notebook(), path)
    return folder


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_mark_is_out_of_the_checks_of_its_exercise(folder, tmp_path, monkeypatch):
    marks = {"ada": {"00.1": 3, "01.2": 0}, "bob": {"00.1": 4}}
    monkeypatch.setattr(grading, "grade", lambda path: marks[path.parent.name])
    assert grading.table(folder, tmp_path / "grades.csv") == []
    of_00_1, of_01_2 = (len(grader.find(number).criteria) for number in ("00.1", "01.2"))
    assert of_00_1 == 4
    assert rows(tmp_path / "grades.csv") == [
        {"notebook": "ada/x.ipynb", "00.1": "3/4", "01.2": f"0/{of_01_2}"},
        {"notebook": "bob/x.ipynb", "00.1": "4/4", "01.2": ""},
    ]


def test_checkpoints_are_no_submissions(folder, tmp_path, monkeypatch):
    graded = []
    monkeypatch.setattr(grading, "grade", lambda path: graded.append(path) or {"00.1": 4})
    grading.table(folder, tmp_path / "grades.csv")
    assert graded == [folder / "ada" / "x.ipynb", folder / "bob" / "x.ipynb"]


def test_what_cannot_be_graded_is_named_and_has_no_mark(folder, tmp_path, monkeypatch):
    def grade(path):
        if path.parent.name == "ada":
            raise ValueError("no exercise in it")
        return {"00.1": None}

    monkeypatch.setattr(grading, "grade", grade)
    assert grading.table(folder, tmp_path / "grades.csv") == [
        "ada/x.ipynb: no exercise in it",
        "bob/x.ipynb: no mark for 00.1: a cell failed, or the kernel died",
    ]
    assert [row["notebook"] for row in rows(tmp_path / "grades.csv")] == [
        "ada/x.ipynb",
        "bob/x.ipynb",
    ]
