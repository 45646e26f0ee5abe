"""Lesson 01: the dropout rate, its sub-networks and the boundary that training at it gives.

A classifier with ten hidden units was trained at each rate of the slider, so its 1024 sub-networks
can all be evaluated at one input. The masks of the network that was trained without dropout are
divided by keep: then weight scaling is that network itself. Units drop one after another as the
rate rises: the uniform number of each unit stays, only the threshold moves.
"""

import numpy as np
import torch
from contourpy import contour_generator
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREY, INK, ORANGE, RED, tint
from bdl_lessons.panels import arrays
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update
from bdl_lessons.probability import all_masks, mask_probs

RATES = tuple(round(0.05 * step, 2) for step in range(19))
N_HIDDEN = 10
POINTS = {"near the boundary": (0.55, 0.3), "inside a class": (-0.9, 0.3), "far away": (2.6, 1.6)}
XLIM = (-1.9, 2.9)
YLIM = (-1.5, 2.0)
TRAINED = ("at this p_drop", "without dropout")
BINS = np.linspace(0, 1, 41)


def panel() -> Panel:
    """The panel of lesson 01: ``p_drop``, the input of the sub-networks, and how they trained."""
    return Panel(
        build_figure,
        Slider("p_drop", "p_drop, drop probability", RATES, 0.5, "{:.2f}".format),
        Choice("point", "input (star)", tuple(POINTS), "near the boundary"),
        Choice("trained", "trained", TRAINED, TRAINED[0]),
        size=(9.6, 3.4),
    )


