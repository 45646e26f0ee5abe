from types import SimpleNamespace

import nbformat
import pytest

from bdl_lessons.core.files import ROOT
from tools import address, metadata, readme, render, slides
from tools.notebook import paths
from tools.web import site, sphinx_pages

PUBLISHED = "https://github.com/someone/course"


@pytest.fixture
def published(monkeypatch):
    monkeypatch.setattr(address, "address", lambda: PUBLISHED)


def test_the_setting_is_an_address_or_empty(tmp_path):
    def setting(value):
        path = tmp_path / "pyproject.toml"
        path.write_text(f'[tool.course]\naddress = "{value}"\n')
        return path

    assert address.address(setting("")) == ""
    assert address.address(setting(PUBLISHED)) == PUBLISHED
    assert f"\n## {address.version()}, " in ROOT.joinpath("CHANGELOG.md").read_text()
    with pytest.raises(ValueError, match=r"address in \[tool.course\] .* is 'github.com/me'"):
        address.address(setting("github.com/me"))


def shown():
    """What title cell, lesson page, slides, README, front page and citation show of the address."""
    (path,) = paths(["06"])
    lesson = nbformat.read(path, 4)
    deck = slides._title(metadata.Lesson(path), lesson)
    title = render.title(metadata.Lesson(path).record, lesson)
    places = [title, sphinx_pages._ways(path.stem), deck]
    places += [readme.text(readme.README), site._get() + site.footer()]
    return [*places, readme.text(ROOT / "CITATION.cff")]


def test_a_published_course_shows_where_it_is(published):
    title, ways, deck, page, first, cited = shown()
    assert all("/course/blob/HEAD/notebooks/06_local" in text for text in (title, ways, deck))
    for text in (title, ways, deck, page, first):
        assert "https://colab.research.google.com/github/someone/course/blob/HEAD/" in text
        assert "https://mybinder.org/v2/gh/someone/course/HEAD?labpath=notebooks/" in text
        assert f"{PUBLISHED}/archive/HEAD.zip" in text
        assert f"{PUBLISHED}/blob/HEAD/CITATION.cff" in text
    assert f"\nversion: {address.version()}\nrepository-code: {PUBLISHED}\n" in cited


def test_a_private_copy_names_the_folder_and_has_no_link_that_leads_nowhere(monkeypatch):
    monkeypatch.setattr(address, "address", lambda: "")
    text = "\n".join(shown())
    for word in ("colab", "mybinder", "OWNER", "Elsewhere", "blob/HEAD", "repository-code"):
        assert word not in text
    for word in ("slides/06_local", "course: `notebooks/06_local", "\nThe course is this folder: "):
        assert word in text


def test_published_imports_install_the_package_where_it_is_missing(published, monkeypatch):
    path = paths(["06"])[0]
    lesson = nbformat.read(path, 4)
    before = [cell.source for cell in lesson.cells]
    for _ in range(2):
        address.fill_first_cell(lesson)
    first = lesson.cells[1].source
    rest = [cell.source for cell in lesson.cells[2:]]
    assert first.endswith(before[1])
    assert rest == before[2:]
    install = first.removesuffix(before[1])
    asked = []
    shell = SimpleNamespace(run_line_magic=lambda *words: asked.append(words))
    exec(install, {"get_ipython": lambda: shell})
    assert asked == []  # it is there
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    exec(install, {"get_ipython": lambda: shell})
    assert asked == [("pip", f"install -q git+{PUBLISHED}")]
    monkeypatch.setattr(address, "address", lambda: "")
    address.fill_first_cell(lesson)
    assert [cell.source for cell in lesson.cells] == before
