import base64
import json
import zlib

import numpy as np
import pytest

from bdl_lessons.panels.engine import Choice, Panel, Slider
from tools.web import recording
from tools.web.recording import record

HEIGHTS = (0.0, 0.25, 0.5, 0.75)
KINDS = ("line", "dots", "corner")


def build_figure(figure):
    """A line, words and a picture."""
    axes = figure.subplots()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.set_title("a < b")
    (line,) = axes.plot([0, 1], [0, 0], "--", animated=True)
    image = axes.imshow(np.eye(3), extent=(0, 0.2, 0, 0.2), animated=True)
    words = axes.text(0.5, 0.5, "", animated=True)

    def update(height, kind):
        line.set_ydata([height, height])
        image.set_data(np.eye(3) * height)
        words.set_visible(kind == "corner" and height == 0.75)
        words.set_text(f"{height:g}")
        return f"height <b>{height}</b> of {kind}"

    return update


@pytest.fixture
def panel():
    return panel_with(web=None)


def panel_with(web):
    """The panel, whose page offers these heights; all of them without an argument."""
    return Panel(
        build_figure,
        Slider(name="height", label="h", values=HEIGHTS, value=0.25, web=web),
        Choice(name="kind", label="kind", values=KINDS, value="line"),
        size=(3, 2),
    )


def test_the_script_has_the_controls_and_each_field_the_controls_that_it_depends_on(panel):
    recorded = record(panel)
    controls_of = {}
    for key, field in recorded.fields.items():
        _, _, name = key.partition(".")
        controls_of[name] = field.controls
    assert controls_of["image.0.x"] == []
    assert controls_of["image.0.shape"] == [0]
    assert controls_of["text.0.shape"] == [0, 1]
    head, name, _, data, _ = recorded.script().split('"')
    assert (head, name) == ("bdlPanels.add(", "test-recording")
    content = json.loads(zlib.decompress(base64.b64decode(data)))
    assert content["controls"] == [
        {"label": "h", "texts": ["0", "0.25", "0.5", "0.75"], "start": 1, "list": False},
        {"label": "kind", "texts": list(KINDS), "start": 0, "list": True},
    ]


def test_too_many_settings_and_too_large_a_file_are_named(panel, monkeypatch):
    recorded = record(panel)
    monkeypatch.setattr(recording, "MOST_BYTES", 100)
    with pytest.raises(ValueError, match="panel 'test-recording': its recording has"):
        recorded.script()
    monkeypatch.setattr(recording, "MOST_SETTINGS", 11)
    with pytest.raises(ValueError, match="panel 'test-recording' has 12 settings, more than 11"):
        record(panel)


@pytest.mark.parametrize("web", [(0.0, 0.5), (0.25, 0.3)])
def test_a_web_grid_has_the_start_and_values_of_the_slider(web):
    with pytest.raises(ValueError, match="panel 'test-recording': the web values of 'height'"):
        record(panel_with(web=web))
