"""The lessons that a reader writes into are copies, and nothing written there is lost."""

import json
import shutil
import subprocess

import pytest

from tools import lab


def notebook(*sources, output=""):
    cells = [{"cell_type": "code", "source": [s], "outputs": [output]} for s in sources]
    return json.dumps({"cells": cells})


@pytest.fixture
def lessons(tmp_path):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (folder / "01_one.ipynb").write_text(notebook("a", "b"))
    (folder / "02_two.ipynb").write_text(notebook("c"))
    (folder / "my_01.ipynb").write_text(notebook("mine"))
    return folder


@pytest.fixture
def copies(lessons):
    folder = lessons.parent / "my_lessons"
    assert lab.copy_lessons(lessons, folder) == []
    return folder


def test_every_lesson_has_a_copy_of_its_name(lessons, copies):
    assert {path.name for path in copies.glob("*.ipynb")} == {"01_one.ipynb", "02_two.ipynb"}
    for copy in copies.glob("*.ipynb"):
        assert copy.read_bytes() == (lessons / copy.name).read_bytes()


@pytest.mark.parametrize("changed", [notebook("a", "answer"), notebook("a"), "broken {"])
def test_what_was_written_is_kept_and_a_newer_lesson_is_named(lessons, copies, changed):
    (copies / "01_one.ipynb").write_text(changed)
    assert lab.copy_lessons(lessons, copies) == []
    (lessons / "01_one.ipynb").write_text(notebook("a", "better"))
    for _ in range(2):
        assert lab.copy_lessons(lessons, copies) == ["01_one.ipynb"]
        assert (copies / "01_one.ipynb").read_text() == changed
    (copies / "01_one.ipynb").rename(copies / "mine.ipynb")
    assert lab.copy_lessons(lessons, copies) == []
    assert (copies / "01_one.ipynb").read_text() == notebook("a", "better")
    assert (copies / "mine.ipynb").read_text() == changed


def test_a_copy_that_was_only_run_is_renewed(lessons, copies):
    ran = notebook("a", "b", output="here")
    (copies / "01_one.ipynb").write_text(ran)
    lab.copy_lessons(lessons, copies)
    assert (copies / "01_one.ipynb").read_text() == ran, "what it shows stays while it is current"
    (lessons / "01_one.ipynb").write_text(notebook("a", "better"))
    assert lab.copy_lessons(lessons, copies) == []
    assert (copies / "01_one.ipynb").read_text() == notebook("a", "better")


def test_a_file_that_was_there_before_is_kept(lessons, copies):
    shutil.rmtree(copies / ".originals")
    (copies / "01_one.ipynb").write_text("broken {")
    assert lab.copy_lessons(lessons, copies) == ["01_one.ipynb"]
    assert (copies / "01_one.ipynb").read_text() == "broken {"


def test_git_does_not_see_the_copies():
    paths = ["my_lessons/05_monte_carlo_dropout.ipynb", "my_lessons/.originals/x", "notebooks/my_5"]
    if not (lab.ROOT / ".git").exists():
        pytest.skip("not a clone")
    ignored = subprocess.run(["git", "check-ignore", *paths], cwd=lab.ROOT, stdout=-1, text=True)
    assert ignored.stdout.split() == paths


def test_jupyterlab_starts_on_a_copy_with_the_settings_of_the_course(monkeypatch):
    started = []
    monkeypatch.setattr(lab, "copy_lessons", lambda: [])
    monkeypatch.setattr(lab.sys, "argv", ["lab", "--port=1"])
    monkeypatch.setattr(lab.os, "execv", lambda program, words: started.extend(words))
    monkeypatch.setattr(lab.os, "chdir", lambda folder: None)
    lab.main()
    assert started[1:3] == ["-m", "jupyterlab"]
    assert started[-2:] == ["--port=1", "my_lessons/00_start_here.ipynb"]
    assert f"--LabApp.app_settings_dir={lab.SETTINGS}" in started
    replaced = lab.with_flags(["--LabApp.news_url=https://example.org"])
    assert [flag for flag in replaced if "news_url" in flag] == [
        "--LabApp.news_url=https://example.org"
    ]
    settings = json.loads((lab.SETTINGS / "overrides.json").read_text())
    assert settings["@jupyter-widgets/jupyterlab-manager:plugin"]["saveState"] is True
