import base64
import itertools
import json
import zlib

import numpy as np
import pytest

from bdl_lessons.panels.engine import Choice, Panel, Slider
from tools.web import recording
from tools.web.recording import record
from tools.web.scene import Scene

HEIGHTS, KINDS = (0.0, 0.25, 0.5, 0.75), ("line", "dots", "corner")


def build_figure(figure):
    """A line, dots and a picture."""
    axes = figure.subplots()
    axes.set(xlim=(0, 1), ylim=(0, 1), title="a < b")
    (line,) = axes.plot([0, 1], [0, 0], "--", animated=True)
    dots = axes.scatter([], [], lw=0, animated=True)
    image = axes.imshow(np.eye(3), extent=(0, 0.2, 0, 0.2), animated=True)
    words = axes.text(0.5, 0.5, "", animated=True)
    bars = axes.bar(0.5, 1, 0.2, hatch="//", animated=True)

    def update(height, kind):
        line.set_ydata([height, height])
        bars[0].set_height(height)
        dots.set_offsets(np.array([[0.1 * k, height] for k in range(KINDS.index(kind) + 1)]))
        image.set_data(np.eye(3) * height)
        words.set_visible(kind == "corner" and height == 0.75)
        words.set_text(f"{height:g}")
        return f"height <b>{height}</b> of {kind}"

    return update


@pytest.fixture
def panel():
    controls = [Slider("height", "h", HEIGHTS, 0.25), Choice("kind", "kind", KINDS, "line")]
    return Panel(build_figure, *controls, size=(3, 2))


def settings(panel):
    values = [control.web or control.values for control in panel.controls.values()]
    for places in itertools.product(*(range(len(grid)) for grid in values)):
        chosen = (grid[place] for grid, place in zip(values, places, strict=True))
        yield places, dict(zip(panel.controls, chosen, strict=True))


@pytest.mark.parametrize("web", [(), (0.25, 0.75)])
def test_the_pieces_are_the_drawing_and_the_readout_at_every_setting(panel, web):
    controls = [Slider("height", "h", HEIGHTS, 0.25, web=web), panel.controls["kind"]]
    panel = Panel(build_figure, *controls, size=(3, 2))
    made, scene = record(panel), Scene(panel)
    assert made.controls[0]["texts"] == [f"{height:g}" for height in web or HEIGHTS]
    for places, setting in settings(panel):
        frame = made.frame(places)
        assert frame == scene.frame(setting)
        pieces = [value for key, value in frame.items() if key.startswith("readout.")]
        assert "".join(pieces) == panel.render(**setting).readout


def test_a_field_has_only_the_controls_that_it_depends_on(panel):
    fields = record(panel).fields
    by_name = {key.split(".", 1)[1]: field.controls for key, field in fields.items()}
    assert by_name["image.0.shape"] == [0]
    assert by_name["text.0.shape"] == [0, 1]
    assert by_name["image.0.x"] == []


def test_the_script_holds_all_of_it(panel):
    head, name, _, data, _ = record(panel).script().split('"')
    assert (head, name) == ("bdlPanels.add(", "test-recording")
    content = json.loads(zlib.decompress(base64.b64decode(data)))
    assert content["size"] == [3000, 2000]
    assert content["alt"] == "A line, dots and a picture."
    assert content["controls"] == [
        {"label": "h", "texts": ["0", "0.25", "0.5", "0.75"], "start": 1, "list": False},
        {"label": "kind", "texts": list(KINDS), "start": 0, "list": True},
    ]
    assert "a &lt; b" in content["still"]
    assert "<pattern" in content["definitions"]
    assert all(len(slot) == 5 for slot in content["slots"])


def test_too_many_settings_and_too_large_a_file_are_named(panel, monkeypatch):
    made = record(panel)
    monkeypatch.setattr(recording, "MOST_BYTES", 100)
    with pytest.raises(ValueError, match="panel 'test-recording': its recording has"):
        made.script()
    monkeypatch.setattr(recording, "MOST_SETTINGS", 11)
    with pytest.raises(ValueError, match="panel 'test-recording' has 12 settings, more than 11"):
        record(panel)


@pytest.mark.parametrize("web", [(0.0, 0.5), (0.25, 0.3)])
def test_a_web_grid_has_the_start_and_values_of_the_slider(web):
    controls = [Slider("height", "h", HEIGHTS, 0.25, web=web), Choice("kind", "k", KINDS, "dots")]
    with pytest.raises(ValueError, match="panel 'test-recording': the web values of 'height'"):
        record(Panel(build_figure, *controls, size=(3, 2)))