def build_figure(figure: Figure) -> Update:
    """Left: a network with one hidden layer, of which a random mask keeps the filled units. Middle:
    a histogram of the outputs of all 1024 sub-networks, with lines at their mean and at the
    output by weight scaling. Right: points of two classes and the curved boundary between them.
    """
    stored = arrays.load("dropout_rate")
    masks = all_masks(N_HIDDEN).numpy()
    left, middle, right = figure.subplots(1, 3, width_ratios=(0.9, 1.15, 1.15))
    figure.subplots_adjust(0.01, 0.16, 0.985, 0.89, wspace=0.29)
    edges, units, title = _network(left)

    middle.set(xlim=(0, 1), xlabel="P(class 1 | input)", ylabel="probability (square-root scale)")
    middle.set_title("Outputs of the 1024 sub-networks")
    middle.set_yscale("function", functions=(np.sqrt, np.square))
    middle.set(ylim=(0, 1.5), yticks=(0, 0.05, 0.2, 0.5, 1))
    bars = middle.stairs(np.zeros(40), BINS, fill=True, color=tint(BLUE, 0.45), animated=True)
    mean = middle.axvline(0, ymax=0.8, color=BLUE, linestyle="-", lw=2.2, animated=True)
    scaled = middle.axvline(0, ymax=0.8, color=RED, linestyle="--", lw=2.2, animated=True)
    names = ["exact mean", "weight scaling"]
    spacing = {"handlelength": 1.6, "columnspacing": 1.2}
    middle.legend([mean, scaled], names, loc="upper center", ncols=2, **spacing)

    x, y = np.meshgrid(np.linspace(*XLIM, 96), np.linspace(*YLIM, 70))
    plane = np.stack([x.ravel(), y.ravel()], 1)
    place = {"extent": (*XLIM, *YLIM), "origin": "lower", "aspect": "auto"}
    look = {"cmap": "RdBu", "alpha": 0.6, "vmin": -0.15, "vmax": 1.15, "interpolation": "bilinear"}
    image = right.imshow(np.zeros(x.shape), animated=True, **place, **look)
    boundary = LineCollection([], colors=INK, linewidths=1.8, linestyles="-", animated=True)
    right.add_collection(boundary)
    for label, colour, marker in ((0, RED, "o"), (1, BLUE, "s")):
        chosen = stored["x"][stored["y"] == label]
        look = {"c": colour, "marker": marker, "edgecolor": "white", "lw": 0.6}
        right.scatter(*chosen.T, s=16, animated=True, zorder=3, **look)
    star = right.scatter([], [], s=210, marker="*", c=ORANGE, ec=INK, animated=True, zorder=4)
    right.set(xlim=XLIM, ylim=YLIM, xlabel="input 1", ylabel="input 2")
    trained_title = right.set_title("Trained", animated=True)

    def update(p_drop: float, point: str, trained: str) -> str:
        rate, factor = (p_drop, 1.0) if trained == TRAINED[0] else (0.0, 1 / (1 - p_drop))
        weights = trained_at(rate, stored)
        scaling_noise = factor * (1 - p_drop)
        trained_title.set_text(f"Trained at p_drop = {rate:.2f}")
        kept = stored["uniforms"] >= p_drop
        title.set_text(f"One mask at p_drop = {p_drop:.2f}")
        units.set_facecolor([BLUE if keep else "white" for keep in kept])
        edges.set_linewidths([1.1 if keep else 0.25 for keep in np.repeat(kept, 3)])
        edges.set_colors([INK if keep else GREY for keep in np.repeat(kept, 3)])

        probs = mask_probs(torch.from_numpy(masks), p_drop).numpy()
        answers = predict(weights, np.array([POINTS[point]]), factor * masks[:, None])[:, 0]
        exact = float(probs @ answers)
        scaling = float(predict(weights, np.array([POINTS[point]]), scaling_noise)[0])
        bars.set_data(np.histogram(answers, BINS, weights=probs)[0])
        mean.set_xdata([exact, exact])
        scaled.set_xdata([scaling, scaling])

        image.set_data(predict(weights, plane, scaling_noise).reshape(x.shape))
        lines = contour_generator(x, y, image.get_array().data).lines(0.5)
        boundary.set_segments(lines)
        star.set_offsets([POINTS[point]])
        spread = float(np.sqrt(probs @ (answers - exact) ** 2))
        other_class = 100 * float(probs @ ((answers > 0.5) != (scaling > 0.5)))
        return (
            f"This mask keeps <b>{kept.sum()} of {N_HIDDEN}</b> units. At the star, over all "
            f"{len(masks)} sub-networks: exact mean <b>{exact:.3f}</b>, standard deviation "
            f"<b>{spread:.3f}</b>; weight scaling <b>{scaling:.3f}</b>. Sub-networks with "
            f"<b>{other_class:.1f} %</b> of the probability vote for the other class."
        )

    return update


def trained_at(p_drop: float, stored: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights of the network that was trained at this rate."""
    return {name: stored[name][RATES.index(p_drop)] for name in ("w1", "b1", "w2", "b2")}


def predict(weights: dict[str, np.ndarray], x: np.ndarray, noise: np.ndarray | float) -> np.ndarray:
    """P(class 1) for inputs ``(B, 2)``; ``noise`` multiplies the hidden units, ``(..., 10)``."""
    hidden = np.tanh(x @ weights["w1"] + weights["b1"]) * noise
    return 1 / (1 + np.exp(-(hidden @ weights["w2"] + weights["b2"])[..., 0]))


def _network(axes):
    """Two inputs, ten hidden units, one output; returns edges, hidden units and title."""
    hidden_y = np.linspace(0, 1, N_HIDDEN)
    ends = [(0.0, 0.3), (0.0, 0.7), (1.0, 0.5)]
    lines = [[(0.5, height), end] for height in hidden_y for end in ends]
    edges = axes.add_collection(LineCollection(lines, animated=True, zorder=1))
    look = {"s": 110, "edgecolor": INK, "animated": True, "zorder": 2}
    units = axes.scatter(np.full(N_HIDDEN, 0.5), hidden_y, linewidth=1.0, **look)
    axes.scatter(*np.transpose(ends), c="white", **look)
    axes.set(xlim=(-0.12, 1.12), ylim=(-0.07, 1.07))
    axes.axis("off")
    return edges, units, axes.set_title("One mask", animated=True)
