"""What ``make`` installs, when it does so again, and what it says while it does."""

import ast
import sys

import pytest

from tools import install


class Course:
    """A course of two locks in a folder with a space, where pip only notes what it was asked."""

    def __init__(self, root):
        self.root = root
        self.venv = root / ".venv"
        self.asked = []

    def install(self, lock):
        """What pip was asked for, one after the other."""
        self.asked.clear()
        install.install(self.venv, self.root / lock, self.root)
        return [*self.asked]


@pytest.fixture
def course(tmp_path, monkeypatch):
    root = tmp_path / "my cöurse"
    root.mkdir()
    for name in install.PROJECT:
        (root / name).write_text("")
    (root / "lessons.lock").write_text("one==1.0\n")
    (root / "workshop.lock").write_text("-r lessons.lock\ntwo==2.0\n")
    new = Course(root)

    def make_environment(venv):
        (venv / "bin").mkdir(parents=True)
        (venv / "bin" / "python").symlink_to(sys.executable)

    monkeypatch.setattr(install, "make_environment", make_environment)
    monkeypatch.setattr(install, "pip", lambda venv, *words: new.asked.append(words[-1]))
    return new


def test_nothing_is_done_twice(course):
    lock = str(course.root / "lessons.lock")
    assert course.install("lessons.lock") == [lock, str(course.root)]
    assert course.install("lessons.lock") == []


def test_the_workshop_serves_lessons_and_lessons_grow_into_the_workshop(course):
    assert course.install("lessons.lock")
    assert course.install("workshop.lock")
    assert course.install("workshop.lock") == course.install("lessons.lock") == []


def test_a_changed_lock_concerns_those_that_include_it(course):
    course.install("workshop.lock")
    (course.root / "workshop.lock").write_text("-r lessons.lock\ntwo==2.1\n")
    assert course.install("lessons.lock") == []
    assert course.install("workshop.lock")
    (course.root / "lessons.lock").write_text("one==1.1\n")
    assert course.install("lessons.lock")
    assert course.install("workshop.lock")


def test_a_changed_pyproject_installs_again(course):
    course.install("lessons.lock")
    (course.root / "pyproject.toml").write_text("[project]")
    assert course.install("lessons.lock")


@pytest.mark.parametrize("sign", ["another edition", "no interpreter"])
def test_an_environment_that_does_not_belong_here_is_made_again(course, sign):
    course.install("lessons.lock")
    (course.venv / "left").touch()
    if sign == "another edition":
        (course.venv / "installed").touch()
        (course.venv / "installed.json").unlink()
    else:
        (course.venv / "bin" / "python").unlink()
    assert course.install("lessons.lock")
    assert not (course.venv / "left").exists()


def test_a_copied_folder_gets_an_environment_of_its_own(course):
    course.install("lessons.lock")
    (course.venv / "left").touch()
    course.root = course.root.rename(course.root.parent / "copy")
    course.venv = course.root / ".venv"
    assert course.install("lessons.lock")
    assert not (course.venv / "left").exists()


def test_an_environment_made_by_hand_is_kept(course):
    install.make_environment(course.venv)
    (course.venv / "torch-for-cpu").touch()
    course.install("lessons.lock")
    assert (course.venv / "torch-for-cpu").exists()


def test_an_old_python_can_read_it():
    source = (install.ROOT / "tools" / "install.py").read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 7))
