"""Lesson 10: two weights under three kinds of dropout noise, seen through finer and finer grids.

All three distributions have the same mean and the same variance in each weight. One has a density,
one lies on a line and one on two points; only the first has a finite KL to a prior with a density.
"""

import math

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons.core import BLUE, GREEN, INK, RED
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update
from bdl_lessons.probability import gaussian_cells, line_cells, point_cells, quantised_kl
from bdl_lessons.probability.partition_kl import Cells

HALVINGS = tuple(range(7))
THETA = torch.tensor([1.2, -0.7], dtype=torch.float64)
ALPHA = 0.5
P_DROP = ALPHA / (1 + ALPHA)  # alpha = p_drop / keep: the same variance
POINTS = torch.stack([0 * THETA, THETA / (1 - P_DROP)])

DENSITY = "one factor for each weight"
ON_A_LINE = "one factor for both"
ON_POINTS = "keep or drop both"
DISTRIBUTIONS = (DENSITY, ON_A_LINE, ON_POINTS)
MISSING_DIMENSIONS = {DENSITY: 0, ON_A_LINE: 1, ON_POINTS: 2}

X_RANGE = (-2, 4)
Y_RANGE = (-3, 2)


def panel() -> Panel:
    """A panel of lesson 10: the number of halvings of the grid, the distribution of the noise."""
    return Panel(
        build_figure,
        Slider(
            name="halvings",
            label="cell width",
            values=HALVINGS,
            value=1,
            show=_show_width,
        ),
        Choice(
            name="noise",
            label="noise",
            values=DISTRIBUTIONS,
            value=ON_A_LINE,
        ),
        size=(9.4, 3.5),
    )


def build_figure(figure: Figure) -> Update:
    """Left: the plane of two weights in cells, darker where the distribution has more mass, with a
    ring around single points. Right: the KL measured with ever finer cells: it levels off if each
    weight has its own factor, and grows without bound for the two other distributions.
    """
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    figure.subplots_adjust(left=0.06, bottom=0.15, right=0.985, top=0.9, wspace=0.2)
    kls = {noise: [kl_at(noise, halvings) for halvings in HALVINGS] for noise in DISTRIBUTIONS}
    pictures = {}
    for noise in DISTRIBUTIONS:
        for halvings in HALVINGS:
            index, probs = _cells(noise, halvings)
            pictures[noise, halvings] = _picture(index, probs, halvings)

    left.set(xlabel="weight 1", ylabel="weight 2", title="Mass of each cell (square root)")
    image = left.imshow(
        pictures[DENSITY, 0],
        extent=(*X_RANGE, *Y_RANGE),
        origin="lower",
        cmap="Blues",
        vmin=0,
        vmax=1,
        interpolation="nearest",
        animated=True,
    )
    (spikes,) = left.plot([], [], "o", mfc="none", mec=GREEN, mew=2.5, ms=26, animated=True)

    right.set_title("The KL through the grid")
    right.set_xlabel("halvings of the cell width")
    right.set_ylabel("KL through the grid (nats)")
    right.plot(HALVINGS, kls[DENSITY], color=BLUE, ls="-", marker="o", ms=5, label=DENSITY)
    right.plot(HALVINGS, kls[ON_A_LINE], color=RED, ls="--", marker="s", ms=5, label=ON_A_LINE)
    right.plot(HALVINGS, kls[ON_POINTS], color=GREEN, ls="-.", marker="^", ms=5, label=ON_POINTS)
    right.set(xlim=(-0.3, HALVINGS[-1] + 0.3), ylim=(0, None))
    right.legend(loc="upper left")
    (ring,) = right.plot([], [], "o", mfc="none", mec=INK, mew=1.8, ms=13, animated=True)

    def update(halvings: int, noise: str) -> str:
        image.set_data(pictures[noise, halvings])
        if noise == ON_POINTS:
            spikes.set_data(POINTS[:, 0], POINTS[:, 1])
        else:
            spikes.set_data([], [])
        kl = kls[noise][halvings]
        ring.set_data([halvings], [kl])

        statements = [f"KL through this grid: <b>{kl:.3f} nats</b>."]
        if halvings:
            growth = kl - kls[noise][halvings - 1]
            statements.append(f"The last halving added {growth:.3f}.")
        missing = MISSING_DIMENSIONS[noise]
        limit = missing * math.log(2)
        statements.append(f"Missing dimensions: {missing}, times log 2: <b>{limit:.3f}</b>.")
        return " ".join(statements)

    return update


def kl_at(noise: str, halvings: int) -> float:
    """The KL to ``N(0, I)`` in nats that a grid of width ``2**-halvings`` sees."""
    width = 2.0**-halvings
    if noise == DENSITY:  # independent weights: the sum over both
        cells = [gaussian_cells(mean, std, width) for mean, std in _marginals()]
        return sum(quantised_kl(one, width).item() for one in cells)
    return quantised_kl(_cells(noise, halvings), width).item()


def _show_width(halvings: int) -> str:
    return f"1/{2**halvings}" if halvings else "1"


def _cells(noise: str, halvings: int) -> Cells:
    """Indices ``(cells, 2)`` of the cells that have mass, and their probabilities ``(cells,)``."""
    width = 2.0**-halvings
    if noise == ON_A_LINE:
        return line_cells(THETA, ALPHA, width)
    if noise == ON_POINTS:
        weights = torch.tensor([P_DROP, 1 - P_DROP]).double()
        return point_cells(POINTS, weights, width)
    first, second = (gaussian_cells(mean, std, width) for mean, std in _marginals())
    index_1, probs_1 = first
    index_2, probs_2 = second
    index = torch.cartesian_prod(index_1[:, 0], index_2[:, 0])
    return index, torch.outer(probs_1, probs_2).ravel()


def _marginals() -> list[tuple[float, float]]:
    """Mean and standard deviation of each weight."""
    return [(mean, abs(mean) * ALPHA**0.5) for mean in THETA.tolist()]


def _picture(index: Tensor, probs: Tensor, halvings: int) -> np.ndarray:
    """Cell masses as an image over the shown window, square roots scaled to at most 1."""
    per_unit = 2**halvings
    n_columns = per_unit * (X_RANGE[1] - X_RANGE[0])
    n_rows = per_unit * (Y_RANGE[1] - Y_RANGE[0])
    column = index[:, 0] - per_unit * X_RANGE[0]
    row = index[:, 1] - per_unit * Y_RANGE[0]
    is_shown = (column >= 0) & (column < n_columns) & (row >= 0) & (row < n_rows)
    picture = np.zeros((n_rows, n_columns))
    picture[row[is_shown].numpy(), column[is_shown].numpy()] = probs[is_shown].sqrt().numpy()
    return picture / picture.max()
