"""Lesson 00: networks trained on the same points, and where their answers differ."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from scipy.special import expit

from bdl_lessons.core import BLUE, INK, ORANGE, RED
from bdl_lessons.panels import arrays
from bdl_lessons.panels.engine import Panel, Slider, Update

AXIS = np.linspace(-3, 3, 41)
PLACES = {"at the star": (20, 20), "at the circle": (33, 33)}


def panel() -> Panel:
    """The panel of lesson 00: one slider, how many networks are averaged."""
    slider = Slider("n_networks", "networks that are averaged", tuple(range(1, 21)), 1)
    return Panel(build_figure, slider, size=(9.0, 3.6))


def draw_points(axis, stored: dict[str, np.ndarray], **options) -> None:
    """The training points on a square without ticks, a star in the middle of what was not seen."""
    axis.set(xticks=[], yticks=[], xlim=AXIS[[0, -1]], ylim=AXIS[[0, -1]])
    for label, colour, marker in ((0, RED, "o"), (1, BLUE, "s")):
        look = {"s": 30, "c": colour, "marker": marker, "ec": "w", "lw": 0.6}
        axis.scatter(*stored["x"][stored["y"] == label].T, **look, **options)
    axis.scatter(0, 0, s=330, marker="*", c=ORANGE, ec=INK, zorder=4, **options)


def draw_answer(axis, probs: np.ndarray, **options):
    """Colours for the probability of blue, white for one half."""
    look = {"cmap": "RdBu", "vmin": -0.15, "vmax": 1.15, "alpha": 0.65, "zorder": 0}
    place = {"extent": (*AXIS[[0, -1]], *AXIS[[0, -1]]), "origin": "lower", "aspect": "auto"}
    return axis.imshow(probs.T, interpolation="bilinear", **place, **look, **options)


def build_figure(figure: Figure) -> Update:
    """Left: red points at two opposite corners, blue ones at the two others, and behind them the
    mean answer of the networks as a colour. Right: what each network answers, one dot for each,
    at the star in the middle and at the circle among blue points, with a line at the mean.
    """
    stored = arrays.load("many_networks")
    probs = expit(stored["logits"].astype(float))
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.5))
    figure.subplots_adjust(0.02, 0.17, 0.98, 0.89, wspace=0.36)
    draw_points(left, stored, animated=True)
    left.scatter(*AXIS[[33, 33]], s=200, fc="none", ec=INK, lw=2.2, zorder=4, animated=True)
    image = draw_answer(left, probs[0], animated=True)
    title = left.set_title("", animated=True)
    right.set(xlim=(-0.03, 1.03), ylim=(-0.6, 1.6), xlabel="probability of blue")
    right.set(yticks=[1, 0], yticklabels=PLACES, title="One dot for each network")
    shift = np.random.default_rng(0).uniform(-0.25, 0.25, len(probs))
    means = right.vlines([0, 0], 0, 1, color=ORANGE, lw=4, zorder=1, animated=True)
    dots = right.scatter([], [], s=55, c=INK, ec="w", zorder=2, animated=True)

    def update(n_networks: int) -> str:
        image.set_data(probs[:n_networks].mean(0).T)
        title.set_text(f"Mean answer of {n_networks}" if n_networks > 1 else "One answer")
        places = zip((1, 0), PLACES.values(), strict=True)
        rows = [(y, probs[:n_networks, i, j]) for y, (i, j) in places]
        dots.set_offsets([(p, y + s) for y, row in rows for p, s in zip(row, shift, strict=False)])
        means.set_segments([[(row.mean(), y - 0.38), (row.mean(), y + 0.38)] for y, row in rows])
        return "; ".join(
            f"{place}: mean <b>{row.mean():.2f}</b>, from {row.min():.2f} to {row.max():.2f}"
            for place, (_, row) in zip(PLACES, rows, strict=True)
        )

    return update
