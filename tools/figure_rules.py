"""What a figure needs so that a lecture hall can read it; each rule yields what is wrong.

``bdl_lessons.core.show`` applies them where ``BDL_CHECK_FIGURES`` names this module: when lessons
are rebuilt or compared, but not when a reader changes a figure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

MIN_POINTS = 10
MAX_PANELS = 4
MAX_INCHES = 9.6  # 960 pixels at the style's 100 dpi: shown unscaled in JupyterLab and on a slide
_NUMBER = re.compile(r"[+\-−]?[\d.]+(e[+\-−]?\d+)?%?|\$\\mathdefault.*", re.S)


def problems(figure: Figure) -> list[str]:
    """Everything that makes the figure hard to read when it is projected, in words."""
    figure.canvas.draw()
    panels = [axis for axis in figure.axes if axis.get_label() != "<colorbar>"]
    bars = [axis for axis in figure.axes if axis not in panels]
    nameless = [b for b in bars if not (b.get_xlabel() or b.get_ylabel() or b.get_title())]
    found = [*_sizes(figure, panels), *["a colour bar has no name"] * len(nameless)]
    for index, axis in enumerate(panels, 1):
        found += [f"panel {index}: {fault}" for fault in _names(axis)]
    return found


def _sizes(figure: Figure, panels: list[Axes]) -> Iterator[str]:
    if len(panels) > MAX_PANELS:
        yield f"{len(panels)} panels, at most {MAX_PANELS} can be taken in"
    if (width := figure.get_size_inches()[0]) > MAX_INCHES:
        yield f"{width:.1f} inches wide, at most {MAX_INCHES} are shown unscaled"
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    if small := {text.get_text() for text in texts if text.get_fontsize() < MIN_POINTS}:
        yield f"text smaller than {MIN_POINTS} pt: {', '.join(sorted(small)[:4])!r}"


def _names(axis: Axes) -> Iterator[str]:
    for side, ticks, name in (
        ("x", axis.get_xticklabels(), axis.get_xlabel()),
        ("y", axis.get_yticklabels(), axis.get_ylabel()),
    ):
        numbers = [t for t in ticks if t.get_visible() and _NUMBER.fullmatch(t.get_text())]
        if axis.axison and numbers and not name:
            yield f"the {side} axis has numbers and no name"
