import pytest

from tools import readme


@pytest.mark.parametrize("page", readme.TABLES, ids=lambda page: page.name)
def test_a_page_says_what_the_notebooks_and_the_package_say(page):
    assert readme.text(page) == page.read_text(), "run: python -m tools readme"
    assert readme.PICTURE.exists()
