import importlib
import itertools
import math
import re
from dataclasses import replace

import pytest

from bdl_lessons.panels import evidence_bar
from bdl_lessons.panels.engine import Panel
from reproductions.files import write_checked
from tools.web import page, store
from tools.web.recording import MOST_SETTINGS, record
from tools.web.scene import Scene


def coarse(panel):
    """The panel with the start and the ends of every control alone, two of each at most."""
    controls = []
    for control in panel.controls.values():
        values = dict.fromkeys([control.value, control.values[-1], control.values[0]])
        controls.append(replace(control, web=tuple(values)[:2]))
    return Panel(panel.build_figure, *controls, size=panel.size)


def played(recording, setting):
    """What the player puts together at a setting, given as places on the web grid."""
    drawn = {}
    for key, field in recording.fields.items():
        place = 0
        for control in field.controls:
            place = place * len(recording.controls[control]["texts"]) + setting[control]
        if (value := field.table[field.at[place]]) is not None:
            drawn[key] = value
    return drawn


@pytest.mark.parametrize("name", store.names())
def test_every_panel_can_be_recorded(name):
    panel = importlib.import_module(f"bdl_lessons.panels.{name.replace('-', '_')}").panel()
    assert panel.name == name
    assert len(panel.alt) > 40, "its build_figure has no docstring that says what one sees"
    sizes = [len(control.web or control.values) for control in panel.controls.values()]
    assert math.prod(sizes) <= MOST_SETTINGS
    small = coarse(panel)
    recorded = record(small)
    scene = Scene(small)
    assert (recorded.still, recorded.alt) == (scene.still, small.alt)
    for places in itertools.islice(itertools.product(range(2), repeat=len(sizes)), 8):
        setting = {
            key: control.web[place]
            for (key, control), place in zip(small.controls.items(), places, strict=True)
        }
        frame = played(recorded, places)
        assert frame == scene.frame(setting)
        text = "".join(value for key, value in frame.items() if key.startswith("readout."))
        assert text == panel.render(**setting).readout
    assert recorded.script().isascii()


def test_the_web_grid_of_lesson_02_has_the_optimum():
    controls = evidence_bar.panel().controls
    optimum = {"shift_1": 0.0, "shift_2": 0.0, "scale": 1.0, "correlation": -math.sqrt(0.6)}
    for name, value in optimum.items():
        assert value in controls[name].web


@pytest.fixture(autouse=True)
def forget():
    store.load.cache_clear()


def test_a_recording_is_kept_until_its_sources_change(tmp_path, monkeypatch):
    first = store.load("many-networks", tmp_path)
    (kept,) = tmp_path.iterdir()
    store.load.cache_clear()
    monkeypatch.setattr(store, "record", None)  # it is not called again
    assert store.load("many-networks", tmp_path) == first
    monkeypatch.undo()
    store.load.cache_clear()
    monkeypatch.setattr(store, "version", lambda name: f"another {name}")
    assert store.load("many-networks", tmp_path).script == first.script
    (other,) = tmp_path.iterdir()
    assert other.name != kept.name


@pytest.mark.parametrize("content", [b"{}", b"null", None])
def test_a_damaged_or_foreign_recording_is_made_again(tmp_path, content):
    first = store.load("many-networks", tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:-100])
    if content:
        write_checked(kept, content)
    store.load.cache_clear()
    assert store.load("many-networks", tmp_path) == first
    store.load.cache_clear()
    assert store.load("many-networks", tmp_path) == first


def test_a_page_needs_no_other_file(tmp_path):
    html = page.page(store.load("many-networks", tmp_path))
    for address in map("".join, re.findall(r"""(?:src|href)=["']([^"']*)|url\(([^)]*)""", html)):
        assert address.startswith(("data:", "#"))
    assert 'alt="Left: red points' in html


@pytest.mark.parametrize("part", ["panels", "published", "results"])
def test_other_data_make_the_recording_again(tmp_path, monkeypatch, part):
    array = tmp_path / "data" / part / "an_array.npz"
    array.parent.mkdir(parents=True)
    array.write_bytes(b"0.1")
    monkeypatch.setattr(store, "DATA", tmp_path / "data")
    recorded = []
    real_record = store.record
    monkeypatch.setattr(store, "record", lambda panel: recorded.append(1) or real_record(panel))
    for content, n_recorded in ((b"0.1", 1), (b"0.1", 1), (b"0.2", 2)):
        array.write_bytes(content)
        store.load.cache_clear()
        store.load("many-networks", tmp_path)
        assert len(recorded) == n_recorded
    (kept,) = tmp_path.glob("*.recording")
    assert kept.stat().st_size > 0
