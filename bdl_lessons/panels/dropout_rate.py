"""Lesson 01: the dropout rate, its sub-networks and the boundary that training at it gives.

A classifier with ten hidden units was trained at each rate of the slider, so its 1024 sub-networks
can all be evaluated at one input. The masks of the network that was trained without dropout are
divided by keep: then weight scaling is that network itself. Units drop one after another as the
rate rises: the uniform number of each unit stays, only the threshold moves.
"""

import numpy as np
from contourpy import contour_generator
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from bdl_lessons.core import BLUE, GREY, INK, ORANGE, RED, tint
from bdl_lessons.panels import arrays
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update
from bdl_lessons.probability import all_masks, mask_probs

RATES = tuple(round(0.05 * step, 2) for step in range(19))
N_HIDDEN = 10
POINTS = {
    "near the boundary": (0.55, 0.3),
    "inside a class": (-0.9, 0.3),
    "far away": (2.6, 1.6),
}
XLIM = (-1.9, 2.9)
YLIM = (-1.5, 2.0)
TRAINED = ("at this p_drop", "without dropout")
BINS = np.linspace(0, 1, 41)


def panel() -> Panel:
    """The panel of lesson 01: ``p_drop``, the input of the sub-networks, and how they trained."""
    return Panel(
        build_figure,
        Slider(
            name="p_drop",
            label="p_drop, drop probability",
            values=RATES,
            value=0.5,
            show="{:.2f}".format,
        ),
        Choice(
            name="point",
            label="input (star)",
            values=tuple(POINTS),
            value="near the boundary",
        ),
        Choice(name="trained", label="trained", values=TRAINED, value="at this p_drop"),
        size=(9.6, 3.4),
    )


def build_figure(figure: Figure) -> Update:
    """Left: a network with one hidden layer, of which a random mask keeps the filled units. Middle:
    a histogram of the outputs of all 1024 sub-networks, with lines at their mean and at the
    output by weight scaling. Right: points of two classes and the curved boundary between them.
    """
    stored = arrays.load("dropout_rate")
    masks = all_masks(N_HIDDEN)
    left, middle, right = figure.subplots(1, 3, width_ratios=(0.9, 1.15, 1.15))
    figure.subplots_adjust(left=0.01, bottom=0.16, right=0.985, top=0.89, wspace=0.29)

    edges, units, mask_title = _draw_network(left)

    middle.set(title="Outputs of the 1024 sub-networks")
    middle.set(xlim=(0, 1), xlabel="P(class 1 | input)")
    middle.set_yscale("function", functions=(np.sqrt, np.square))
    middle.set(ylim=(0, 1.5), yticks=(0, 0.05, 0.2, 0.5, 1))
    middle.set_ylabel("probability (square-root scale)")
    bars = middle.stairs(
        np.zeros(len(BINS) - 1), BINS, fill=True, color=tint(BLUE, 0.45), animated=True
    )
    mean_line = middle.axvline(
        0, ymax=0.8, color=BLUE, ls="-", lw=2.2, clip_on=False, animated=True
    )
    scaling_line = middle.axvline(
        0, ymax=0.8, color=RED, ls="--", lw=2.2, clip_on=False, animated=True
    )
    middle.legend(
        [mean_line, scaling_line],
        ["exact mean", "weight scaling"],
        loc="upper center",
        ncols=2,
        handlelength=1.6,
        columnspacing=1.2,
    )

    right.set(xlim=XLIM, ylim=YLIM, xlabel="input 1", ylabel="input 2")
    trained_title = right.set_title("Trained", animated=True)
    x, y = np.meshgrid(np.linspace(*XLIM, 96), np.linspace(*YLIM, 70))
    plane = np.stack([x.ravel(), y.ravel()], axis=1)
    image = right.imshow(
        np.zeros(x.shape),
        extent=(*XLIM, *YLIM),
        origin="lower",
        aspect="auto",
        cmap="RdBu",
        alpha=0.6,
        vmin=-0.15,
        vmax=1.15,
        interpolation="bilinear",
        animated=True,
    )
    boundary = LineCollection([], colors=INK, linewidths=1.8, linestyles="-", animated=True)
    right.add_collection(boundary)
    _draw_class(right, points=stored["x"][stored["y"] == 0], colour=RED, marker="o")
    _draw_class(right, points=stored["x"][stored["y"] == 1], colour=BLUE, marker="s")
    star = right.scatter([], [], s=210, marker="*", c=ORANGE, ec=INK, animated=True, zorder=4)

    def update(p_drop: float, point: str, trained: str) -> str:
        keep = 1 - p_drop
        if trained == "at this p_drop":
            trained_rate = p_drop
            factor = 1.0
        else:
            trained_rate = 0.0
            factor = 1 / keep
        weights = trained_at(trained_rate, stored)
        trained_title.set_text(f"Trained at p_drop = {trained_rate:.2f}")

        is_kept = stored["uniforms"] >= p_drop
        mask_title.set_text(f"One mask at p_drop = {p_drop:.2f}")
        units.set_facecolor(np.where(is_kept, BLUE, "white"))
        is_kept_edge = np.repeat(is_kept, 3)  # two inputs and one output
        edges.set_linewidths(np.where(is_kept_edge, 1.1, 0.25))
        edges.set_colors(np.where(is_kept_edge, INK, GREY))

        at_star = np.array([POINTS[point]])
        probs = mask_probs(masks, p_drop).numpy()
        outputs = predict(weights, at_star, noise=factor * masks.numpy()[:, None])[:, 0]
        mean = float(probs @ outputs)
        std = float(np.sqrt(probs @ (outputs - mean) ** 2))
        scaled = float(predict(weights, at_star, noise=factor * keep)[0])
        other_class = float(probs @ ((outputs > 0.5) != (scaled > 0.5)))
        bars.set_data(np.histogram(outputs, BINS, weights=probs)[0])
        mean_line.set_xdata([mean, mean])
        scaling_line.set_xdata([scaled, scaled])

        surface = predict(weights, plane, noise=factor * keep).reshape(x.shape)
        image.set_data(surface)
        boundary.set_segments(contour_generator(x, y, surface).lines(0.5))
        star.set_offsets(at_star)
        return (
            f"This mask keeps <b>{is_kept.sum()} of {N_HIDDEN}</b> units. At the star, over all "
            f"{len(masks)} sub-networks: exact mean <b>{mean:.3f}</b>, standard deviation "
            f"<b>{std:.3f}</b>; weight scaling <b>{scaled:.3f}</b>. Sub-networks with "
            f"<b>{100 * other_class:.1f} %</b> of the probability vote for the other class."
        )

    return update


