"""How much of a frame the playground takes, in headless Chromium, method by method.

Width 32, two hidden layers, 60 points of two classes, T = 8. Frames of 33 ms, 30 a second, are
smooth. A frame trains until its time for that is over, draws functions anew until their time is
over, and paints the pictures; the step and the function that are under way are finished. Times are
those of the processor, so that other programs do not count:

    python -m tests.playground.benchmark
"""

from playwright.sync_api import CDPSession, Page, sync_playwright

from bdl_lessons.playground import page
from tests.browser.conftest import CHROMIUM, FLAGS

FRAME_MS = 33
N_CALLS = 40
METHODS = ("weight_decay", "dropout", "variational", "structured", "ensemble")
START = {"task": "classes", "set": "moons", "width": 32, "depth": 2, "n_reflections": 8}
PARTS = {"a step": "train()", "a function": "model.evaluate(0, grid)", "pictures": "drawAll()"}


def processor_ms(session: CDPSession) -> float:
    """The processor time that the page has taken."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return 1000 * next(one["value"] for one in metrics if one["name"] == "TaskDuration")


def measure(opened: Page, session: CDPSession, code: str) -> float:
    """Milliseconds of one call, the first of which are not counted."""
    repeated = f"n => {{ for (let i = 0; i < n; i++) {code}; }}"
    opened.evaluate(repeated, N_CALLS)
    before = processor_ms(session)
    opened.evaluate(repeated, N_CALLS)
    return (processor_ms(session) - before) / N_CALLS


def main() -> None:
    print(f"{'method':14}" + "".join(f"{name + ' / ms':>17}" for name in PARTS) + "  longest frame")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for method in METHODS:
            opened = browser.new_page(viewport={"width": 1280, "height": 800})
            session = opened.context.new_cdp_session(opened)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            opened.set_content(page(method=method, **START))
            opened.wait_for_function("() => !isBehind()")
            parts = [measure(opened, session, code) for code in PARTS.values()]
            budget = opened.evaluate("FRAME_MS.train + FRAME_MS.draw")
            share = (budget + sum(parts)) / FRAME_MS
            times = "".join(f"{part:17.2f}" for part in parts)
            print(f"{method:14}{times}{share:10.0%} of {FRAME_MS} ms")
            opened.close()
        browser.close()


if __name__ == "__main__":
    main()
