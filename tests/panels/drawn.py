"""What a panel has drawn, read back from matplotlib: looks, legends, bands and bars."""

import re
from types import ModuleType

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D

from bdl_lessons.core import BLUE, GREEN, GREY, INK, ORANGE, RED
from bdl_lessons.core.plot_style import new_figure, style

HUES = {"blue": BLUE, "red": RED, "green": GREEN, "orange": ORANGE, "grey": GREY}
BOLD_NUMBER = re.compile(r"<b>([-+\d.]+)")


def draw(module: ModuleType, **setting) -> tuple[Figure, list[float]]:
    """The figure of a panel and the bold numbers of its readout.

    Controls that are left out stand where they start.
    """
    panel = module.panel()
    with style():
        figure = new_figure(*panel.size)
        update = panel.build_figure(figure)
        readout = update(**{**panel.start, **setting})
    return figure, [float(number) for number in BOLD_NUMBER.findall(readout)]


def appearance(artist: Artist) -> str:
    """Hue and kind of an artist as one says it: ``"blue --"``, ``"red dots"``, ``"grey area //"``.

    A tint has the hue of its colour.
    """
    if isinstance(artist, Line2D):
        dash = artist.get_linestyle()
        if dash == "None":
            return f"{hue(artist.get_color())} {artist.get_marker()}"
        _, pattern = artist._dash_pattern  # a legend says "--" of a solid line of a collection
        return f"{hue(artist.get_color())} {dash if pattern else '-'}"
    if isinstance(artist, LineCollection):
        (_, dash), *_ = artist.get_linestyle()
        colour, *_ = artist.get_color()
        return f"{hue(colour[:3])} {'-' if dash is None else '--'}"
    if isinstance(artist, PathCollection):
        colour, *_ = artist.get_facecolor()
        return f"{hue(colour[:3])} dots"
    colour = np.atleast_2d(artist.get_facecolor())[0]
    return f"{hue(colour[:3])} area {artist.get_hatch() or ''}".strip()


def hue(colour) -> str:
    """The name of a colour of the palette, or of what it is a tint of."""
    rgb = np.array(to_rgb(colour))
    if np.allclose(rgb, to_rgb(INK), atol=0.01):
        return "ink"
    darkness = 1 - rgb
    cosines = {}
    for name, pure in HUES.items():
        direction = 1 - np.array(to_rgb(pure))
        cosines[name] = darkness @ direction / np.linalg.norm(direction)
    return max(cosines, key=cosines.get)


def legends(figure: Figure) -> list[dict[str, str]]:
    """For each legend, in the order of the axes and that of the figure last: text to appearance."""
    per_axes = [axes.get_legend() for axes in figure.axes]
    return [_entries(legend) for legend in [*per_axes, *figure.legends] if legend is not None]


def named(axes: Axes, text: str, legend: Legend | None = None) -> list[Artist]:
    """The artists on ``axes`` that look as its legend, or ``legend``, shows ``text``."""
    wanted = _entries(legend or axes.get_legend())[text]
    drawn = [*axes.lines, *axes.collections, *axes.patches]
    return [artist for artist in drawn if appearance(artist) == wanted]


def the(axes: Axes, text: str, legend: Legend | None = None) -> Artist:
    """The only artist that moves and is ``named`` so."""
    (artist,) = (one for one in named(axes, text, legend) if one.get_animated())
    return artist


def band(area: Artist) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places, lower and upper ends of what ``fill_between`` has filled."""
    (path,) = area.get_paths()
    x, y = path.vertices.T
    places = np.unique(x)  # bits: the outline passes each place twice, as a copy
    low = np.array([y[x == place].min() for place in places])
    high = np.array([y[x == place].max() for place in places])
    return places, low, high


def by_tick(axes: Axes, which: str = "x") -> dict[str, float]:
    """The place of each tick label."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    labels = [label.get_text() for label in axis.get_ticklabels()]
    return dict(zip(labels, axis.get_ticklocs().tolist(), strict=True))


def span(bar: Artist) -> tuple[float, float]:
    """Lower and upper end of a bar."""
    return bar.get_y(), bar.get_y() + bar.get_height()


def centre(bar: Artist) -> float:
    return bar.get_x() + bar.get_width() / 2


def _entries(legend: Legend) -> dict[str, str]:
    texts = [text.get_text() for text in legend.get_texts()]
    return dict(zip(texts, map(appearance, legend.legend_handles), strict=True))
