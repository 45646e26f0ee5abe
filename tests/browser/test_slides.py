"""Every slide is laid out in a browser without a network, and must fit."""

import re
from functools import cache

import nbformat
import pytest

from tools import notebook, slides
from tools.metadata import lessons
from tools.timing import on_stage

pytestmark = pytest.mark.browser

WIDTH, HEIGHT, TEXT = 1280, 720, 26  # pixels
MARGIN = 30  # pixels at the right end
SMALLEST_SCALE = 0.8  # text of figures has 10 points; a lecture hall cannot read it smaller

READY = """async () => {
    await Promise.all([...document.fonts].map(font => font.load()));
    await Promise.all([...document.images].map(image => image.decode()));
    Reveal.configure({fragments: false, progress: false, slideNumber: false, controls: false});
    return {scale: Reveal.getScale(), slides: Reveal.getSlides().length};
}"""

MEASURE = r"""async index => {
    const slide = Reveal.getSlides()[index], {h, v} = Reveal.getIndices(slide);
    Reveal.slide(h, v);
    const panels = [...slide.querySelectorAll('figure.bdl-panel')];
    while (panels.some(panel => !panel.dataset.state)) await new Promise(requestAnimationFrame);
    const enlarged = (part, width, height) => {
        const box = part.getBoundingClientRect();
        return Math.min(box.width / width, box.height / height);
    };
    const drawing = ({width, height}) => [width / 10, height / 10];
    const cells = [...slide.querySelectorAll('.jp-Cell')].filter(cell => !cell.closest('aside'));
    const rest = slide.cloneNode(true);
    rest.querySelectorAll('aside, pre, code, .katex, .katex-error').forEach(part => part.remove());
    const text = slide.querySelector('.jp-MarkdownCell p, .jp-MarkdownCell li');
    const filled = slide.querySelector('.jp-OutputArea :is(img, iframe), .bdl-panel, .title');
    const parts = [...slide.querySelectorAll('.grown :is(p, li, pre, table, .katex-display)')];
    const boxes = parts.map(part => part.getBoundingClientRect()).filter(box => box.height);
    const heading = slide.querySelector('h2')?.getBoundingClientRect().bottom ?? 0;
    const formulas = [...slide.querySelectorAll('.katex-html .mord')];
    return {
        cells: cells.map(cell => cell.id.replace('cell-id=', '')),
        width: slide.scrollWidth,
        height: slide.scrollHeight,
        above: filled ? 0 : Math.min(...boxes.map(box => box.top)) - heading,
        below: filled ? 0 : innerHeight - Math.max(...boxes.map(box => box.bottom)),
        formulas: Math.max(0, ...formulas.map(part => part.getBoundingClientRect().right)),
        text: text ? parseFloat(getComputedStyle(text).fontSize) : null,
        empty: !slide.innerText.trim() && !slide.querySelector('img'),
        scales: [...slide.querySelectorAll('img')].map(
            image => enlarged(image, image.naturalWidth, image.naturalHeight))
            .concat([...slide.querySelectorAll('.bdl-whole')].map(
                svg => enlarged(svg, ...drawing(svg.viewBox.baseVal)))),
        raw: [...slide.querySelectorAll('.katex-error, mstyle[mathcolor="#cc0000"]')]
            .map(error => error.title || error.textContent)
            .concat(rest.textContent.match(/\$[^$]+\$|\\[a-z]+/) ?? []),
    };
}"""


def faults(slide):
    """One sentence for each thing that is wrong; each names the slide by its first cell."""
    name = f"slide {slide['cells'][0]}"
    for side, fits in (("height", HEIGHT), ("width", WIDTH)):
        if slide[side] > fits:
            yield f"{name}: {side} {slide[side]} px, {fits} fit"
    if slide["formulas"] > WIDTH - MARGIN:
        yield f"{name}: a formula ends at {slide['formulas']} px, beyond the margin"
    if slide["below"] > HEIGHT / 4 + slide["above"]:
        yield f"{name}: {slide['below']} px are blank below the text, {slide['above']} px above it"
    if slide["text"] is not None and slide["text"] < TEXT:
        yield f"{name}: text of {slide['text']} px, less than {TEXT}"
    if slide["empty"]:
        yield f"{name}: shows nothing"
    for scale in slide["scales"]:
        if scale < SMALLEST_SCALE:
            yield f"{name}: a picture is shown at {scale:.0%}, less than {SMALLEST_SCALE:.0%}"
    for part in slide["raw"]:
        yield f"{name}: {part} is not typeset"


@pytest.fixture
def deck(new_page):
    """A page without a network; ``deck.asked`` are the addresses that it asked for in vain."""
    page = new_page(viewport={"width": WIDTH, "height": HEIGHT}, offline=True)
    page.asked = []
    page.on("requestfailed", lambda request: page.asked.append(request.url))
    return page


