"""All settings of a panel in one small file: each value under the controls it depends on alone."""

from __future__ import annotations

import base64
import json
import math
import zlib
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from bdl_lessons.core.plot_style import style
from bdl_lessons.panels.engine import Panel, Slider
from tools.web.scene import FIELDS, UNIT, Scene

MOST_SETTINGS, MOST_BYTES = 2_000, 500_000


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
    """Draw a panel at every setting that its page offers; keep each value where it changes.

    Raises:
        ValueError: if the web grid lacks the start, or has more than ``MOST_SETTINGS`` settings.
    """
    values = [_web_values(panel, control) for control in panel.controls.values()]
    lengths = [*map(len, values)]
    if (n_settings := math.prod(lengths)) > MOST_SETTINGS:
        raise ValueError(
            f"panel {panel.name!r} has {n_settings:,} settings, more than {MOST_SETTINGS:,}; "
            "give its sliders fewer values on the web (Slider(web=...))"
        )
    scene = Scene(panel)
    settings = [dict(zip(panel.controls, chosen, strict=True)) for chosen in product(*values)]
    frames = [scene.frame(setting) for setting in settings]
    keys = sorted(set().union(*frames), key=_order)
    fields = {key: _field([frame.get(key) for frame in frames], lengths) for key in keys}
    controls = [
        {
            "label": control.label,
            "texts": [*map(control.show, grid)],
            "start": grid.index(control.value),
            "list": type(control) is not Slider,
        }
        for control, grid in zip(panel.controls.values(), values, strict=True)
    ]
    named = panel.name, scene.size, scene.parts, panel.alt
    return Recording(*named, controls, scene.still, scene.definitions, fields)


def _web_values(panel: Panel, control: Slider) -> tuple:
    values = control.web or control.values
    if control.value not in values or not set(values) <= set(control.values):
        raise ValueError(
            f"panel {panel.name!r}: the web values of {control.name!r} must be values of the "
            f"slider and contain its start, {control.show(control.value)}"
        )
    return values


def _field(values: list, lengths: list[int]) -> Field:
    """A value at every setting, the last control fastest, over the controls that change it."""
    table: dict[Any, int] = {}
    at = np.reshape([table.setdefault(value, len(table)) for value in values], lengths)
    controls = []
    for control in range(at.ndim):
        first = at.take([0], axis=control)
        if (at == first).all():
            at = first
        else:
            controls.append(control)
    return Field(controls, list(table), at.ravel().tolist())


def _order(key: str) -> tuple:
    """The order in which elements are drawn."""
    parts = key.split(".")
    if parts[0] == "readout":
        return 1, int(parts[1])
    tags = ("image", "path", "text")
    return 0, int(parts[0]), tags.index(parts[1]), int(parts[2]), FIELDS.index(parts[3])


def _packed(field: Field) -> list:
    """``[value]`` of a constant, else ``[controls, places in the table, table]``."""
    if len(field.table) == 1:
        return field.table
    return [field.controls, field.at, field.table]
