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
LESSONS_WITH_PANELS = [lesson for lesson in LESSONS if "90_" not in lesson]
PAGES_WITH_PANELS = ["index.html", *LESSONS_WITH_PANELS]
TYPICAL_PAGES = [
    "index.html",
    "results/index.html",
    "package/probability.html",
    "search.html",
    "genindex.html",
    *[lesson for lesson in LESSONS if lesson[8:10] in ("00", "05", "90")],
]
"""One of each kind."""
OTHER_LESSONS = [lesson for lesson in LESSONS if lesson not in TYPICAL_PAGES]
VIEWS = [
    *product(TYPICAL_PAGES, ("light", "dark"), (1280, 390)),
    *product(OTHER_LESSONS, ("light",), (1280,)),
    *product(OTHER_LESSONS, ("dark",), (390,)),
]
"""Page, colour scheme and width in pixels."""
SCORER = Path(site.__file__).with_name("static") / "scorer.js"
OPEN = "document.querySelectorAll('details').forEach(each => { each.open = true; })"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site that ``BDL_SITE`` names, or one that is built here and then moved."""
    if folder := os.environ.get("BDL_SITE"):
        return Path(folder).resolve()
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
        path, mark, query = address.partition("?")
        page.goto(built.joinpath(path).as_uri() + mark + query)
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
    violations = Axe().run(page, options=options).response["violations"]
    headers = page.locator("th").evaluate_all("all => all.map(each => each.textContent.trim())")
    assert all(headers)
    places = {rule["id"]: [node["target"] for node in rule["nodes"]] for rule in violations}
    assert places == {}


@pytest.mark.parametrize("address", LESSONS_WITH_PANELS)
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


@pytest.mark.parametrize("address", PAGES_WITH_PANELS)
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
    excerpt = page.locator("#search-results p.context").first
    excerpt.wait_for()
    assert "householder" in excerpt.inner_text().lower()
    first_address = page.locator("#search-results li a").first.get_attribute("href")
    assert first_address.startswith("lessons/10_")
    assert page.errors == []


def test_a_lesson_comes_before_the_reference_and_a_title_before_a_word(new_page):
    """As Sphinx asks: a result is (page, title, anchor, description, score, file)."""
    page = new_page()
    page.goto("about:blank")
    page.add_script_tag(path=SCORER)
    results = [
        ["package/models", "", "", None, 15],
        ["lessons/10_a", "", "", None, 2],
        ["package/probability", "", "", None, 26],
        ["lessons/05_b", "", "", None, 15],
    ]
    scores = page.evaluate("results => results.map(Scorer.score)", results)
    score_of_page = {result[0]: score for result, score in zip(results, scores, strict=True)}
    ranked = sorted(score_of_page, key=score_of_page.get, reverse=True)
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
        self.is_deck = path.parent.name == "slides"  # its tables are seen, one at a time
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.anchors |= {named.get("id"), named.get("name")}
        if tag == "a" and "href" in named:
            self.links.append(named["href"])
        if tag == "link" and named.get("href"):
            self.files.append(named["href"])
        for key in ("src", "data-src", "poster"):
            if named.get(key):
                self.files.append(named[key])
        if tag == "img" and len(named.get("alt") or "") < 20:
            self.silent.append(named["src"])
        if tag == "th" and "scope" not in named and not self.is_deck:
            self.silent.append("<th>")


@pytest.fixture(scope="module")
def pages(built):
    paths = [path for path in built.rglob("*.html") if "_static" not in path.parts]
    return {path: Page(path) for path in paths}


def arrives(address, path, pages):
    """Whether an address on the page with this path leads to a file, and to an anchor there."""
    parts = urlsplit(address)
    if parts.scheme:
        return False
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    names = {parts.fragment, unquote(parts.fragment)}  # a browser tries both
    return target.exists() and (target not in pages or bool(names & pages[target].anchors))


def test_every_link_arrives_and_every_file_is_there(pages):
    """But for papers, which a reader opens from the web, and what has its bytes with it."""
    wrong = []
    for path, page in pages.items():
        links = [link for link in page.links if not link.startswith(("http", "data:"))]
        files = [file for file in page.files if not file.startswith("data:")]
        for address in [*links, *files]:
            if not arrives(address, path, pages):
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
