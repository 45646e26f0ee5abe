import pytest

from tools import readme


@pytest.mark.parametrize("page", readme.TABLES, ids=lambda page: page.name)
def test_a_page_says_what_the_notebooks_and_the_package_say(page):
    assert readme.text(page) == page.read_text(), "run: python -m tools readme"
    assert readme.PICTURE.exists()


def test_subpackages_stand_below_what_they_import(tmp_path):
    for name, imports in (("attic", "hall, cellar"), ("cellar", "nothing"), ("hall", "cellar")):
        (tmp_path / name).mkdir()
        docstring = f'"""The {name},\nin two lines.\n\nMore of it.\n\nImports: {imports}.\n"""\n'
        (tmp_path / name / "__init__.py").write_text(docstring)
    assert readme.subpackages(tmp_path).splitlines()[2:] == [
        "| `cellar/` | The cellar, in two lines. | nothing |",
        "| `hall/` | The hall, in two lines. | cellar |",
        "| `attic/` | The attic, in two lines. | hall, cellar |",
    ]


def test_a_room_without_its_imports_is_refused(tmp_path):
    (tmp_path / "attic").mkdir()
    (tmp_path / "attic" / "__init__.py").write_text('"""The attic."""\n')
    with pytest.raises(ValueError, match=r"attic.__init__\.py must end with 'Imports: …'"):
        readme.subpackages(tmp_path)


@pytest.fixture
def page(tmp_path, monkeypatch):
    path = tmp_path / "README.md"
    tables = {"one": lambda: r"| \d |", "two": lambda: "| 2 |"}
    monkeypatch.setattr(readme, "TABLES", {path: tables})
    return path


def test_tables_are_replaced_and_the_rest_is_kept(page):
    page.write_text("a\n<!-- one -->\nold\n\n<!-- end -->\nb\n<!-- two -->\n<!-- end -->\nc\n")
    found = readme.text(page)
    assert found == (
        "a\n<!-- one -->\n| \\d |\n<!-- end -->\nb\n<!-- two -->\n| 2 |\n<!-- end -->\nc\n"
    )
    page.write_text(found)
    assert readme.text(page) == found


def test_a_missing_mark_is_an_error(page):
    page.write_text("<!-- one -->\n<!-- end -->\n")
    with pytest.raises(ValueError, match=r"<!-- two --> … <!-- end --> once, not 0"):
        readme.text(page)
