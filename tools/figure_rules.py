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
TILE = "<tile>"
"""Label of axes that hold one image of a row of images, which is taken in as one."""
MAX_INCHES = 9.6  # 960 pixels at the style's 100 dpi: shown unscaled in JupyterLab and on a slide
_NUMBER = re.compile(r"[+\-−]?[\d.]+(e[+\-−]?\d+)?%?|\$\\mathdefault.*", re.S)


def problems(figure: Figure) -> list[str]:
    """Everything that makes the figure hard to read when it is projected, in words."""
    figure.canvas.draw()
    bars = [axis for axis in figure.axes if axis.get_label() == "<colorbar>"]
    tiles = [axis for axis in figure.axes if axis.get_label() == TILE]
    panels = [axis for axis in figure.axes if axis not in bars and axis not in tiles]
    faults = list(_sizes(figure, panels))
    for bar in bars:
        if not (bar.get_xlabel() or bar.get_ylabel() or bar.get_title()):
            faults.append("a colour bar has no name")
    for number, axis in enumerate(panels, start=1):
        faults += [f"panel {number}: {fault}" for fault in _names(axis)]
    return faults


def _sizes(figure: Figure, panels: list[Axes]) -> Iterator[str]:
    """What is too much, too wide or too small."""
    if len(panels) > MAX_PANELS:
        yield f"{len(panels)} panels, at most {MAX_PANELS} can be taken in"
    width = figure.get_size_inches()[0]
    if width > MAX_INCHES:
        yield f"{width:.1f} inches wide, at most {MAX_INCHES} are shown unscaled"
    small = set()
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text() and text.get_fontsize() < MIN_POINTS:
            small.add(text.get_text())
    if small:
        examples = ", ".join(sorted(small)[:4])
        yield f"text smaller than {MIN_POINTS} pt: {examples!r}"


def _names(axis: Axes) -> Iterator[str]:
    """Sides with numbers that are not said to be of anything."""
    if not axis.axison:
        return
    if _has_numbers(axis.get_xticklabels()) and not axis.get_xlabel():
        yield "the x axis has numbers and no name"
    if _has_numbers(axis.get_yticklabels()) and not axis.get_ylabel():
        yield "the y axis has numbers and no name"


def _has_numbers(ticks: list[Text]) -> bool:
    return any(tick.get_visible() and _NUMBER.fullmatch(tick.get_text()) for tick in ticks)
