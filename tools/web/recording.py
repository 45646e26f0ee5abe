"""All settings of a panel in one small file: each value under the controls it depends on alone."""

from __future__ import annotations

import base64
import itertools
import json
import math
import random
import zlib
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from bdl_lessons.core.plot_style import style
from bdl_lessons.panels.engine import Panel, Slider
from tools.web.scene import FIELDS, UNIT, Frame, Scene

MOST_SETTINGS, MOST_BYTES = 20_000, 1_000_000
_BASES, _CHECKS = 6, 80


@dataclass(frozen=True)
class Field:
    """One value of the drawing over the settings.

    Attributes:
        controls: numbers of the controls that it depends on.
        table: its different values; None where there is nothing to draw.
        at: for each combination of those controls, the last one fastest, the place in ``table``.
    """

    controls: list[int]
    table: list
    at: list[int]


@dataclass(frozen=True)
class Recording:
    """A panel without Python: its controls, what stands still, and every field of what moves.

    ``parts`` are boxes of the drawing that may stand below each other; ``controls`` has label,
    texts of the values, number of the start and kind of each control.
    """

    name: str
    size: tuple[float, float]
    parts: list[tuple[int, int, int, int]]
    alt: str
    controls: list[dict]
    still: str
    definitions: str
    fields: dict[str, Field]

    def frame(self, setting: tuple[int, ...]) -> Frame:
        """What the player puts together at a setting, given as places on the web grid."""
        found = {}
        for key, field in self.fields.items():
            place = 0
            for control in field.controls:
                place = place * len(self.controls[control]["texts"]) + setting[control]
            value = field.table[field.at[place]]
            if value is not None:
                found[key] = value
        return found

    def script(self) -> str:
        """A script that hands the recording to the player, deflated.

        Raises:
            ValueError: if it is larger than ``MOST_BYTES``.
        """
        slots: dict[str, list] = {}
        for key, field in self.fields.items():
            slot, _, name = key.rpartition(".")
            if slot != "readout":
                slots.setdefault(slot, [slot.split(".")[1], None, None, None, None])
                slots[slot][1 + FIELDS.index(name)] = _packed(field)
        as_they_are = ("parts", "alt", "controls", "still", "definitions")
        content = {name: getattr(self, name) for name in as_they_are} | {
            "size": [round(length * UNIT) for length in self.size],
            "slots": list(slots.values()),
            "readout": [_packed(f) for key, f in self.fields.items() if key.startswith("readout.")],
        }
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        data = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
        if len(data) > MOST_BYTES:
            raise ValueError(
                f"panel {self.name!r}: its recording has {len(data):,} bytes, more than "
                f"{MOST_BYTES:,}; give its sliders fewer values on the web (Slider(web=...))"
            )
        return f'bdlPanels.add("{self.name}","{data}");\n'


@style()  # once: it takes longer than a simple drawing
def record(panel: Panel) -> Recording:
    """Draw a panel at every setting that its page offers.

    What depends on which controls is found by moving one control at a time. Each value is then
    recorded over those controls only, and compared with everything that was drawn, also at random
    settings; where they differ, the control that was missed is found and recorded too.

    Raises:
        ValueError: if the web grid lacks the start, or has more than ``MOST_SETTINGS`` settings.
    """
    sliders = [*panel.controls.values()]
    values = [_web_values(panel, control) for control in sliders]
    start = tuple(grid.index(c.value) for grid, c in zip(values, sliders, strict=True))
    n_settings = math.prod(map(len, values))
    if n_settings > MOST_SETTINGS:
        raise ValueError(
            f"panel {panel.name!r} has {n_settings:,} settings, more than {MOST_SETTINGS:,}; "
            "give its sliders fewer values on the web (Slider(web=...))"
        )
    scene = Scene(panel)
    frames: dict[tuple[int, ...], Frame] = {}
    drawn: dict[tuple[int, ...], frozenset[str] | None] = {}

    def frame(setting: tuple[int, ...], artists: frozenset[str] | None = None) -> Frame:
        done = drawn.get(setting, frozenset())
        wanted = (artists or frozenset()) - {"readout"}
        if done is not None and (artists is None or setting not in drawn or not wanted <= done):
            chosen = (grid[place] for grid, place in zip(values, setting, strict=True))
            params = dict(zip(panel.controls, chosen, strict=True))
            drawn[setting] = None if artists is None else done | wanted
            frames[setting] = frames.get(setting, {}) | scene.frame(params, artists)
        return frames[setting]

    rng = random.Random(0)
    some = [tuple(rng.randrange(len(grid)) for grid in values) for _ in range(_BASES + _CHECKS)]
    depends = _dependencies(frame, [start, *some[:_BASES]], values, rng)
    controls = [
        {"label": c.label, "texts": [*map(c.show, grid)], "start": i, "list": type(c) is not Slider}
        for c, grid, i in zip(sliders, values, start, strict=True)
    ]
    while True:
        fields = _fields(frame, depends, start, [len(grid) for grid in values])
        named = panel.name, scene.size, scene.parts, panel.alt
        made = Recording(*named, controls, scene.still, scene.definitions, fields)
        for setting in some:
            frame(setting)
        wrong = [
            (key, setting)
            for setting in list(frames)
            for key in _different(made.frame(setting), frames[setting])
            if drawn[setting] is None or _artist(key) in {*drawn[setting], "readout"}
        ]
        if not wrong:
            return made
        missed = [(k, _missed(frame, k, setting, start, depends[k])) for k, setting in wrong]
        for key, control in missed:
            depends[key].add(control)


