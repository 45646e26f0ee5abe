"""The site opens from the disk without a network: front page, a lesson, and the search."""

import os
import shutil
from pathlib import Path

import pytest

from bdl_lessons.lessons.web import site

pytestmark = pytest.mark.browser

PICTURES = os.environ.get("BDL_SCREENSHOTS")
LESSON = "lessons/00_start_here.html"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A site with lesson 00, moved elsewhere after it was built."""
    folder = tmp_path_factory.mktemp("site")
    site.build(folder / "first", ["00"], folder / "source")
    return Path(shutil.move(folder / "first", folder / "moved"))


@pytest.mark.parametrize("width", [1300, 390], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("address", ["index.html", LESSON])
def test_a_page_is_live_and_fits(built, new_page, address, scheme, width):
    page = new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page.context.set_offline(True)
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto((built / address).as_uri())
    figure = page.locator("figure.bdl-panel").first
    figure.scroll_into_view_if_needed()
    page.wait_for_selector("figure.bdl-panel[data-state=ready]")
    before = figure.locator(".bdl-readout").inner_text()
    figure.locator("input").focus()
    page.keyboard.press("End")
    page.wait_for_function(
        "([p, old]) => p.innerText !== old",
        arg=[figure.locator(".bdl-readout").element_handle(), before],
    )
    if PICTURES:
        page.screenshot(path=Path(PICTURES) / f"site-{Path(address).stem}-{scheme}-{width}.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".katex-error").count() == 0
    assert page.errors == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_the_search_shows_excerpts(built, new_page):
    page = new_page()
    page.context.set_offline(True)
    page.goto((built / "search.html").as_uri() + "?q=dropout")
    page.locator("#search-results p.context").first.wait_for()
    assert "dropout" in page.locator("#search-results p.context").first.inner_text().lower()
    assert page.errors == []
