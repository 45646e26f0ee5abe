"""Every panel of every lesson, as a reader meets it: run the lesson, move a control, look."""

import pytest

from tools.metadata import lessons

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.number)
def test_the_slider_moves_and_the_picture_follows(lab, page, lesson):
    page.set_default_timeout(180_000)  # the kernel answers when the cells below the panel have run
    page.goto(f"{lab}/lab/tree/{lesson.path.name}?reset")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.wait_for_function(
        "document.querySelector('.jp-NotebookPanel .jp-Toolbar')?.innerText.includes('Python 3')"
    )
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()

    images = page.locator(".jp-OutputArea img.widget-image")
    n_panels = len(lesson.cells("panel"))
    page.wait_for_function(
        "document.querySelectorAll('.jp-OutputArea .widget-image').length"
        f" >= {len(lesson.cells('panel'))}"
    )
    assert images.count() == n_panels
    for index in range(images.count()):
        image = images.nth(index)
        image.scroll_into_view_if_needed()
        panel = image.locator("xpath=ancestor::div[contains(@class, 'widget-vbox')][1]")
        handles = panel.locator(".noUi-handle")
        page.wait_for_function(
            "panel => panel.querySelector('.widget-html')?.innerText", arg=panel.element_handle()
        )
        readout = panel.locator(".widget-html").first.inner_text()  # the second is a style
        before = image.get_attribute("src")
        if handles.count():
            handles.first.focus()
            page.keyboard.press("ArrowRight")
        else:
            panel.locator("select").first.select_option(index=1)
        page.wait_for_function(
            "([image, old]) => image.src !== old", arg=[image.element_handle(), before]
        )
        page.wait_for_function(
            "([panel, old]) => panel.querySelector('.widget-html').innerText !== old",
            arg=[panel.element_handle(), readout],
        )
        panel.get_by_role("button", name="Reset").click()
        page.wait_for_function(
            "([panel, old]) => panel.querySelector('.widget-html').innerText === old",
            arg=[panel.element_handle(), readout],
        )
    relevant = [error for error in page.errors if "favicon" not in error]
    assert relevant == []
