"""What ``make`` installs, when it does so again, and what it says while it does."""

import ast
import subprocess
import sys
from pathlib import Path

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

    def has_pip(venv):
        return not (venv / "lacks-pip").exists()

    def add_pip(venv):
        (venv / "lacks-pip").unlink()

    monkeypatch.setattr(install, "make_environment", make_environment)
    monkeypatch.setattr(install, "has_pip", has_pip)
    monkeypatch.setattr(install, "add_pip", add_pip)
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
    assert course.install("workshop.lock")
    (course.root / "lessons.lock").write_text("one==1.2\n")
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


@pytest.mark.parametrize("n_finished", [0, 1], ids=["in the lock", "in the course"])
@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_after_an_interruption_the_next_run_completes(course, monkeypatch, n_finished, signal):
    course.install("lessons.lock")
    whole = course.install("workshop.lock")
    (course.root / "workshop.lock").write_text("-r lessons.lock\ntwo==2.1\n")
    with monkeypatch.context() as interrupted:
        left = iter(range(n_finished))

        def pip(venv, *words):
            if next(left, None) is None:
                raise signal

        interrupted.setattr(install, "pip", pip)
        with pytest.raises(signal):
            course.install("workshop.lock")
    assert not (course.venv / "installed.json").exists()
    (course.venv / "brought-before").touch()
    assert course.install("workshop.lock") == whole
    assert course.install("workshop.lock") == course.install("lessons.lock") == []
    assert (course.venv / "brought-before").exists()


def test_an_environment_whose_making_was_interrupted_gets_its_pip(course):
    install.make_environment(course.venv)
    (course.venv / "lacks-pip").touch()
    assert course.install("lessons.lock")
    assert not (course.venv / "lacks-pip").exists()


def test_pip_is_missed(tmp_path):
    venv = tmp_path / "my environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    assert install.has_python(venv)
    assert not install.has_pip(venv)
    assert not install.has_pip(tmp_path / "nothing")


def test_pip_comes_from_the_python_of_the_environment(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(install.subprocess, "run", lambda command, check: asked.append(command))
    install.add_pip(tmp_path)
    assert asked == [[str(tmp_path / "bin" / "python"), "-m", "ensurepip"]]


def test_a_write_that_is_interrupted_leaves_no_half_written_stamp(course, monkeypatch):
    course.install("lessons.lock")
    stamp = (course.venv / "installed.json").read_text()
    (course.venv / "installed.json").unlink()
    real_write = Path.write_text

    def write_half(path, text, **options):
        real_write(path, text[: len(text) // 2], **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(Path, "write_text", write_half)
        with pytest.raises(KeyboardInterrupt):
            course.install("lessons.lock")
    assert not (course.venv / "installed.json").exists()
    assert course.install("lessons.lock")
    assert (course.venv / "installed.json").read_text() == stamp


def test_the_stamp_is_written_elsewhere_and_then_put_in_its_place(course, monkeypatch):
    written = []
    real_write = Path.write_text

    def write(path, text, **options):
        written.append(path.name)
        return real_write(path, text, **options)

    monkeypatch.setattr(Path, "write_text", write)
    course.install("lessons.lock")
    assert len(written) == 1
    assert written != ["installed.json"]
    assert (course.venv / "installed.json").exists()


@pytest.mark.parametrize("length", [0, 1, 20, 60])
def test_a_damaged_stamp_counts_as_none(course, length):
    whole = course.install("lessons.lock")
    stamp = course.venv / "installed.json"
    stamp.write_text(stamp.read_text()[:length])
    assert course.install("lessons.lock") == whole


SLOW_PIP = """\
#!{python}
import sys, time
print("Collecting one==1.0", flush=True)
time.sleep(0.4)
print("Processing /a/wheel/two-2.0.whl", flush=True)
time.sleep(0.4)
print("Installing collected packages: one, two", flush=True)
time.sleep(0.4)
print("what pip said last", *sys.argv[1:], flush=True)
sys.exit({code})
"""


@pytest.fixture
def slow_pip(tmp_path, monkeypatch):
    """A function that makes an environment in which pip is slow and ends with this code."""

    def make(code):
        python = tmp_path / "bin" / "python"
        python.parent.mkdir()
        python.write_text(SLOW_PIP.format(python=sys.executable, code=code))
        python.chmod(0o755)
        return tmp_path

    monkeypatch.setattr(install, "EVERY_S", 0.1)
    return make


def test_progress_is_told_while_pip_works(slow_pip, capsys):
    install.pip(slow_pip(code=0), "-r", "a.lock")
    lines = list(dict.fromkeys(capsys.readouterr().out.splitlines()))
    messages = ["  fetching package 1, one==1.0", "  fetching package 2, two-2.0.whl"]
    assert [line for line in lines if line != "  looking at what is there"] == [
        *messages,
        "  unpacking them",
    ]


def test_what_pip_said_is_shown_where_it_fails(slow_pip):
    with pytest.raises(SystemExit) as ended:
        install.pip(slow_pip(code=3), "-r", "a.lock")
    message = str(ended.value)
    assert "what pip said last -m pip install" in message
    assert "-r a.lock\n" in message
    assert message.endswith("The packages could not be installed; pip says why above.")


def test_it_says_what_it_begins_and_how_long_it_took(course, capsys):
    course.install("workshop.lock")
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"Installing 2 packages into {course.venv}. This takes some minutes")
    assert last.startswith("Installed in ")
    course.install("workshop.lock")
    assert capsys.readouterr().out == "", "there was nothing to do"
    (course.venv / "bin" / "python").unlink()
    course.install("workshop.lock")
    assert "belongs to another place or Python: made again" in capsys.readouterr().out


@pytest.mark.parametrize("version", [(3, 10, 9), (3, 14, 0)])
def test_an_unsupported_python_is_told_which_are(course, monkeypatch, version):
    monkeypatch.setattr(install.sys, "version_info", version)
    with pytest.raises(SystemExit, match=r"Python 3\.11, 3\.12 or 3\.13 is needed, found: "):
        course.install("lessons.lock")
    assert not course.venv.exists()


def test_an_old_python_can_read_it():
    source = (install.ROOT / "tools" / "install.py").read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 7))
