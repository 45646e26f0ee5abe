"""Speed of recorded panels in Chromium: ``python -m tests.browser.bench_web_panels [PANEL ...]``.

Times of moves are processor time of the page's main thread, from the trace of the browser: scripts,
style, layout and painting, but not what other programs take meanwhile. A panel is ready when it
can be moved; this one is wall-clock time from the moment when it is scrolled to.
"""

import json
import sys
import tempfile
from bisect import bisect
from pathlib import Path
from statistics import median

from playwright.sync_api import sync_playwright

from bdl_lessons.experiments import markdown
from bdl_lessons.lessons.web import live, page, store
from tests.browser.conftest import CHROMIUM, FLAGS

N_MOVES = 50
PAUSE_MS = 70  # between two moves, so that the picture of the first is finished
SCROLL = """() => new Promise(done => {
    const figure = document.querySelector('figure'), began = performance.now();
    new MutationObserver(() => figure.dataset.state && done(performance.now() - began))
        .observe(figure, {attributes: true});
    figure.scrollIntoView();
})"""
MOVE = """share => {
    performance.mark('move');
    const controls = document.querySelectorAll('.bdl-control :is(input, select)');
    const lengths = [...controls].map(one => one.options?.length ?? Number(one.max) + 1);
    let step = Math.floor(share * lengths.reduce((a, b) => a + b)), index = 0;
    while (step >= lengths[index]) step -= lengths[index++];
    controls[index].value = step;
    for (const kind of ['input', 'change']) controls[index].dispatchEvent(new Event(kind));
}"""


def main_thread_ms(events: list[dict]) -> list[float]:
    """Processor time of the main thread from each move to the next one."""
    marks = [e for e in events if e["name"] == "move" and e["ph"] in "RI"]
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
    ready = opened.evaluate(SCROLL)
    opened.wait_for_selector("figure[data-state=ready]", timeout=1000)
    browser.start_tracing(
        page=opened, categories=["disabled-by-default-devtools.timeline", "blink.user_timing"]
    )
    for number in range(N_MOVES):
        opened.evaluate(MOVE, number / N_MOVES)
        opened.wait_for_timeout(PAUSE_MS)
    took = sorted(main_thread_ms(json.loads(browser.stop_tracing())["traceEvents"]))
    opened.close()
    size = (folder / f"{name}.js").stat().st_size / 1000
    late = took[int(0.95 * len(took))]
    return [name, f"{size:.0f}", f"{ready:.0f}", f"{median(took):.1f}", f"{late:.1f}"]


def main() -> None:
    names = sys.argv[1:] or store.names()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        rows = [measure(browser, name, Path(folder)) for name in names]
        browser.close()
    head = ["panel", "kB", "ready (ms)", "move, median (ms)", "move, 95th percentile (ms)"]
    print(markdown.table(head, rows))


if __name__ == "__main__":
    main()