def trained_at(p_drop: float, stored: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights of the network that was trained at this rate, one of ``RATES``.

    Two layers: ``w1 (2, 10)``, ``b1 (10,)``, ``w2 (10, 1)`` and ``b2 (1,)``.
    """
    index = RATES.index(p_drop)
    return {name: stored[name][index] for name in ("w1", "b1", "w2", "b2")}


def predict(weights: dict[str, np.ndarray], x: np.ndarray, noise: np.ndarray | float) -> np.ndarray:
    """P(class 1) for inputs ``(B, 2)``; ``noise`` multiplies the hidden units, ``(..., 10)``."""
    hidden = np.tanh(x @ weights["w1"] + weights["b1"]) * noise
    logits = (hidden @ weights["w2"] + weights["b2"])[..., 0]
    return 1 / (1 + np.exp(-logits))


def _draw_network(axes: Axes) -> tuple[LineCollection, PathCollection, Text]:
    """Two inputs, ten hidden units, one output; returns edges, hidden units and title."""
    hidden = [(0.5, height) for height in np.linspace(0, 1, N_HIDDEN)]
    inputs_and_output = [(0.0, 0.3), (0.0, 0.7), (1.0, 0.5)]
    lines = [(unit, end) for unit in hidden for end in inputs_and_output]
    edges = axes.add_collection(LineCollection(lines, animated=True, zorder=1))
    units = axes.scatter(
        *np.transpose(hidden), s=110, edgecolor=INK, linewidth=1.0, zorder=2, animated=True
    )
    axes.scatter(
        *np.transpose(inputs_and_output), s=110, c="white", edgecolor=INK, zorder=2, animated=True
    )
    axes.set(xlim=(-0.12, 1.12), ylim=(-0.07, 1.07))
    axes.axis("off")
    return edges, units, axes.set_title("One mask", animated=True)


def _draw_class(axes: Axes, points: np.ndarray, colour: str, marker: str) -> None:
    """The training points ``(N, 2)`` of one class."""
    axes.scatter(
        points[:, 0],
        points[:, 1],
        s=16,
        c=colour,
        marker=marker,
        edgecolor="white",
        lw=0.6,
        zorder=3,
        animated=True,
    )