def _web_values(panel: Panel, control: Slider) -> tuple:
    values = control.web or control.values
    if control.value not in values or not set(values) <= set(control.values):
        raise ValueError(
            f"panel {panel.name!r}: the web values of {control.name!r} must be values of the "
            f"slider and contain its start, {control.show(control.value)}"
        )
    return values


def _different(one: Frame, other: Frame) -> list[str]:
    return [key for key in one | other if one.get(key) != other.get(key)]


def _dependencies(frame, bases, values, rng) -> dict[str, set[int]]:
    """The controls on which each field was seen to depend."""
    depends: dict[str, set[int]] = defaultdict(set)
    for base in bases:
        depends |= {key: depends[key] for key in frame(base)}
        for control, grid in enumerate(values):
            for place in {0, len(grid) - 1, rng.randrange(len(grid))}:
                moved = (*base[:control], place, *base[control + 1 :])
                for key in _different(frame(base), frame(moved)):
                    depends[key].add(control)
    return depends


def _fields(frame, depends, start, lengths) -> dict[str, Field]:
    """Each field over the controls it depends on, the others at their start."""
    grids, seen = {}, {}
    for controls in {tuple(sorted(controls)) for controls in depends.values()}:
        artists = frozenset(_artist(k) for k, found in depends.items() if found == set(controls))
        grids[controls] = []
        for places in itertools.product(*(range(lengths[control]) for control in controls)):
            moved = dict(zip(controls, places, strict=True))
            grids[controls].append(tuple(moved.get(i, place) for i, place in enumerate(start)))
            seen |= dict.fromkeys(frame(grids[controls][-1], artists))
    for key in seen:
        depends[key]  # an element that is not drawn at the settings that were tried
    fields = {}
    for key in sorted(depends, key=_order):
        controls = tuple(sorted(depends[key]))
        table: dict[Any, int] = {}
        found = (frame(s, frozenset([_artist(key)])) for s in grids.get(controls) or [start])
        at = [table.setdefault(values.get(key), len(table)) for values in found]
        fields[key] = Field(list(controls), list(table), at)
    return fields


def _artist(key: str) -> str:
    return key.partition(".")[0]


def _order(key: str) -> tuple:
    """The order in which elements are drawn."""
    parts = key.split(".")
    if parts[0] == "readout":
        return 1, int(parts[1])
    tags = ("image", "path", "text")
    return 0, int(parts[0]), tags.index(parts[1]), int(parts[2]), FIELDS.index(parts[3])


def _missed(frame, key, setting, start, known) -> int:
    """A control that changes the field between this setting and the one recorded for it."""
    moved = [place if i in known else start[i] for i, place in enumerate(setting)]
    value = frame(tuple(moved)).get(key)
    for control in sorted(set(range(len(setting))) - known):
        moved[control] = setting[control]
        if frame(tuple(moved)).get(key) != value:
            return control
    raise AssertionError(f"{key} differs at {setting} though no control changes it")


def _packed(field: Field) -> list:
    """``[value]`` of a constant, else ``[controls, places in the table, table]``."""
    if len(field.table) == 1:
        return field.table
    return [field.controls, field.at, field.table]
