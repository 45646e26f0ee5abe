"""Speed of recorded panels in Chromium: ``python -m tests.browser.bench_web_panels [PANEL ...]``.

Main thread means processor time of the page's main thread, from the trace of the browser: scripts,
style, layout and painting, but not what other programs take meanwhile. A panel is ready when it
can be moved; the first column has wall-clock time from the moment when it is scrolled to.
"""

import json
import sys
import tempfile
from bisect import bisect
from pathlib import Path
from statistics import median

from playwright.sync_api import sync_playwright

from reproductions import markdown
from tests.browser.conftest import CHROMIUM, FLAGS
from tools.web import live, page, store

N_MOVES = 50
PAUSE_MS = 70  # between two moves, so that the picture of the first is finished
SCROLL = """() => new Promise(done => {
    performance.mark('step');
    const figure = document.querySelector('figure'), began = performance.now();
    new MutationObserver(() => figure.dataset.state && done(performance.now() - began))
        .observe(figure, {attributes: true});
    figure.scrollIntoView();
})"""
MOVE = """share => {
    performance.mark('step');
    const controls = document.querySelectorAll('.bdl-control :is(input, select)');
    const lengths = [...controls].map(one => one.options?.length ?? Number(one.max) + 1);
    let step = Math.floor(share * lengths.reduce((a, b) => a + b)), index = 0;
    while (step >= lengths[index]) step -= lengths[index++];
    controls[index].value = step;
    for (const kind of ['input', 'change']) controls[index].dispatchEvent(new Event(kind));
}"""


def main_thread_ms(events: list[dict]) -> list[float]:
    """Processor time of the main thread from each step to the next one."""
    marks = [e for e in events if e["name"] == "step" and e["ph"] in "RI"]
    thread = {(e["pid"], e["tid"]) for e in marks}
    tasks = [e for e in events if e["name"].endswith("RunTask") and e["ph"] == "X"]
    tasks = sorted(
        (e for e in tasks if (e["pid"], e["tid"]) in thread), key=lambda task: task["ts"]
    )
    starts = [task["ts"] for task in tasks]
    firsts = [bisect(starts, mark["ts"]) - 1 for mark in marks]
    return [
        sum(task["tdur"] for task in tasks[first:last]) / 1000
        for first, last in zip(firsts, [*firsts[1:], len(tasks)], strict=True)
    ]


def measure(browser, name: str, folder: Path) -> list[str]:
    """The row of one panel."""
    live.write_files([name], folder)
    figure = page.figure(store.load(name), f"{name}.png", f"{name}.js")
    head = (
        '<!DOCTYPE html><link rel="stylesheet" href="player.css"><div style="height:3000px"></div>'
    )
    html = f'{head}{figure}<div style="height:3000px"></div><script src="player.js"></script>'
    path = folder / f"{name}.html"
    path.write_text(html, encoding="utf-8")
    opened = browser.new_page(viewport={"width": 1100, "height": 800})
    opened.goto(path.as_uri())
    browser.start_tracing(
        page=opened, categories=["disabled-by-default-devtools.timeline", "blink.user_timing"]
    )
    ready = opened.evaluate(SCROLL)
    opened.wait_for_timeout(PAUSE_MS)
    for number in range(N_MOVES):
        opened.evaluate(MOVE, number / N_MOVES)
        opened.wait_for_timeout(PAUSE_MS)
    start, *moves = main_thread_ms(json.loads(browser.stop_tracing())["traceEvents"])
    assert opened.locator("figure").get_attribute("data-state") == "ready"
    assert len(moves) == N_MOVES
    opened.close()
    size = (folder / f"{name}.js").stat().st_size / 1000
    late = sorted(moves)[int(0.95 * N_MOVES)]
    times = [f"{ready:.0f}", f"{start:.0f}", f"{median(moves):.1f}", f"{late:.1f}"]
    return [name, f"{size:.0f}", *times]


def main() -> None:
    names = sys.argv[1:] or store.names()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        rows = [measure(browser, name, Path(folder)) for name in names]
        browser.close()
    head = ["panel", "kB", "ready (ms)", "main thread (ms)", "move, median", "95th percentile"]
    print(markdown.table(head, rows))


if __name__ == "__main__":
    main()
