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

MOST_SETTINGS = 2_000
MOST_BYTES = 500_000


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
        readout = []
        for key, field in self.fields.items():
            slot, _, name = key.rpartition(".")
            if slot == "readout":
                readout.append(_packed(field))
                continue
            if slot not in slots:
                _, tag, _ = slot.split(".")
                slots[slot] = [tag, None, None, None, None]
            slots[slot][1 + FIELDS.index(name)] = _packed(field)
        content = {
            "parts": self.parts,
            "alt": self.alt,
            "controls": self.controls,
            "still": self.still,
            "definitions": self.definitions,
            "size": [round(length * UNIT) for length in self.size],
            "slots": list(slots.values()),
            "readout": readout,
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
    lengths = [len(grid) for grid in values]
    n_settings = math.prod(lengths)
    if n_settings > MOST_SETTINGS:
        raise ValueError(
            f"panel {panel.name!r} has {n_settings:,} settings, more than {MOST_SETTINGS:,}; "
            "give its sliders fewer values on the web (Slider(web=...))"
        )
    scene = Scene(panel)
    frames = []
    for setting in product(*values):
        frames.append(scene.frame(dict(zip(panel.controls, setting, strict=True))))
    keys = {key for frame in frames for key in frame}
    fields = {}
    for key in sorted(keys, key=_order):
        fields[key] = _field([frame.get(key) for frame in frames], lengths)
    controls = []
    for control, grid in zip(panel.controls.values(), values, strict=True):
        controls.append(
            {
                "label": control.label,
                "texts": [control.show(value) for value in grid],
                "start": grid.index(control.value),
                "list": type(control) is not Slider,
            }
        )
    return Recording(
        name=panel.name,
        size=scene.size,
        parts=scene.parts,
        alt=panel.alt,
        controls=controls,
        still=scene.still,
        definitions=scene.definitions,
        fields=fields,
    )


def _web_values(panel: Panel, control: Slider) -> tuple:
    """The values of a control that its page offers."""
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
    for value in values:
        table.setdefault(value, len(table))
    at = np.reshape([table[value] for value in values], lengths)
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
    if key.startswith("readout."):
        return 1, int(key.removeprefix("readout."))
    artist, tag, count, field = key.split(".")
    place_of_tag = ("image", "path", "text").index(tag)
    return 0, int(artist), place_of_tag, int(count), FIELDS.index(field)


def _packed(field: Field) -> list:
    """``[value]`` of a constant, else ``[controls, places in the table, table]``."""
    if len(field.table) == 1:
        return field.table
    return [field.controls, field.at, field.table]
