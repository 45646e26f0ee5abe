from types import SimpleNamespace

import nbformat
import pytest

from bdl_lessons.core.files import ROOT
from tools import address, guards, metadata, readme
from tools.notebook import paths
from tools.web import front, sphinx_pages

PUBLISHED = "https://github.com/someone/course"


@pytest.fixture
def published(monkeypatch):
    monkeypatch.setattr(address, "address", lambda: PUBLISHED)


def setting(tmp_path, value):
    path = tmp_path / "pyproject.toml"
    path.write_text(f'[project]\nversion = "1.2"\n[tool.course]\naddress = "{value}"\n')
    return path


def test_the_setting_is_an_address_or_empty(tmp_path):
    assert address.address(setting(tmp_path, "")) == ""
    assert address.address(setting(tmp_path, PUBLISHED)) == PUBLISHED
    assert address.version(setting(tmp_path, "")) == "1.2"
    assert f"\nversion: {address.version()}\n" in ROOT.joinpath("CITATION.cff").read_text()
    with pytest.raises(ValueError, match=r"address in \[tool.course\] .* is 'github.com/me'"):
        address.address(setting(tmp_path, "github.com/me"))


def shown():
    """What title cell, README, lesson page and front page show of the address."""
    lesson = nbformat.read(paths(["06"])[0], 4)
    metadata.fill_title(lesson, "06_local_reparameterization")
    ways = sphinx_pages._ways("06_local_reparameterization")
    return [lesson.cells[0].source, readme.text(readme.README), ways, front._get() + front.footer()]


def test_a_published_course_shows_where_it_is(published):
    title, page, ways, first = shown()
    file = "notebooks/06_local_reparameterization.ipynb"
    for text in (title, ways):
        assert f"colab.research.google.com/github/someone/course/blob/main/{file}" in text
    assert "mybinder.org/v2/gh/someone/course/main?labpath=" in page
    assert f"[repository]({PUBLISHED})" in first
    assert f"version {address.version()}, {PUBLISHED}" in first


def test_a_private_copy_has_no_link_that_leads_nowhere(monkeypatch):
    monkeypatch.setattr(address, "address", lambda: "")
    for text in shown():
        for word in ("colab", "mybinder", "OWNER", "Elsewhere"):
            assert word not in text
    assert "slides/06_local" in shown()[2]


def test_published_imports_install_the_package_where_it_is_missing(published, monkeypatch):
    path = paths(["06"])[0]
    lesson = nbformat.read(path, 4)
    before = [cell.source for cell in lesson.cells]
    for _ in range(2):
        address.fill_first_cell(lesson)
    first, rest = lesson.cells[1].source, [cell.source for cell in lesson.cells[2:]]
    assert first.endswith(before[1])
    assert rest == before[2:]
    assert guards.problems(lesson, path) == guards.problems(nbformat.read(path, 4), path)
    install, asked = first.removesuffix(before[1]), []
    shell = SimpleNamespace(run_line_magic=lambda *words: asked.append(words))
    exec(install, {"get_ipython": lambda: shell})
    assert asked == []  # it is there
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    exec(install, {"get_ipython": lambda: shell})
    assert asked == [("pip", f"install -q git+{PUBLISHED}")]
    monkeypatch.setattr(address, "address", lambda: "")
    address.fill_first_cell(lesson)
    assert [cell.source for cell in lesson.cells] == before
