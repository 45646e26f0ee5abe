"""Recorded panels move without a kernel and without a network, and look like the real ones."""

import io
import re
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from bdl_lessons.panels import many_networks
from tools.web import page, store

pytestmark = pytest.mark.browser

BLUR = 3  # pixels; letters may lie half a pixel apart, and add up along a word
# Share of pixels whose blurred grey differs by more than a quarter of black: words of another width
# move the marks of a legend, and crowds of translucent dots are drawn without seeing through.
MOST_DIFFERENT = 0.001
DRAWN = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
READY = "figure.bdl-panel[data-state=ready]"


@pytest.fixture(scope="module")
def panel():
    return store.load("many-networks")


@pytest.fixture
def opened(panel, new_page, tmp_path):
    """The page of the panel, opened from the disk without a network."""
    path = tmp_path / f"{panel.name}.html"
    path.write_text(page.page(panel), encoding="utf-8")
    opened = new_page(viewport={"width": 1100, "height": 800})
    opened.context.set_offline(True)
    opened.requests = []
    opened.on("request", lambda request: opened.requests.append(request.url))
    opened.goto(path.as_uri())
    opened.wait_for_selector(READY)
    return opened


def set_places(opened, places):
    """Move every control to a place on its grid, as the reader's hand would."""
    opened.evaluate(
        """places => {
            const inputs = document.querySelectorAll('.bdl-control input, .bdl-control select');
            inputs.forEach((input, index) => {
                input.value = places[index];
                input.dispatchEvent(new Event(input.matches('select') ? 'change' : 'input'));
            });
        }""",
        places,
    )
    opened.evaluate(DRAWN)


def grey(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("L")).astype(float)


def test_picture_and_readout_are_those_of_python(panel, opened):
    """At three settings, there and back, and after Reset; words and all."""
    real = many_networks.panel()
    grids = [control.web or control.values for control in real.controls.values()]
    corners = [[0] * len(grids), [len(grid) - 1 for grid in grids], [len(g) // 2 for g in grids]]
    drawing = opened.locator(".bdl-whole")

    def compare(setting):
        wanted = opened.evaluate(
            "html => Object.assign(document.createElement('p'), {innerHTML: html}).innerHTML",
            real.render(**setting).readout,
        )
        assert opened.locator(".bdl-readout").evaluate("p => p.innerHTML") == wanted
        seen = grey(drawing.screenshot(scale="css"))
        drawn = grey(real.render(**setting).png)
        height = min(seen.shape[0], drawn.shape[0])
        width = min(seen.shape[1], drawn.shape[1])
        seen = seen[:height, :width]
        drawn = drawn[:height, :width]
        off = np.abs(gaussian_filter(seen, BLUR) - gaussian_filter(drawn, BLUR)) > 64
        assert off.mean() < MOST_DIFFERENT

    def shown():
        return drawing.evaluate(
            "svg => [...svg.querySelectorAll(':is(path, text, image):not([hidden])')]"
            ".map(element => element.outerHTML)"
        )

    first = opened.locator(".bdl-control input").first
    said = opened.locator("output").first
    assert first.get_attribute("aria-valuetext") == said.inner_text()
    pictures = {}
    start = shown()
    for number, places in enumerate([*corners, *reversed(corners)]):
        set_places(opened, places)
        if number < len(corners):
            chosen = zip(real.controls, grids, places, strict=True)
            compare({name: grid[place] for name, grid, place in chosen})
        assert pictures.setdefault(str(places), shown()) == shown()  # whichever way one came here
    opened.get_by_role("button", name="Reset").click()
    opened.evaluate(DRAWN)
    assert shown() == start
    compare({})
    assert opened.errors == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in opened.requests)


def test_on_a_phone_the_parts_stack_and_the_controls_are_large(panel, opened):
    opened.set_viewport_size({"width": 390, "height": 844})
    assert opened.evaluate("document.documentElement.scrollWidth") == 390
    parts = opened.locator(".bdl-part")
    boxes = [parts.nth(i).bounding_box() for i in range(parts.count())]
    assert all(a["y"] + a["height"] <= b["y"] for a, b in pairwise(boxes))
    words = opened.evaluate(
        """() => {
            const part = document.querySelector('.bdl-part');
            const scale = part.getBoundingClientRect().width / part.viewBox.baseVal.width;
            return [...document.querySelectorAll('.bdl-whole text')]
                .map(text => parseFloat(text.style.fontSize) * scale);
        }"""
    )
    assert min(words, default=12) > 11.9
    for control in opened.locator(":is(.bdl-control input, .bdl-control select)").all():
        assert control.bounding_box()["height"] >= 44


def test_a_panel_is_dark_on_a_dark_page_and_keeps_its_hues(opened):
    """Paper, words and readout turn around; a red line stays red."""

    def shown():
        opened.evaluate(DRAWN)
        colours = opened.locator(".bdl-panel").evaluate(
            "panel => [getComputedStyle(panel).backgroundColor, getComputedStyle(panel).color]"
        )
        paper, words = (sum(map(int, re.findall(r"\d+", colour)[:3])) / 3 for colour in colours)
        drawing = opened.locator(".bdl-picture").screenshot()
        pixels = np.asarray(Image.open(io.BytesIO(drawing)).convert("RGB")).astype(float)
        red = pixels[(pixels[..., 0] - pixels[..., 1:].max(-1)) > 60]
        return paper, words, np.median(pixels.mean(-1)), len(red)

    paper, words, drawn_paper, n_red = shown()
    assert paper > 230
    assert drawn_paper > 230
    assert words < 80
    assert n_red > 0
    opened.evaluate("document.documentElement.dataset.theme = 'dark'")
    paper, words, drawn_paper, n_red = shown()
    assert paper < 60
    assert drawn_paper < 60
    assert words > 180
    assert n_red > 0


@pytest.mark.parametrize(
    ("data", "source"),
    [('bdlPanels.add("many-networks", "bm90IGRlZmxhdGVk");', ""), ("", "data-src=missing.js")],
    ids=["corrupt", "missing"],
)
def test_a_bad_file_leaves_the_picture_and_says_so(new_page, tmp_path, data, source):
    html = page.page(store.WebPanel("many-networks", data, b"", "Two pictures", (9.0, 3.6)))
    path = tmp_path / "bad.html"
    path.write_text(html.replace("data-panel", f"{source} data-panel"), encoding="utf-8")
    opened = new_page()
    opened.goto(path.as_uri())
    message = opened.locator(".bdl-message")
    message.wait_for()
    assert "the picture shows where it starts" in message.inner_text()
    assert opened.locator("figure img[alt='Two pictures']").count() == 1