@pytest.fixture(scope="module")
def write(tmp_path_factory):
    """A function that gives the slides of a lesson, and writes them only once."""
    folder = tmp_path_factory.mktemp("slides")
    return cache(lambda notebook: slides.write(notebook, folder))


@pytest.mark.parametrize(
    "lesson", [one for one in lessons() if one.number != "90"], ids=lambda one: one.number
)
def test_every_slide_fits_the_screen(deck, lesson, write):
    deck.goto(write(lesson.path).as_uri())
    deck.wait_for_function("Reveal.isReady()")
    ready = deck.evaluate(READY)
    assert ready["scale"] == 1, "one pixel of a slide must be one pixel of the screen"
    measures = [deck.evaluate(MEASURE, index) for index in range(ready["slides"])]
    assert [fault for slide in measures for fault in faults(slide)] == []
    assert deck.asked == deck.errors == []


WITH_PANELS = [one for one in lessons() if one.cells("panel")]
SHOW = """async panel => {
    const {h, v} = Reveal.getIndices(panel.closest('section'));
    Reveal.slide(h, v, 99);
    while (!panel.dataset.state) await new Promise(requestAnimationFrame);
}"""
DRAWN = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
HEIGHT_NOW = "Reveal.getCurrentSlide().scrollHeight"


@pytest.mark.parametrize("lesson", WITH_PANELS, ids=lambda one: one.number)
def test_panels_move_on_their_slides_by_keyboard(deck, lesson, write):
    deck.goto(write(lesson.path).as_uri())
    deck.wait_for_function("Reveal.isReady()")
    panels = deck.locator("figure.bdl-panel")
    staged = {cell.id for cell in notebook.read(lesson.path).cells if on_stage(cell)}
    assert panels.count() == len([one for one in lesson.cells("panel") if one.id in staged]) > 0
    for panel in panels.all():
        panel.evaluate(SHOW)
        slide = deck.evaluate("Reveal.getIndices()")
        panel.locator(".bdl-control :is(input, select)").first.focus()
        for control in panel.locator(".bdl-control :is(input, select)").all():
            assert control.evaluate("control => control === document.activeElement")
            seen = {panel.inner_html()}
            for key in ("Home", "ArrowRight", "End"):
                deck.keyboard.press(key)
                deck.evaluate(DRAWN)
                assert deck.evaluate(HEIGHT_NOW) <= HEIGHT
                seen.add(panel.inner_html())
            assert len(seen) > 1
            deck.keyboard.press("Tab")
            assert deck.evaluate("Reveal.getIndices()") == slide, "the slide has no use for keys"
        deck.keyboard.press("PageUp")
        assert deck.evaluate("Reveal.getIndices()") != slide, "a remote control turns the slide"
    assert deck.asked == deck.errors == []


def test_the_speaker_has_notes_and_the_next_slide_in_a_second_window(deck, tmp_path):
    texts = ("# Title", r"Say $\frac{1}{2}$ slowly.", "The end.")
    cells = [nbformat.v4.new_markdown_cell(text) for text in texts]
    for cell, kind in zip(cells, ("slide", "notes", "slide"), strict=True):
        cell.metadata["slideshow"] = {"slide_type": kind}
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "90_x.ipynb")
    deck.goto(slides.write(tmp_path / "90_x.ipynb", tmp_path).as_uri())
    deck.wait_for_function("Reveal.isReady()")
    with deck.expect_popup() as opened:
        deck.keyboard.press("s")
    speaker = opened.value
    notes = speaker.locator(".speaker-controls-notes .value")
    notes.get_by_text("Say").wait_for()
    assert notes.locator("math").count() == 1
    assert notes.locator(".katex-html").count() == 0, "it would be shown twice"
    upcoming = speaker.frame_locator("#upcoming-slide iframe")
    upcoming.locator("p", has_text="The end.").wait_for()
    deck.keyboard.press("ArrowRight")
    notes.wait_for(state="hidden")
    assert deck.errors == []


@pytest.mark.parametrize("query", ["", "&showNotes=separate-page"])
def test_a_handout_has_a_page_for_each_slide_and_each_note(deck, write, query):
    deck.goto(f"{write(WITH_PANELS[0].path).as_uri()}?print-pdf{query}")
    deck.locator("figure[data-state=ready]").wait_for()
    pages = deck.locator(".pdf-page")
    pages.first.wait_for()
    printed = deck.pdf(prefer_css_page_size=True)
    noted = deck.locator(".speaker-notes-pdf").count()
    assert noted == (pages.count() if query else 0), "every slide has a note"
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == pages.count() + noted
    assert pages.count() == deck.evaluate("Reveal.getTotalSlides()")
    assert deck.errors == []
