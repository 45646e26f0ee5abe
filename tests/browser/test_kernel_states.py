"""A panel says when the kernel is busy, and what to do when it was restarted or shut down."""

import nbformat
import pytest

from tools import notebook

pytestmark = pytest.mark.browser

SAID = """() => [...document.querySelectorAll('.bdl-panel-live')].map(panel => {
    const after = getComputedStyle(panel, '::after');
    return after.content === 'none' || after.opacity === '0' ? '' : after.content;
}).join()"""


def test_a_panel_says_that_the_kernel_is_busy_and_that_it_was_restarted(lab, lab_folder, page):
    panel = "from bdl_lessons.panels import many_networks\n\nmany_networks.panel()"
    cells = [nbformat.v4.new_code_cell(s) for s in (panel, "import time\ntime.sleep(8)")]
    states = nbformat.v4.new_notebook(cells=cells)
    notebook.write(lab_folder / "states.ipynb", notebook.text(notebook.clean(states)))
    page.goto(f"{lab}/lab/tree/states.ipynb?reset")
    page.locator(".jp-Notebook .jp-CodeCell").nth(1).get_by_text("sleep").wait_for(timeout=60_000)
    page.wait_for_function(
        "document.querySelector('.jp-NotebookPanel .jp-Toolbar')?.innerText.includes('Python 3')"
    )
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
    page.keyboard.press("Shift+Enter")
    page.wait_for_selector(".bdl-panel-live .widget-image", timeout=60_000)
    page.wait_for_function(f"({SAID})() === ''")

    page.keyboard.press("Shift+Enter")
    page.wait_for_function(f"({SAID})().includes('The kernel is busy')", timeout=8_000)
    page.wait_for_function(f"({SAID})() === ''", timeout=20_000)

    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_text("Restart Kernel…", exact=True).click()
    page.get_by_role("button", name="Confirm Kernel Restart").click()
    page.wait_for_function(
        f"({SAID})().includes('Run → Run All Above Selected Cell')", timeout=30_000
    )
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
    page.keyboard.press("Shift+Enter")
    page.wait_for_function(f"({SAID})() === ''", timeout=60_000)

    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_text("Shut Down Kernel", exact=True).click()
    page.wait_for_function(
        f"({SAID})().includes('Run → Run All Above Selected Cell')", timeout=30_000
    )
