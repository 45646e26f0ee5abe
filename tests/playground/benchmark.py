"""How much of a frame the playground takes, in headless Chromium, method by method.

Width 32, two hidden layers, 60 points of two classes, T = 8. A frame of 33 ms is smooth (30 frames a
second). The work of a frame is training, functions drawn anew, and the pictures; what is left of it
is the browser's. Run it on an idle machine:

    python -m tests.playground.benchmark
"""

from playwright.sync_api import sync_playwright

from bdl_lessons.playground import page
from tests.browser.conftest import CHROMIUM, FLAGS

FRAME_MS = 33
SECONDS = 4
METHODS = ("weight_decay", "dropout", "variational", "structured", "ensemble")
START = {"task": "classes", "set": "moons", "width": 32, "depth": 2, "n_reflections": 8}
MEASURE = """async seconds => {
    const times = {train: [], redraw: [], drawAll: [], frame: []};
    for (const name of Object.keys(times)) {
        const real = window[name];
        window[name] = (...all) => {
            const begun = performance.now();
            real(...all);
            times[name].push(performance.now() - begun);
        };
    }
    const steps = model.steps;
    await new Promise(done => setTimeout(done, 1000 * seconds));
    return {times, steps: model.steps - steps};
}"""


def main() -> None:
    print(
        f"{'method':14}{'work':>8}{'slowest':>9}  of {FRAME_MS} ms{'a step':>10}{'steps a second':>16}"
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for method in METHODS:
            opened = browser.new_page(viewport={"width": 1280, "height": 800})
            opened.set_content(page(method=method, **START))
            opened.click("#play")
            opened.wait_for_timeout(1000)
            measured = opened.evaluate(MEASURE, SECONDS)
            frames = sorted(measured["times"]["frame"])
            mean = sum(frames) / len(frames) / FRAME_MS
            slowest = frames[int(0.95 * len(frames))] / FRAME_MS
            steps = measured["times"]["train"]
            step = sum(steps) / len(steps)
            speed = measured["steps"] / SECONDS
            print(f"{method:14}{mean:8.0%}{slowest:9.0%}{step:14.2f} ms{speed:16.0f}")
            opened.close()
        browser.close()


if __name__ == "__main__":
    main()
