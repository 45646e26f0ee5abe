"""Lesson 01: the dropout rate, its sub-networks and the boundary that training at it gives.

A classifier with ten hidden units was trained at each rate of the slider, so its 1024 sub-networks
can all be evaluated at one input. The masks of the network that was trained without dropout are
divided by keep: then weight scaling is that network itself. A batch is four training points, each
with a mask of its own. Units drop one after another as the rate rises: the uniform number of each
unit stays, only the threshold moves.
"""

import numpy as np
from contourpy import contour_generator
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from bdl_lessons.core import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, SKY, tint
from bdl_lessons.panels import arrays
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update
from bdl_lessons.probability import all_masks, mask_probs

RATES = tuple(round(0.05 * step, 2) for step in range(19))
N_HIDDEN = 10
N_ENDS = 3  # of the edges at a hidden unit: two inputs and one output
POINTS = {
    "near the boundary": (0.55, 0.3),
    "inside a class": (-0.9, 0.3),
    "far away": (2.6, 1.6),
}
XLIM = (-1.9, 2.9)
YLIM = (-1.5, 2.0)
TRAINED = ("at this p_drop", "without dropout")
BINS = np.linspace(0, 1, 41)
COLOURS = (GREEN, ORANGE, PURPLE, SKY)  # of the examples of a batch
BATCHES = tuple(range(1, 9))
SEED = 3  # of the batches and their masks


def panel() -> Panel:
    """The panel of lesson 01: ``p_drop``, the batch, the input at the star, and the training."""
    return Panel(
        build_figure,
        Slider(
            name="p_drop",
            label="p_drop, drop probability",
            values=RATES,
            value=0.5,
            show="{:.2f}".format,
        ),
        Slider(
            name="batch",
            label="next batch",
            values=BATCHES,
            value=1,
            web=BATCHES[:4],
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
    """Left: the same network four times, once for each example of a batch; pale units are dropped
    by the mask of that example. Middle: a histogram of the outputs of all 1024 sub-networks, with
    lines at their mean and at the output by weight scaling. Right: points of two classes, the four
    examples with the boundaries of their sub-networks, and in black the boundary by weight scaling.
    """
    stored = arrays.load("dropout_rate")
    masks = all_masks(N_HIDDEN)
    generator = np.random.default_rng(SEED)
    points = generator.permutation(len(stored["x"]))[: len(BATCHES) * len(COLOURS)]
    examples = points.reshape(len(BATCHES), len(COLOURS))
    uniforms = generator.uniform(size=(len(BATCHES), len(COLOURS), N_HIDDEN))
    left, middle, right = figure.subplots(1, 3, width_ratios=(0.9, 1.15, 1.15))
    figure.subplots_adjust(left=0.01, bottom=0.16, right=0.985, top=0.89, wspace=0.29)

    edges, units, batch_title = _draw_networks(left)

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
    boundaries = LineCollection([], linestyles="-", animated=True)
    right.add_collection(boundaries)
    _draw_class(right, points=stored["x"][stored["y"] == 0], colour=RED, marker="o")
    _draw_class(right, points=stored["x"][stored["y"] == 1], colour=BLUE, marker="s")
    rings = right.scatter(
        [], [], s=110, facecolor="none", edgecolor=COLOURS, lw=2.4, animated=True, zorder=4
    )
    star = right.scatter([], [], s=210, marker="*", c=INK, ec="white", animated=True, zorder=5)

    def update(p_drop: float, batch: int, point: str, trained: str) -> str:
        keep = 1 - p_drop
        if trained == "at this p_drop":
            trained_rate = p_drop
            factor = 1.0
        else:
            trained_rate = 0.0
            factor = 1 / keep
        weights = trained_at(trained_rate, stored)
        trained_title.set_text(f"Trained at p_drop = {trained_rate:.2f}")

        number = BATCHES.index(batch)
        is_kept = uniforms[number] >= p_drop  # (examples, units)
        batch_title.set_text(f"Batch {batch} at p_drop = {p_drop:.2f}")
        colours = np.repeat(COLOURS, N_HIDDEN)
        units.set_facecolor(np.where(is_kept.ravel(), colours, "white"))
        units.set_edgecolor(np.where(is_kept.ravel(), colours, GREY))
        is_kept_edge = np.repeat(is_kept.ravel(), N_ENDS)
        edges.set_linewidths(np.where(is_kept_edge, 1.1, 0.25))
        edges.set_colors(np.where(is_kept_edge, np.repeat(colours, N_ENDS), GREY))
        rings.set_offsets(stored["x"][examples[number]])

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
        segments = []
        line_colours = []
        widths = []
        answers = predict(weights, plane, noise=factor * is_kept[:, None])
        for colour, answer in zip(COLOURS, answers, strict=True):
            for segment in contour_generator(x, y, answer.reshape(x.shape)).lines(0.5):
                segments.append(segment)
                line_colours.append(colour)
                widths.append(1.6)
        for segment in contour_generator(x, y, surface).lines(0.5):
            segments.append(segment)
            line_colours.append(INK)
            widths.append(2.4)
        boundaries.set_segments(segments)
        boundaries.set_colors(line_colours)
        boundaries.set_linewidths(widths)
        star.set_offsets(at_star)
        kept = ", ".join(f"<b>{n_kept}</b>" for n_kept in is_kept.sum(axis=1))
        return (
            f"The four masks keep {kept} of {N_HIDDEN} units. At the star, over all "
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


def _draw_networks(axes: Axes) -> tuple[LineCollection, PathCollection, Text]:
    """Four times two inputs, ten hidden units, one output; returns edges, hidden units, title."""
    hidden = []
    ends = []
    lines = []
    for column, row in ((0, 0), (1, 0), (0, 1), (1, 1)):
        left = 1.3 * column
        bottom = -1.25 * row
        here = [(left, bottom + 0.3), (left, bottom + 0.7), (left + 1, bottom + 0.5)]
        for height in np.linspace(0, 1, N_HIDDEN):
            unit = (left + 0.5, bottom + height)
            hidden.append(unit)
            lines += [(unit, end) for end in here]
        ends += here
    edges = axes.add_collection(LineCollection(lines, animated=True, zorder=1))
    units = axes.scatter(*np.transpose(hidden), s=40, linewidth=1.0, zorder=2, animated=True)
    axes.scatter(*np.transpose(ends), s=40, c="white", edgecolor=INK, zorder=2, animated=True)
    axes.set(xlim=(-0.12, 2.42), ylim=(-1.33, 1.08))
    axes.axis("off")
    return edges, units, axes.set_title("Batch", animated=True)


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
