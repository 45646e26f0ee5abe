"""The whole site, moved elsewhere and opened from the disk without a network."""

import os
import shutil
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from urllib.parse import unquote, urlsplit
from zipfile import ZipFile

import pytest
from axe_playwright_python.sync_playwright import Axe

from bdl_lessons.core.files import NOTEBOOKS
from tools.address import ARCHIVE
from tools.web import site, store

pytestmark = pytest.mark.browser

LESSONS = [f"lessons/{path.stem}.html" for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb"))]
LIVE = ["index.html", *(one for one in LESSONS if "90_" not in one)]
KINDS = ["index.html", "results/index.html", "package/probability.html", "search.html"]
KINDS += ["genindex.html", *(one for one in LESSONS if one[8:10] in ("00", "05", "90"))]
LOOKS = [("light", 1280), ("dark", 390), ("light", 390), ("dark", 1280)]
# Each kind of page in every look, the other lessons in two that have each scheme and each width.
VIEWS = [(page, *look) for page, look in product(KINDS, LOOKS)]
VIEWS += [(page, *look) for page, look in product(LESSONS, LOOKS[:2]) if page not in KINDS]
SCORER = Path(site.__file__).with_name("static") / "scorer.js"
OPEN = "document.querySelectorAll('details').forEach(each => { each.open = true; })"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site that ``BDL_SITE`` names, or one that is built here and then moved."""
    if made := os.environ.get("BDL_SITE"):
        return Path(made).resolve()
    folder = tmp_path_factory.mktemp("site")
    site.build(folder / "first")
    return Path(shutil.move(folder / "first", folder / "moved"))


@pytest.fixture
def open_page(built, new_page):
    """A function that opens a page of the site; ``page.requests`` are the addresses it asks for."""

    def open_page(address, width=1280, scheme="light"):
        page = new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
        page.context.set_offline(True)
        page.requests = []
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto(built.joinpath(address.partition("?")[0]).as_uri() + address[address.find("?") :])
        return page

    return open_page


@pytest.mark.parametrize(("address", "scheme", "width"), VIEWS)
def test_a_page_fits_stays_on_the_machine_and_is_accessible(open_page, address, scheme, width):
    page = open_page(address + "?", width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".katex-error").count() == 0
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    page.add_style_tag(content="* { animation: none !important; }")  # a cell that opens fades in
    page.evaluate(OPEN)
    # A header that is one formula has MathML for readers of screens, which axe does not count.
    options = {"rules": {"empty-table-header": {"enabled": False}}}
    found = Axe().run(page, options=options).response["violations"]
    headers = page.locator("th").evaluate_all("all => all.map(each => each.textContent.trim())")
    assert all(headers)
    assert [(v["id"], [node["target"] for node in v["nodes"]]) for v in found] == []


@pytest.mark.parametrize("address", LIVE[1:])
def test_code_and_formulas_fit_beside_both_columns_of_a_laptop(open_page, address):
    page = open_page(address + "?")
    page.evaluate(OPEN)
    parts = page.locator("div.math, .katex-display, .cell_input pre")
    assert parts.count() > 0
    wide = parts.evaluate_all(
        "all => all.filter(each => each.scrollWidth > each.clientWidth + 1)"
        ".map(each => each.textContent.slice(0, 60))"
    )
    assert wide == []


@pytest.mark.parametrize("address", LIVE)
def test_every_panel_of_a_page_moves(open_page, address):
    page = open_page(address + "?")
    panels = page.locator("figure.bdl-panel")
    assert panels.count() >= 1
    for figure in panels.all():
        figure.scroll_into_view_if_needed()
        figure.locator(".bdl-readout").wait_for()
        before = figure.locator(".bdl-whole").inner_html()
        figure.locator(".bdl-control :is(input, select)").first.focus()
        page.keyboard.press("End")
        page.wait_for_function(
            "([svg, old]) => svg.innerHTML !== old",
            arg=[figure.locator(".bdl-whole").element_handle(), before],
        )
    page.set_viewport_size({"width": 390, "height": 844})
    for figure in panels.all():  # on a phone the controls stay in view
        figure.evaluate("figure => figure.scrollIntoView()")
        controls = figure.locator(".bdl-controls").bounding_box()
        assert controls["y"] + controls["height"] <= 844
    assert page.errors == []


def test_the_search_finds_the_lesson_before_the_module_and_shows_excerpts(open_page):
    page = open_page("search.html?q=householder")
    page.locator("#search-results p.context").first.wait_for()
    assert "householder" in page.locator("#search-results p.context").first.inner_text().lower()
    found = page.locator("#search-results li a").first.get_attribute("href")
    assert found.startswith("lessons/10_")
    assert page.errors == []


def test_a_lesson_comes_before_the_reference_and_a_title_before_a_word(new_page):
    """As Sphinx asks: a result is (page, title, anchor, description, score, file)."""
    page = new_page()
    page.goto("about:blank")
    page.add_script_tag(path=SCORER)
    found = [
        ["package/models", "", "", None, 15],
        ["lessons/10_a", "", "", None, 2],
        ["package/probability", "", "", None, 26],
        ["lessons/05_b", "", "", None, 15],
    ]
    scores = page.evaluate("found => found.map(Scorer.score)", found)
    ranked = [row[0] for _, row in sorted(zip(scores, found, strict=True), reverse=True)]
    assert ranked == ["lessons/05_b", "lessons/10_a", "package/probability", "package/models"]
    weights = page.evaluate("[Scorer.title, Scorer.partialTitle, Scorer.term, Scorer.partialTerm]")
    assert weights == sorted(weights, reverse=True)
    assert len({*weights}) == len(weights)


class Page(HTMLParser):
    """What a page names: anchors, links, files that it loads, pictures and headers of tables."""

    def __init__(self, path):
        super().__init__()
        self.anchors = {""}
        self.links = []
        self.files = []
        self.silent = []
        self.deck = path.parent.name == "slides"  # its tables are seen, one at a time
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.anchors |= {named.get("id"), named.get("name")}
        if tag == "a" and "href" in named:
            self.links.append(named["href"])
        loaded = [named.get(key) for key in ("src", "data-src", "poster")]
        self.files += filter(None, [*loaded, named.get("href") if tag == "link" else None])
        if tag == "img" and len(named.get("alt") or "") < 20:
            self.silent.append(named["src"])
        if tag == "th" and "scope" not in named and not self.deck:
            self.silent.append("<th>")


@pytest.fixture(scope="module")
def pages(built):
    found = [path for path in built.rglob("*.html") if "_static" not in path.parts]
    return {path: Page(path) for path in found}


def test_every_link_arrives_and_every_file_is_there(pages):
    wrong = []
    for path, page in pages.items():
        for address in [*page.links, *page.files]:
            parts = urlsplit(address)
            if parts.scheme == "data" or (parts.scheme[:4] == "http" and address in page.links):
                continue  # it has its bytes with it, or it is a paper that a reader may open
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            names = {parts.fragment, unquote(parts.fragment)}  # a browser tries both
            arrives = target.exists() and (target not in pages or names & pages[target].anchors)
            if parts.scheme or not arrives:
                wrong.append(f"{path.name}: {address}")
    assert wrong == []


def test_every_lesson_has_a_page_and_slides_and_is_in_the_archive(built):
    stems = {Path(lesson).stem for lesson in LESSONS}
    for kind in ("lessons", "slides"):
        assert {path.stem for path in built.glob(f"{kind}/*.html")} == stems
    with ZipFile(built / ARCHIVE) as archive:
        assert archive.testzip() is None
        assert {f"bdl-course/notebooks/{stem}.ipynb" for stem in stems} <= {*archive.namelist()}


def test_every_picture_has_a_text_and_every_header_a_direction(pages):
    assert {path.name: page.silent for path, page in pages.items() if page.silent} == {}


def test_all_panels_of_the_course_are_there(built):
    assert {*store.names()} <= {path.stem for path in (built / "_static/panels").glob("*.js")}
