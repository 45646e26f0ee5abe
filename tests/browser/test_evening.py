"""An evening on a small screen: what a reader meets beside the lessons themselves."""

import nbformat
import pytest

from tools import notebook

pytestmark = pytest.mark.browser

QUESTION = """## Predict, then move the slider

1. What happens at the star?
2. And at a circle?"""
PANEL = """from bdl_lessons.panels import many_networks

panel = many_networks.panel()
panel"""
LONG = """import time

from bdl_lessons.core import check, check_table, progress

progress.__globals__["_AFTER_S"] = 0.2
for _ in progress(range(10)):
    time.sleep(0.1)
with check_table():
    four = [1, 2, 3, 4]
    check("a claim that needs more words than its column has room for", four, four, 1e-12)
    check("largest difference from the reference", 0, 0, 1e-12)"""


@pytest.fixture
def small_page(lab, lab_folder, new_page):
    """A lesson of three cells on a screen of 1280 by 720, executed."""
    cells = [nbformat.v4.new_markdown_cell(QUESTION)]
    cells += [nbformat.v4.new_code_cell(source) for source in (PANEL, LONG)]
    lesson = nbformat.v4.new_notebook(cells=cells)
    notebook.write(lab_folder / "evening.ipynb", notebook.text(notebook.clean(lesson)))
    page = new_page(viewport={"width": 1280, "height": 720})
    page.set_default_timeout(120_000)
    open_lesson(page, lab)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    page.wait_for_selector(".jp-OutputArea pre:has-text('largest difference')")
    page.wait_for_selector(".bdl-panel-live .widget-image")
    return page


def open_lesson(page, lab):
    page.goto(f"{lab}/lab/tree/evening.ipynb?reset")
    page.wait_for_selector(".jp-Notebook .jp-CodeCell")
    page.wait_for_function(
        "document.querySelector('.jp-NotebookPanel .jp-Toolbar')?.innerText.includes('Python 3')"
    )


def top_and_bottom(locator):
    box = locator.bounding_box()
    return box["y"], box["y"] + box["height"]


def test_question_slider_picture_and_check_fit_a_small_screen(small_page):
    list_top, _ = top_and_bottom(small_page.locator(".jp-MarkdownCell ol").first)
    _, picture_bottom = top_and_bottom(small_page.locator(".bdl-panel-live .widget-image").first)
    notebook_top, notebook_bottom = top_and_bottom(small_page.locator(".jp-WindowedPanel-outer"))
    assert picture_bottom - list_top < notebook_bottom - notebook_top
    assert small_page.locator(".Toastify__toast").count() == 0, "no news over the first figure"

    table = small_page.locator(".jp-OutputArea pre:has-text('largest difference')")
    n_lines = len(table.inner_text().rstrip("\n").splitlines())
    height = table.evaluate("pre => pre.getBoundingClientRect().height")
    line = table.evaluate("pre => parseFloat(getComputedStyle(pre).lineHeight)")
    assert round(height / line) == n_lines, "no line of a table is broken"

    assert small_page.locator("[data-mime-type$='stderr']").count() == 0
    bars = small_page.locator(".jp-CodeCell:last-child .jp-OutputArea-child:has(.lm-Panel)")
    assert all(bar.bounding_box()["height"] < 8 for bar in bars.all() if bar.bounding_box())


def test_a_saved_panel_shows_its_picture_and_what_to_do(small_page, lab, new_page):
    small_page.keyboard.press("Control+s")
    small_page.wait_for_function("!document.querySelector('.jp-mod-dirty')")
    small_page.get_by_role("menuitem", name="Kernel", exact=True).click()
    small_page.get_by_text("Shut Down Kernel", exact=True).click()
    small_page.wait_for_function(
        "document.querySelector('.jp-NotebookPanel .jp-Toolbar').innerText.includes('No Kernel')"
    )
    small_page.close()

    page = new_page(viewport={"width": 1280, "height": 720})
    page.set_default_timeout(120_000)
    open_lesson(page, lab)
    picture = page.locator(".bdl-panel-live img.widget-image")
    picture.wait_for()
    assert picture.evaluate("image => image.naturalWidth") > 100
    page.wait_for_function(
        "getComputedStyle(document.querySelector('.bdl-panel-live'), '::after')"
        ".content.includes('Run this cell again')"
    )
    assert page.get_by_text("model not found").count() == 0


def test_a_question_of_the_self_test_stands_with_its_answers(lab, page):
    page.set_default_timeout(120_000)
    page.goto(f"{lab}/lab/tree/00_start_here.ipynb?reset")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    heading = page.locator("h2:has-text('Self-test')")
    for _ in range(60):
        if heading.count():
            break
        page.mouse.move(800, 500)
        page.mouse.wheel(0, 800)
        page.wait_for_timeout(200)
    cell = heading.locator("xpath=ancestor::div[contains(@class, 'jp-RenderedHTMLCommon')]")
    cell.locator("details").nth(14).wait_for(state="attached")  # five questions of three answers
    heading.scroll_into_view_if_needed()  # a cell out of sight has no boxes
    cell.locator("p").nth(1).wait_for(state="visible")
    gaps = cell.evaluate("""cell => {
        const box = element => element.getBoundingClientRect();
        const all = [...cell.querySelectorAll('p')];
        return all.filter(p => /^[2-5]\\. /.test(p.innerText)).map(p => {
            const folds = [...cell.querySelectorAll('details')].map(box);
            const above = Math.max(...folds.map(f => f.bottom).filter(y => y <= box(p).top + 1));
            const below = Math.min(...folds.map(f => f.top).filter(y => y >= box(p).bottom - 1));
            return [box(p).top - above, below - box(p).bottom];
        });
    }""")
    assert len(gaps) == 4
    for above, below in gaps:
        assert above > 1.5 * below
