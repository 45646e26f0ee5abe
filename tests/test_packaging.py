"""pyproject, the locks, environment.yml, the Makefile and the README tell one story."""

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.test_imports import imported
from tools import install, notebook

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pins(lock):
    """Name and version of every package of a lock, those that it includes among them."""
    lines = [line for path in install.chain(ROOT / lock) for line in path.read_text().splitlines()]
    named = [line.partition("==") for line in lines if not line.startswith("-r ")]
    versions = {canonicalize_name(name): Version(version) for name, _, version in named}
    assert len(versions) == len(named), "a package is pinned once"
    return versions


LESSONS = pins("requirements.lock")
WORKSHOP = pins("requirements-workshop.lock")
CLASSROOM = pins("requirements-classroom.lock")
EXTRAS = PROJECT["optional-dependencies"]


def wanted(*extras):
    """What a plain install needs, and the extras with these names."""
    listed = (requirement for extra in extras for requirement in EXTRAS[extra])
    return [Requirement(r) for r in [*PROJECT["dependencies"], *listed]]


def needed_by(requirements):
    """The names of these packages and of all that they bring, as far as they are installed."""
    names = set()
    waiting = list(requirements)
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in names and not requirement.extras:
            continue
        names.add(name)
        for line in distribution(name).requires or []:
            needed = Requirement(line)
            extras = [{"extra": extra} for extra in ("", *requirement.extras)]
            if needed.marker is None or any(map(needed.marker.evaluate, extras)):
                waiting.append(needed)
    return names


def test_a_lock_includes_the_one_before_it_with_the_same_versions():
    assert LESSONS.items() < WORKSHOP.items() < CLASSROOM.items()
    assert LESSONS["torch"] == Version("2.13.0")
    assert all(version.local is None for version in CLASSROOM.values())


def test_the_locks_pin_every_direct_dependency_within_its_range():
    workshop = EXTRAS.keys() - {"classroom"}
    rows = [(LESSONS, wanted()), (WORKSHOP, wanted(*workshop)), (CLASSROOM, wanted(*EXTRAS))]
    for lock, requirements in rows:
        for requirement in requirements:
            assert lock[canonicalize_name(requirement.name)] in requirement.specifier, requirement
            assert "==" not in str(requirement.specifier), "ranges stay wide"


def test_a_learner_installs_what_lessons_need_and_no_more():
    needed = needed_by(wanted())
    assert LESSONS.keys() <= needed, "each package is there for a reason"
    assert needed & WORKSHOP.keys() <= LESSONS.keys()
    for tool in ("nbgrader", "notebook", "sphinx", "playwright", "pandas", "distributed", "pytest"):
        assert tool not in LESSONS
    assert "nbgrader" not in WORKSHOP, "its buttons are for those who asked for them"


def test_a_lock_names_packages_and_no_place_to_fetch_them_from():
    for lock in ROOT.glob("requirements*.lock"):
        for line in lock.read_text().splitlines():
            assert re.fullmatch(r"[\w.-]+==[\w.]+|-r requirements[\w-]*\.lock", line), line


def test_every_lesson_imports_what_a_learner_has():
    for path in notebook.paths():
        code = "\n".join(cell.source for cell in notebook.code_of(notebook.read(path)))
        names = {name.partition(".")[0] for name in imported(code)} - sys.stdlib_module_names
        for name in names - {"bdl_lessons"}:
            assert canonicalize_name(BROUGHT_BY.get(name, name)) in LESSONS, f"{path.name}: {name}"


def test_what_is_installed_is_what_is_locked():
    for requirement in wanted(*EXTRAS.keys() - {"classroom"}):
        installed = Version(distribution(requirement.name).version).public
        assert installed == str(WORKSHOP[canonicalize_name(requirement.name)]), requirement


def test_conda_leads_to_the_same_lock():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, pip, extra = environment["dependencies"]
    allowed = Requirement(f"python{PROJECT['requires-python']}").specifier
    assert Version(python.removeprefix("python=")) in allowed
    assert pip == "pip"
    assert extra["pip"] == ["-r requirements.lock", "-e ."]


BROUGHT_BY = {
    "IPython": "jupyterlab",
    "PIL": "pillow",
    "contourpy": "matplotlib",
    "cycler": "matplotlib",
    "docutils": "sphinx",
    "fontTools": "matplotlib",
    "jupyter_core": "jupyterlab",
    "linear_operator": "gpytorch",
    "markdown_it": "markdown-it-py",
    "myst_nb": "myst-nb",
    "sklearn": "scikit-learn",
}
NEEDED = {"bdl_lessons": [], "reproductions": ["reproductions", "cluster"]}
NEEDED |= {"tools": ["reproductions", "tools", "site"]}


@pytest.mark.parametrize(("package", "extras"), NEEDED.items())
def test_every_import_is_declared_where_it_is_needed(package, extras):
    """What lessons import comes with ``pip install .``; the rest are extras."""
    declared = [*PROJECT["dependencies"], *(r for extra in extras for r in EXTRAS[extra])]
    known = {canonicalize_name(Requirement(r).name) for r in declared}
    of_the_course = {"bdl_lessons", "reproductions", "tools"}
    for path in (ROOT / package).rglob("*.py"):
        names = {name.partition(".")[0] for name in imported(path.read_text())}
        for name in names - sys.stdlib_module_names - of_the_course:
            needed = canonicalize_name(BROUGHT_BY.get(name, name))
            assert needed in known, f"{path.name} imports {name}"


@pytest.mark.parametrize("pattern", ["Makefile", ".ci/run", "data/co2/*.csv", "tools/*.py"])
def test_a_clone_keeps_its_ends_of_line_where_git_is_set_to_change_them(pattern, tmp_path):
    def git(*arguments, cwd=ROOT):
        command = ["git", "-c", "core.autocrlf=true", "-c", "core.eol=crlf", *arguments]
        return subprocess.run(command, cwd=cwd, capture_output=True, check=True).stdout

    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    git("checkout-index", f"--prefix={tmp_path}/", "--", *git("ls-files", pattern).decode().split())
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert written
    assert not any(b"\r\n" in path.read_bytes() for path in written)


def test_commands_survive_a_folder_with_a_space_and_an_umlaut(tmp_path):
    folder = tmp_path / "my cöurse"
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    alone = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKEOVERRIDES")}
    targets = ["notebooks", "unit", "test-gpu", "release", "lab"]
    printed = subprocess.run(
        ["make", "-n", *targets], cwd=folder, env=alone, capture_output=True, text=True, check=True
    ).stdout
    words = shlex.split(printed, comments=True)
    paths = [word.removeprefix("PYTHONPATH=") for word in words if "cöurse" in word]
    assert paths, "the notebooks' kernels are told where the course is"
    assert all(path.startswith(str(folder)) for path in paths)


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
