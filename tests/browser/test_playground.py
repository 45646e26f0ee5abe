"""The playground, opened from the disk without a network: played by mouse, touch and keys."""

from itertools import product

import pytest
from axe_playwright_python.sync_playwright import Axe

from bdl_lessons.playground import page, playground

pytestmark = pytest.mark.browser

LOOKS = [*product(("light", "dark"), (1280, 390))]
METHODS = ("weight_decay", "dropout", "variational", "structured", "ensemble")
PATIENCE_MS = 120_000
DRAWN = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"


@pytest.fixture
def open_page(new_page, tmp_path):
    """A function that opens the playground with a fragment in its address."""

    def open_page(fragment="", **options):
        path = tmp_path / "playground.html"
        path.write_text(page(), encoding="utf-8")
        opened = new_page(**({"viewport": {"width": 1280, "height": 800}} | options))
        opened.context.set_offline(True)
        opened.requests = []
        opened.on("request", lambda request: opened.requests.append(request.url))
        opened.goto(f"{path.as_uri()}#{fragment}")
        opened.evaluate(DRAWN)
        return opened

    return open_page


def train(opened, n_steps):
    """Play until the network has taken so many steps, then pause."""
    opened.get_by_role("button", name="Play").click()
    opened.wait_for_function("n => model.steps >= n", arg=n_steps, timeout=PATIENCE_MS)
    opened.get_by_role("button", name="Pause").click()
    opened.wait_for_function("() => !isBehind()", timeout=PATIENCE_MS)
    opened.evaluate(DRAWN)


