"""Lesson 09: two weights under three kinds of dropout noise, seen through finer and finer grids.

All three distributions have the same mean and the same variance in each weight. One has a density,
one lies on a line and one on two points; only the first has a finite KL to a prior with a density.
"""

import itertools
import math

import numpy as np
import torch
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREEN, INK, RED
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update
from bdl_lessons.probability import gaussian_cells, line_cells, point_cells, quantised_kl
from bdl_lessons.probability.partition_kl import Cells

HALVINGS = tuple(range(7))
THETA = torch.tensor([1.2, -0.7], dtype=torch.float64)
ALPHA = 0.5
P_DROP = ALPHA / (1 + ALPHA)  # alpha = p_drop / keep: the same variance
POINTS = torch.stack([0 * THETA, THETA / (1 - P_DROP)])
DISTRIBUTIONS = ("one factor for each weight", "one factor for both", "keep or drop both")
STYLES = ((BLUE, "-", "o"), (RED, "--", "s"), (GREEN, "-.", "^"))
MISSING = (0, 1, 2)
X_RANGE = (-2, 4)
Y_RANGE = (-3, 2)


def panel() -> Panel:
    """The number of halvings of the grid, and the distribution of the noise."""
    return Panel(
        build_figure,
        Slider("halvings", "cell width", HALVINGS, 1, lambda m: f"1/{2**m}" if m else "1"),
        Choice("noise", "noise", DISTRIBUTIONS, DISTRIBUTIONS[1]),
        size=(9.4, 3.5),
    )


def build_figure(figure: Figure) -> Update:
    """Left: the plane of two weights in cells, darker where the distribution has more mass, with a
    ring around single points. Right: the KL measured with ever finer cells: it levels off if each
    weight has its own factor, and grows without bound for the two other distributions.
    """
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    figure.subplots_adjust(0.06, 0.15, 0.985, 0.9, wspace=0.2)
    settings = itertools.product(DISTRIBUTIONS, HALVINGS)
    masses = {(noise, m): _picture(*_cells(noise, m), m) for noise, m in settings}
    kls = {noise: [kl_at(noise, m) for m in HALVINGS] for noise in DISTRIBUTIONS}

    image = left.imshow(np.zeros((5, 6)), extent=(*X_RANGE, *Y_RANGE), origin="lower")
    image.set(cmap="Blues", clim=(0, 1), interpolation="nearest", animated=True)
    (spikes,) = left.plot([], [], "o", mfc="none", mec=GREEN, mew=2.5, ms=26, animated=True)
    left.set(xlabel="weight 1", ylabel="weight 2", title="Mass of each cell (square root)")
    for noise, (colour, dash, marker) in zip(DISTRIBUTIONS, STYLES, strict=True):
        right.plot(HALVINGS, kls[noise], color=colour, ls=dash, marker=marker, ms=5, label=noise)
    right.set(xlabel="halvings of the cell width", ylabel="KL through the grid (nats)")
    right.set(xlim=(-0.3, HALVINGS[-1] + 0.3), ylim=(0, None), title="The KL through the grid")
    right.legend(loc="upper left")
    (ring,) = right.plot([], [], "o", mfc="none", mec=INK, mew=1.8, ms=13, animated=True)

    def update(halvings: int, noise: str) -> str:
        image.set_data(masses[noise, halvings])
        spikes.set_data(*(POINTS.T if noise == DISTRIBUTIONS[2] else ([], [])))
        kl = kls[noise][halvings]
        ring.set_data([halvings], [kl])
        text = f"KL through this grid: <b>{kl:.3f} nats</b>."
        if halvings:
            text += f" The last halving added {kl - kls[noise][halvings - 1]:.3f}."
        missing = MISSING[DISTRIBUTIONS.index(noise)]
        rise = missing * math.log(2)
        return f"{text} Missing dimensions: {missing}, times log 2: <b>{rise:.3f}</b>."

    return update


def kl_at(noise: str, halvings: int) -> float:
    """The KL to ``N(0, I)`` in nats that a grid of width ``2**-halvings`` sees."""
    width = 2.0**-halvings
    if noise == DISTRIBUTIONS[0]:
        parts = [gaussian_cells(mean, std, width) for mean, std in _marginals()]
        return sum(quantised_kl(part, width).item() for part in parts)
    return quantised_kl(_cells(noise, halvings), width).item()


def _cells(noise: str, halvings: int) -> Cells:
    width = 2.0**-halvings
    if noise == DISTRIBUTIONS[1]:
        return line_cells(THETA, ALPHA, width)
    if noise == DISTRIBUTIONS[2]:
        return point_cells(POINTS, torch.tensor([P_DROP, 1 - P_DROP]).double(), width)
    (i, p), (j, r) = (gaussian_cells(mean, std, width) for mean, std in _marginals())
    return torch.cartesian_prod(i[:, 0], j[:, 0]), torch.outer(p, r).ravel()


def _marginals() -> list[tuple[float, float]]:
    return [(mean, abs(mean) * ALPHA**0.5) for mean in THETA.tolist()]


def _picture(index: torch.Tensor, probs: torch.Tensor, halvings: int) -> np.ndarray:
    """Cell masses as an image over the shown window, square roots scaled to at most 1."""
    per_unit = 2**halvings
    n_x, n_y = (per_unit * (high - low) for low, high in (X_RANGE, Y_RANGE))
    column = index[:, 0] - per_unit * X_RANGE[0]
    row = index[:, 1] - per_unit * Y_RANGE[0]
    shown = (column >= 0) & (column < n_x) & (row >= 0) & (row < n_y)
    picture = np.zeros((n_y, n_x))
    picture[row[shown].numpy(), column[shown].numpy()] = probs[shown].sqrt().numpy()
    return picture / picture.max()
