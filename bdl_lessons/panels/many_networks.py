"""Lesson 00: networks trained on the same points, and where their answers differ.

They were trained without and with weight decay, from the same initial weights.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from scipy.special import expit

from bdl_lessons.core import BLUE, INK, ORANGE, RED
from bdl_lessons.panels import arrays
from bdl_lessons.panels.engine import Panel, Slider, Update

AXIS = np.linspace(-3, 3, 41)
PLACES = {"at the star": (20, 20), "at the circle": (33, 33)}
"""Indices into ``AXIS``, for both coordinates, of the two inputs whose answers are shown."""
MAX_NETWORKS = 20
WEIGHT_DECAYS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2)


def panel() -> Panel:
    """The panel of lesson 00: how many networks are averaged, and the weight decay of them all."""
    return Panel(
        build_figure,
        Slider(
            name="n_networks",
            label="networks that are averaged",
            values=tuple(range(1, MAX_NETWORKS + 1)),
            value=1,
        ),
        Slider(
            name="weight_decay",
            label="weight decay",
            values=WEIGHT_DECAYS,
            value=0.0,
            show="{:g}".format,
            web=WEIGHT_DECAYS[::3],
        ),
        size=(9.0, 3.6),
    )


def draw_points(axis: Axes, stored: dict[str, np.ndarray], **options) -> None:
    """The training points on a square without ticks, a star in the middle of what was not seen.

    Args:
        axis: where they are drawn.
        stored: the arrays of this panel; ``x (N, 2)`` and ``y (N,)`` are used.
        options: of all three ``scatter`` calls, such as ``animated``.
    """
    ends = (AXIS[0], AXIS[-1])
    axis.set(xticks=[], yticks=[], xlim=ends, ylim=ends)
    _draw_class(axis, points=stored["x"][stored["y"] == 0], c=RED, marker="o", **options)
    _draw_class(axis, points=stored["x"][stored["y"] == 1], c=BLUE, marker="s", **options)
    axis.scatter(x=0, y=0, s=330, marker="*", c=ORANGE, ec=INK, zorder=4, **options)


def draw_answer(axis: Axes, probs: np.ndarray, **options) -> AxesImage:
    """Colours for the probability of blue, white for one half.

    Args:
        axis: where they are drawn.
        probs: ``(41, 41)`` over ``AXIS``, first index along x.
        options: further ones of ``imshow``, such as ``animated``.
    """
    first = AXIS[0]
    last = AXIS[-1]
    return axis.imshow(
        probs.T,
        interpolation="bilinear",
        extent=(first, last, first, last),
        origin="lower",
        aspect="auto",
        cmap="RdBu",
        vmin=-0.15,
        vmax=1.15,
        alpha=0.65,
        zorder=0,
        **options,
    )


def build_figure(figure: Figure) -> Update:
    """Left: red points at two opposite corners, blue ones at the two others, and behind them the
    mean answer of the networks as a colour. Right: what each network answers, one dot for each,
    at the star in the middle and at the circle among blue points, with a line at the mean.
    """
    stored = arrays.load("many_networks")
    probs = expit(stored["logits"].astype(float))  # (weight decay, network, column, row)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.5))
    figure.subplots_adjust(left=0.02, bottom=0.17, right=0.98, top=0.89, wspace=0.36)

    draw_points(left, stored, animated=True)
    circle = AXIS[list(PLACES["at the circle"])]
    left.scatter(*circle, s=200, fc="none", ec=INK, lw=2.2, zorder=4, animated=True)
    image = draw_answer(left, probs[0, 0], animated=True)
    title = left.set_title("", animated=True)

    right.set(xlim=(-0.03, 1.03), xlabel="probability of blue")
    right.set(ylim=(-0.6, 1.6), yticks=[1, 0], yticklabels=PLACES)
    right.set_title("One dot for each network")
    means = right.vlines([0, 0], 0, 1, color=ORANGE, lw=4, zorder=1, animated=True)
    dots = right.scatter([], [], s=55, c=INK, ec="w", zorder=2, animated=True)
    jitter = np.random.default_rng(0).uniform(-0.25, 0.25, MAX_NETWORKS)

    def update(n_networks: int, weight_decay: float) -> str:
        averaged = probs[WEIGHT_DECAYS.index(weight_decay), :n_networks]
        image.set_data(averaged.mean(axis=0).T)
        title.set_text(f"Mean answer of {n_networks}" if n_networks > 1 else "One answer")

        offsets = []
        mean_lines = []
        statements = []
        for height, (place, (column, row)) in zip((1, 0), PLACES.items(), strict=True):
            answers = averaged[:, column, row]
            mean = answers.mean()
            offsets += zip(answers, height + jitter[:n_networks], strict=True)
            mean_lines.append([(mean, height - 0.38), (mean, height + 0.38)])
            statements.append(
                f"{place}: mean <b>{mean:.2f}</b>, from {answers.min():.2f} to {answers.max():.2f}"
            )
        dots.set_offsets(offsets)
        means.set_segments(mean_lines)
        return "; ".join(statements)

    return update


def _draw_class(axis: Axes, points: np.ndarray, **options) -> None:
    """The points ``(N, 2)`` of one class."""
    axis.scatter(points[:, 0], points[:, 1], s=30, ec="w", lw=0.6, **options)