def position(opened, x, y):
    """Where a place of the plot is on the screen."""
    plot = opened.locator("#plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    return box["x"] + (x + 3) / 6 * box["width"], box["y"] + (3 - y) / 6 * box["height"]


def points(opened):
    return opened.evaluate("state.points")


def picture(opened):
    return opened.evaluate("element('plot').toDataURL()")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", ["curve", "classes"])
def test_every_method_trains_and_every_view_is_another_picture(open_page, task, method):
    opened = open_page(f"task={task}&method={method}&width=8&depth=1")
    train(opened, n_steps=100)
    assert opened.evaluate("losses.last.loss < losses.means[0]")
    views = opened.locator("[name=view] option:enabled").evaluate_all(
        "all => all.map(o => o.value)"
    )
    pictures = set()
    for view in views:
        opened.select_option("[name=view]", view)
        opened.evaluate(DRAWN)
        pictures.add(picture(opened))
    assert len(pictures) == len(views) == (2 if task == "curve" else 3)
    assert opened.locator("#alphas").is_visible() == (method in ("variational", "structured"))
    assert opened.locator("#factors").is_visible() == (method == "structured")
    assert opened.errors == []
    assert all(url.startswith(("file:", "data:")) for url in opened.requests)


def test_play_pause_step_and_start_anew(open_page):
    opened = open_page()
    opened.get_by_role("button", name="One step").click()
    assert opened.evaluate("model.steps") == 1
    train(opened, n_steps=20)
    steps = opened.evaluate("model.steps")
    opened.wait_for_timeout(300)
    assert opened.evaluate("model.steps") == steps
    before = opened.evaluate("[...model.networks[0].layers[0].weight.values]")
    opened.get_by_role("button", name="Start anew").click()
    assert opened.evaluate("model.steps") == 0
    assert opened.evaluate("[...model.networks[0].layers[0].weight.values]") != before


def test_a_click_adds_a_point_a_drag_moves_it_and_a_second_click_removes_it(open_page):
    opened = open_page("task=classes&set=gap")
    opened.get_by_role("button", name="Clear").click()
    assert points(opened) == []
    opened.locator("[name=label][value='1']").check()
    opened.mouse.click(*position(opened, -1, 2))
    (point,) = points(opened)
    assert (point["x"], point["y"]) == pytest.approx((-1, 2), abs=0.03)
    assert point["label"] == 1
    opened.mouse.move(*position(opened, -1, 2))
    opened.mouse.down()
    opened.mouse.move(*position(opened, 0, 1))
    opened.mouse.move(*position(opened, 1.5, -1))
    opened.mouse.up()
    (point,) = points(opened)
    assert (point["x"], point["y"]) == pytest.approx((1.5, -1), abs=0.03)
    opened.mouse.click(*position(opened, 1.5, -1))
    assert points(opened) == []
    opened.get_by_role("button", name="Play").click()
    assert "Set a point first" in opened.locator("#goal").inner_text()


def test_touch_adds_and_removes_a_point(open_page):
    opened = open_page(viewport={"width": 390, "height": 844}, has_touch=True)
    before = points(opened)
    opened.touchscreen.tap(*position(opened, 0, 2))
    assert len(points(opened)) == len(before) + 1
    opened.touchscreen.tap(*position(opened, 0.1, 2))  # a finger is less exact than a mouse
    assert points(opened) == before


def test_keys_move_the_cross_and_add_a_point_and_a_reader_of_screens_hears_it(open_page):
    opened = open_page()
    n_points = len(points(opened))
    opened.locator("#plot").focus()
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("Shift+ArrowUp")
    assert opened.evaluate("probe") == {"x": 0.1, "y": 0.5}
    assert "At x = 0.10: mean" in opened.locator("#say").inner_text()
    opened.keyboard.press("Enter")
    assert points(opened)[-1] == {"x": 0.1, "y": 0.5}
    assert "added" in opened.locator("#say").inner_text()
    opened.keyboard.press("Enter")
    assert len(points(opened)) == n_points


def test_the_address_is_the_whole_set_up(open_page):
    opened = open_page("task=classes&set=ridge&method=structured&n_reflections=3&depth=0&seed=4")
    opened.select_option("[name=kl_weight]", "0.3")
    opened.mouse.click(*position(opened, 2, -2))
    train(opened, n_steps=1)
    fragment = opened.evaluate("location.hash.slice(1)")
    again = open_page(fragment)
    for name in ("state", "probe"):
        assert again.evaluate(name) == opened.evaluate(name)
    n_steps = opened.evaluate("model.steps")
    again.evaluate("n => { for (let i = 0; i < n; i++) train(); }", n_steps)
    assert again.evaluate("losses.last") == opened.evaluate("losses.last")


@pytest.mark.parametrize(
    "fragment",
    [
        "task=curve&view=entropy",
        "task=classes&label=7",
        "width=1e9&depth=x&method=&p_drop=7",
        "points=1,2;a,b;9,9",
        "%%%",
    ],
)
def test_an_address_that_says_nothing_sensible_does_no_harm(open_page, fragment):
    opened = open_page(fragment)
    train(opened, n_steps=2)
    assert opened.evaluate("state.width") == 32
    assert 0.05 <= opened.evaluate("state.p_drop") <= 0.9
    assert opened.evaluate("state.points.every(p => Math.abs(p.x) <= 3 && Math.abs(p.y) <= 3)")
    assert opened.errors == []


def invite(opened, number):
    opened.locator("#invitations button").nth(number - 1).click()


def goal(opened):
    opened.evaluate(DRAWN)
    return opened.locator("#goal").inner_text()


PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
PARTS = ("task", "play", "plot")


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_on_a_phone_task_button_and_plot_are_on_one_screen(open_page, number):
    opened = open_page(**PHONE)
    invite(opened, number)
    task, button, plot = (opened.locator(f"#{name}").bounding_box() for name in PARTS)
    assert -1 <= task["y"] < button["y"] < plot["y"] < plot["y"] + plot["height"] <= 844
    assert goal(opened) == "Press Play."


def test_on_a_phone_a_tap_looks_where_an_invitation_asks_for_it(open_page):
    opened = open_page(**PHONE)
    invite(opened, 1)
    before = points(opened)
    for x, y in ((-1.5, -1.5), (2.9, 2.9)):  # at points, and beyond them
        opened.touchscreen.tap(*position(opened, x, y))
        probe = opened.evaluate("probe")
        assert (probe["x"], probe["y"]) == pytest.approx((x, y), abs=0.03)
    assert points(opened) == before


def test_the_buttons_of_a_task_set_what_it_asks_for(open_page):
    opened = open_page(**PHONE)
    invite(opened, 4)
    assert opened.get_by_role("button", name="T = 0").get_attribute("aria-pressed") == "true"
    opened.get_by_role("button", name="T = 1").tap()
    opened.evaluate(DRAWN)
    assert opened.evaluate("state.n_reflections") == 1
    assert opened.locator("[name=n_reflections]").input_value() == "1"
    assert opened.get_by_role("button", name="T = 1").get_attribute("aria-pressed") == "true"


def test_invitation_to_be_confident_without_data(open_page):
    opened = open_page()
    invite(opened, 1)
    train(opened, n_steps=900)
    opened.mouse.move(*position(opened, -1.5, -1.5))
    assert "a point is near" in goal(opened)
    opened.mouse.move(*position(opened, 0, 0))
    assert "Look elsewhere" in goal(opened), "what it said of the other place is gone"
    opened.mouse.move(*position(opened, -2.9, 0))
    assert goal(opened).startswith("✓ 99")


def test_invitation_to_compare_dropout_and_ensemble_between_two_clusters(open_page):
    opened = open_page()
    invite(opened, 2)
    train(opened, n_steps=1500)
    opened.select_option("[name=method]", "ensemble")
    train(opened, n_steps=1000)
    assert goal(opened).startswith("✓")
    notes = opened.evaluate("notes")
    gap, at_points = map(float, notes["dropout"].split(" and "))
    assert gap < at_points
    gap, at_points = map(float, notes["ensemble"].split(" and "))
    assert gap > 3 * at_points
    assert "dropout" in opened.locator("#earlier").inner_text()


def test_invitation_to_find_two_reasons_to_be_uncertain(open_page):
    opened = open_page()
    invite(opened, 3)
    train(opened, n_steps=1000)
    places = opened.evaluate(
        """() => {
            const {entropy, mutual_information} = classUncertainty(draws);
            const place = i => ({x: grid[2 * i], y: grid[2 * i + 1]});
            const isNear = i => nearestPoint(state.points, place(i), 0.3);
            const cells = [...entropy.keys()].filter(i => entropy[i] > 0.45);
            const share = i => mutual_information[i] / entropy[i];
            cells.sort((a, b) => share(a) - share(b));
            const far = cells.filter(i => !nearestPoint(state.points, place(i), 0.6));
            return [far[0], cells.find(isNear), cells.at(-1)].map(place).map(({x, y}) => [x, y]);
        }"""
    )
    opened.evaluate("notes = {}")
    opened.mouse.move(*position(opened, *places.pop(0)))
    assert not goal(opened).startswith("One of two"), "no label there says so"
    for x, y in places:
        assert not goal(opened).startswith("✓")
        opened.mouse.move(*position(opened, max(-2.95, min(x, 2.95)), max(-2.95, min(y, 2.95))))
        opened.evaluate(DRAWN)
    assert goal(opened).startswith("✓ You found both")


def test_invitation_to_see_what_reflections_do_off_a_ridge(open_page):
    opened = open_page()
    invite(opened, 4)
    train(opened, n_steps=1500)
    opened.locator("[name=n_reflections]").focus()
    opened.keyboard.press("ArrowRight")
    train(opened, n_steps=1500)
    assert goal(opened).startswith("✓")
    notes = opened.evaluate("notes")
    before, after = (float(notes[name].split()[0]) for name in ("before", "after"))
    assert after > 1.5 * before
    assert "correlation −0." in opened.locator("#factor-text").inner_text()


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
@pytest.mark.parametrize("task", ["curve", "classes"])
def test_it_fits_and_is_accessible(open_page, task, scheme, width):
    fragment = f"task={task}&method=structured"
    opened = open_page(fragment, viewport={"width": width, "height": 844}, color_scheme=scheme)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    plot = opened.locator("#plot").bounding_box()
    assert plot["y"] + plot["height"] <= 844, "one plays before one scrolls"
    violations = Axe().run(opened).response["violations"]
    places = {rule["id"]: [node["target"] for node in rule["nodes"]] for rule in violations}
    assert places == {}
    if width < 400:
        for control in opened.locator(":is(button, select, input[type=range]):visible").all():
            assert control.bounding_box()["height"] >= 44


def test_in_a_frame_it_starts_as_it_was_told_and_leaves_the_slide_its_keys(new_page):
    opened = new_page(viewport={"width": 1000, "height": 900})
    shown = playground(method="ensemble", task="classes", set="moons")._repr_html_()
    opened.set_content(f"<p>Before</p>{shown}")
    opened.evaluate("addEventListener('keydown', event => { window.turned = event.key; })")
    frame = opened.frames[1]
    frame.locator("#play").focus()
    assert frame.evaluate("state.method") == "ensemble"
    assert frame.evaluate("state.set") == "moons"
    frame.locator("#play").click()
    frame.wait_for_function("() => model.steps > 0")
    opened.keyboard.press("PageDown")
    assert opened.evaluate("window.turned") == "PageDown"
    assert opened.errors == []
