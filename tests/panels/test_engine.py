import asyncio
import base64
import io

import numpy as np
import pytest
from PIL import Image

from bdl_lessons.panels.engine import Choice, Panel, Slider

RATES = (0.0, 0.25, 0.5, 0.75)


def build_figure(figure):
    axis = figure.subplots()
    axis.set(xlim=(0, 1), ylim=(0, 1))
    (line,) = axis.plot([0, 1], [0, 0], animated=True)

    def update(height, kind):
        if kind == "broken":
            raise ZeroDivisionError("a < b")
        line.set_ydata([height, height])
        return f"height <b>{height}</b>"

    return update


@pytest.fixture
def panel():
    kind = Choice("kind", "kind", ("whole", "broken"), "whole", str.upper)
    return Panel(build_figure, Slider("height", "h", RATES, 0.25), kind, size=(3, 2))


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)))


def test_the_picture_has_the_stated_size_and_moves(panel):
    low = panel.render(height=0.0)
    high = panel.render(height=0.75)
    assert pixels(low.png).shape == (200, 300, 3)
    assert (pixels(low.png) != pixels(high.png)).any()
    assert high.readout == "height <b>0.75</b>"


def test_the_bundle_has_a_live_view_and_the_picture_and_text_of_the_start(panel):
    text = "<panel test-engine: height=0.25, kind=WHOLE; run this cell for the sliders>"
    for height in (0.25, 0.75):
        panel.set(height=height)
        bundle = panel._repr_mimebundle_()
        assert "application/vnd.jupyter.widget-view+json" in bundle
        assert base64.b64decode(bundle["image/png"]) == panel.render().png
        assert bundle["text/plain"] == text


def test_moving_a_slider_changes_picture_and_readout_and_reset_moves_it_back(panel):
    controls, image, readout, _ = panel.widget.children
    panel._inputs["height"].value = 0.75
    assert image.value == panel.render(height=0.75).png
    assert readout.value == "height <b>0.75</b>"
    assert panel.values == {"height": 0.75, "kind": "whole"}
    controls.children[-1].click()
    assert panel.values == {"height": 0.25, "kind": "whole"}


def test_several_controls_set_at_once_are_drawn_once(panel):
    drawn = []
    original = panel.stage.draw
    panel.stage.draw = lambda params: drawn.append(params) or original(params)
    _ = panel.widget
    with pytest.raises(ZeroDivisionError):
        panel.set(height=0.5, kind="broken")
    assert drawn == [panel.start, {"height": 0.5, "kind": "broken"}]


def test_an_error_shows_in_the_readout_and_keeps_the_last_picture(panel):
    image, readout = panel.widget.children[1:3]
    before = image.value
    panel._inputs["kind"].value = "broken"
    assert "ZeroDivisionError: a &lt; b" in readout.value
    assert 'role="alert"' in readout.value
    assert image.value == before
    panel._inputs["kind"].value = "whole"
    assert readout.value == "height <b>0.25</b>"
    assert panel.error is None


def test_events_in_quick_succession_share_one_redraw_and_the_last_one_wins(panel):
    drawn = []
    original = panel.stage.draw
    panel.stage.draw = lambda params: drawn.append(params["height"]) or original(params)

    async def drag():
        _ = panel.widget
        for height in (0.0, 0.5, 0.75):
            panel._inputs["height"].value = height
        await asyncio.sleep(0.1)

    asyncio.run(drag())
    assert drawn == [0.25, 0.75]
    assert panel._image.value == panel.render(height=0.75).png


@pytest.mark.parametrize(
    "params", [{"height": 0.3}, {"depth": 1}, {"height": float("nan")}, {"kind": "WHOLE"}]
)
def test_an_unknown_setting_is_an_error_that_lists_the_known_ones(panel, params):
    known = r"panel 'test-engine'.*(height, kind|0.25, 0.5|'whole', 'br)"
    with pytest.raises(ValueError, match=known):
        panel.set(**params)
    assert panel.values == panel.start
