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
