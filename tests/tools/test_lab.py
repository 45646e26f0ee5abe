"""The lessons that a reader writes into are copies, and nothing written there is lost."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

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


FOLDERS = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
XDG = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")


def environment_of(home):
    """An environment whose user has this home, with nothing that names another folder."""
    named = (*FOLDERS, *XDG, "MPLCONFIGDIR", "JUPYTER_PATH", "JUPYTER_CONFIG_PATH")
    kept = {name: value for name, value in os.environ.items() if name not in named}
    return kept | {"HOME": str(home)}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home in which everything can be written."""
    folder = tmp_path / "home"
    folder.mkdir()
    environment = environment_of(folder)
    for name in set(os.environ) - set(environment):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    for name in (*FOLDERS, "MPLCONFIGDIR"):  # whatever is set is taken back
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return folder


def test_a_home_that_can_be_written_stays_as_it_is(home, tmp_path):
    assert lab.leave_home(tmp_path / "instead") == []
    assert not (tmp_path / "instead").exists()
    assert list(home.iterdir()) == []


def test_a_home_that_cannot_be_written_is_left(home, tmp_path, monkeypatch):
    (home / "file").touch()
    monkeypatch.setenv("HOME", str(home / "file" / "inside"))  # which holds for root too
    moved = lab.leave_home(tmp_path / "instead")
    assert sorted(moved) == sorted([*FOLDERS, "MPLCONFIGDIR"])
    for variable in moved:
        assert Path(os.environ[variable]).parent == tmp_path / "instead"
        assert Path(os.environ[variable]).is_dir()
    assert lab.leave_home(tmp_path / "elsewhere") == []


@pytest.mark.parametrize(
    ("variable", "moved"),
    [
        ("XDG_CONFIG_HOME", ["MPLCONFIGDIR"]),
        ("XDG_CACHE_HOME", ["MPLCONFIGDIR"]),
        ("XDG_DATA_HOME", ["JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"]),
        ("JUPYTER_CONFIG_DIR", ["JUPYTER_CONFIG_DIR"]),
        ("IPYTHONDIR", ["IPYTHONDIR"]),
        ("MPLCONFIGDIR", ["MPLCONFIGDIR"]),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="XDG folders")
def test_only_what_cannot_be_written_is_moved(home, tmp_path, monkeypatch, variable, moved):
    (home / "file").touch()
    monkeypatch.setenv(variable, str(home / "file" / "inside"))
    assert lab.leave_home(tmp_path / "instead") == moved


def test_a_folder_without_the_right_to_write_cannot_be_written(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert lab.can_be_written(tmp_path / "new" / "folder")
    if os.access(closed, os.W_OK):
        pytest.skip("root may write everywhere")
    assert not lab.can_be_written(closed / "new")


def test_jupyterlab_starts_where_the_home_cannot_be_written(tmp_path):
    pytest.importorskip("jupyterlab")
    shutil.copytree(lab.ROOT / "tools", tmp_path / "tools")
    for name in ("notebooks", "bdl_lessons"):
        (tmp_path / name).mkdir()
    (tmp_path / "notebooks" / "00_start_here.ipynb").write_text(notebook("a"))
    (tmp_path / "file").touch()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [f"--port={port}", "--ServerApp.port_retries=0", "--no-browser", "--allow-root"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.lab", *options, "--IdentityProvider.token="],
        cwd=tmp_path,
        env=environment_of(tmp_path / "file" / "home"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        said = process.stdout.readline()
        assert answer(process, f"http://127.0.0.1:{port}/api/contents/my_lessons")["content"]
        settings = answer(process, f"http://127.0.0.1:{port}/lab/api/settings")["settings"]
        assert settings
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
    assert said == (
        "Your home cannot be written: Jupyter and matplotlib keep their files in build/home.\n"
    )
    assert list((tmp_path / "build" / "home" / "jupyter_runtime_dir").glob("*"))
    seen = subprocess.run(
        [sys.executable, "-c", "from matplotlib import pyplot; pyplot.figure()"],
        env=environment_of(tmp_path / "file" / "home")
        | {"MPLCONFIGDIR": str(tmp_path / "build" / "home" / "mplconfigdir")},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert seen.stderr == ""


def answer(process, address, seconds=180):
    """What JupyterLab answers at an address, once it has started."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5) as reply:
                return json.load(reply)
        except OSError:
            time.sleep(0.2)
    raise AssertionError("JupyterLab did not start")


def test_jupyterlab_starts_on_a_copy_with_the_settings_of_the_course(monkeypatch, capsys):
    started = []
    monkeypatch.setattr(lab, "copy_lessons", lambda: [])
    monkeypatch.setattr(lab, "leave_home", lambda: [])
    monkeypatch.setattr(lab.sys, "argv", ["lab", "--port=1"])
    monkeypatch.setattr(lab.os, "execv", lambda program, words: started.extend(words))
    monkeypatch.setattr(lab.os, "chdir", lambda folder: None)
    lab.main()
    assert capsys.readouterr().out == "", "there is nothing to say"
    assert started[1:3] == ["-m", "jupyterlab"]
    assert started[-2:] == ["--port=1", "my_lessons/00_start_here.ipynb"]
    assert f"--LabApp.app_settings_dir={lab.SETTINGS}" in started
    replaced = lab.with_flags(["--LabApp.news_url=https://example.org"])
    assert [flag for flag in replaced if "news_url" in flag] == [
        "--LabApp.news_url=https://example.org"
    ]
    settings = json.loads((lab.SETTINGS / "overrides.json").read_text())
    assert settings["@jupyter-widgets/jupyterlab-manager:plugin"]["saveState"] is True
