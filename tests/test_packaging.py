"""pyproject, the lock, environment.yml, the Makefile and the README tell one story."""

import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.test_imports import imported

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = {
    canonicalize_name(line.partition("==")[0]): Version(line.partition("==")[2])
    for line in (ROOT / "requirements.lock").read_text().splitlines()
}
EXTRAS = PROJECT["optional-dependencies"]


def wanted():
    extras = (requirement for listed in EXTRAS.values() for requirement in listed)
    return [Requirement(r) for r in [*PROJECT["dependencies"], *extras]]


def test_the_lock_pins_every_direct_dependency_within_its_range():
    for requirement in wanted():
        assert LOCK[canonicalize_name(requirement.name)] in requirement.specifier, requirement
        assert "==" not in str(requirement.specifier), "ranges stay wide"
    assert all(version.local is None for version in LOCK.values())


def test_what_is_installed_is_what_is_locked():
    from importlib.metadata import version

    for requirement in wanted():
        installed = Version(version(requirement.name)).public
        assert installed == str(LOCK[canonicalize_name(requirement.name)]), requirement


def test_conda_leads_to_the_same_lock():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, pip, extra = environment["dependencies"]
    allowed = Requirement(f"python{PROJECT['requires-python']}").specifier
    assert Version(python.removeprefix("python=")) in allowed
    assert pip == "pip"
    assert extra["pip"] == ["-r requirements.lock", "-e ."]


NEEDED = {"bdl_lessons": [], "reproductions": ["reproductions", "cluster"]}
NEEDED |= {"tools": ["reproductions", "tools", "site"]}


@pytest.mark.parametrize(("package", "extras"), NEEDED.items())
def test_every_import_is_declared_where_it_is_needed(package, extras):
    """What lessons import comes with ``pip install .``; the rest are extras."""
    declared = [*PROJECT["dependencies"], *(r for extra in extras for r in EXTRAS[extra])]
    known = {canonicalize_name(Requirement(r).name) for r in declared}
    brought_by = {"PIL": "pillow", "sklearn": "scikit-learn", "docutils": "sphinx"}
    brought_by |= {"IPython": "jupyterlab", "markdown_it": "markdown-it-py"}
    brought_by |= {"linear_operator": "gpytorch", "myst_nb": "myst-nb"}
    brought_by |= dict.fromkeys(("contourpy", "cycler", "fontTools"), "matplotlib")
    own = {"bdl_lessons", "reproductions", "tools"}
    for path in (ROOT / package).rglob("*.py"):
        names = {name.partition(".")[0] for name in imported(path.read_text())}
        for name in names - sys.stdlib_module_names - own:
            needed = canonicalize_name(brought_by.get(name, name))
            assert needed in known, f"{path.name} imports {name}"


def test_an_environment_is_made_anew_where_it_was_copied_or_lost_its_interpreter(tmp_path):
    alone = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKEOVERRIDES")}

    def commands() -> str:
        """Not those of the ``make`` that may have started this test with an environment."""
        how = {"cwd": tmp_path, "env": alone, "capture_output": True, "text": True, "check": True}
        return subprocess.run(["make", "-n", "install"], **how).stdout

    recipe = ["requirements.lock", "pyproject.toml", "setup.py"]
    for name in ("Makefile", *recipe):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    python = tmp_path / ".venv" / "bin" / "python"
    python.symlink_to(sys.executable)
    content = "".join((ROOT / name).read_text() for name in recipe)
    stamp = tmp_path / ".venv" / "installed"
    stamp.write_text(f"{tmp_path}\n{content}")
    assert "-m venv" not in commands()
    stamp.write_text(f"/another/place\n{content}")
    assert "-m venv" in commands()
    stamp.write_text(f"{tmp_path}\n{content}")
    python.unlink()
    assert "-m venv" in commands()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page):
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    folders = "bdl_lessons|reproductions|tools|docs|data|notebooks|tests"
    paths = re.findall(rf"`((?:{folders})/[\w./]*)`", text)
    named = [path for path in paths if not re.search("N(N|AME)", path)]
    missing = [link for link in links if not (page.parent / link).exists()]
    assert [*missing, *(path for path in named if not (ROOT / path).exists())] == []
    makefile = (ROOT / "Makefile").read_text()
    targets = {*re.findall(r"^([\w-]+):(?!=)", makefile, re.MULTILINE)}
    targets |= {*" ".join(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)).split()}
    spans = re.findall(r"`make ([^`]+)`", text) + re.findall(r"^make ([\w-]+)", text, re.MULTILINE)
    assert {word for span in spans for word in span.split() if "=" not in word} <= targets
    extras = {*re.findall(r"pip install -e '\.\[(\w+)\]'", text)}
    assert extras <= EXTRAS.keys(), "from this folder: the name of the package is not registered"
    for package, name in re.findall(r"python -m (tools|reproductions) (\w+)", text):
        commands = importlib.import_module(f"{package}.__main__").app.registered_commands
        assert name in {command.name or command.callback.__name__ for command in commands}


def test_the_code_for_own_data_runs_as_it_stands():
    page = (ROOT / "docs" / "own_data.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    threads = torch.get_num_threads()
    found = {}
    try:
        exec(compile(code, "docs/own_data.md", "exec"), found)
    finally:
        torch.set_num_threads(threads)
    y_new = found["y_new"]
    assert found["mean"].shape == found["std"].shape == y_new.shape
    # In original units: most patients lie within two standard deviations of their prediction.
    error = y_new - found["mean"]
    spread = found["y"].std()
    assert error.square().mean().sqrt() < 0.9 * spread
    assert 0.8 < ((error / found["std"]).abs() < 2).double().mean() < 1
    for score in found["scores"].values():  # of the targets' own spread: about -1.4 a unit of it
        assert -1.35 < score + spread.log() < -0.8


def test_the_page_on_own_data_keeps_what_float32_would_lose():
    """Time stamps a minute apart: the page standardises before it rounds."""
    page = (ROOT / "docs" / "own_data.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    lines = code.splitlines()
    rounded = [line for line in lines if ".float()" in line]
    assert rounded
    assert all(".transform(" in line for line in rounded)
