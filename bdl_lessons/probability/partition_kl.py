r"""The KL divergence over the cells of a grid: its limit shows whether it is finite. Lesson 10.

Divide space into cubes $A$ of side ``width`` and compare only the masses of the cubes,

$$\text{KL}_\text{width}(q \,\|\, p) = \sum_A q(A) \log \frac{q(A)}{p(A)}.$$

Halving the width never lowers it, and its limit is $\text{KL}(q \,\|\, p)$, whether q has a density
or not (Gelfand, Yaglom and Perez; used by Hron, Matthews and Ghahramani, ICML 2018). The
prior here is $p = \mathcal N(0, I_D)$: weights are measured in its standard deviations.

A distribution is given by its cells: integer coordinates ``index (M, D)`` of cubes
``[index * width, (index + 1) * width)`` and their masses ``probs (M,)``. Shapes that do not fit,
a ``width``, ``std`` or ``alpha`` that is not positive and finite, and masses too far out for the
width raise ValueError.
"""

import math

import torch
from torch import Tensor
from torch.special import log_ndtr, ndtr, xlogy

from bdl_lessons.core.validation import positive, shapes

Cells = tuple[Tensor, Tensor]
_REACH = 12.0  # standard deviations; beyond them lies a mass below 1e-32
_FAR = "lie too far out for cells of this width"


def quantised_kl(cells: Cells, width: float) -> Tensor:
    """``KL_width(q || N(0, I))`` in nats, 0-dim.

    The KL of a distribution with independent coordinates is the sum over its coordinates.

    >>> exact = 0.5 * (2.0**2 + 0.5**2 - 1) + math.log(2)  # of N(2, 0.5²) from N(0, 1)
    >>> round(quantised_kl(gaussian_cells(2.0, 0.5, 0.001), 0.001).item() - exact, 4)
    -0.0
    """
    index, probs = cells
    positive("width", width)
    shapes("cells must have index (M, D) and probs (M,)", index, probs)
    return (xlogy(probs, probs) - probs * _log_prior_mass(index, width).sum(-1)).sum()


def gaussian_cells(mean: float, std: float, width: float) -> Cells:
    """``N(mean, std**2)`` on the line: D = 1.

    >>> index, probs = gaussian_cells(0.0, 1.0, width=100.0)  # one cell to each side of 0
    >>> index.tolist(), probs.tolist()
    ([[-1], [0]], [0.5, 0.5])
    """
    positive("width", width)
    positive("std", std)
    reach = _REACH * std
    low, high = _countable((mean - reach) / width, (mean + reach) / width)
    first = math.floor(low)
    last = math.floor(high)
    index = torch.arange(first, last + 1)
    sides = torch.arange(first, last + 2, dtype=torch.float64) * width
    edges = (sides - mean) / std
    return index[:, None], _interval_mass(edges)


def line_cells(theta: Tensor, alpha: float, width: float) -> Cells:
    """``w = xi * theta`` with one ``xi ~ N(1, alpha)``: a distribution on a line through 0.

    Gaussian dropout A on one input with D outputs: one random number, and D weights ``theta (D,)``
    without zeros. The cells are exact: the line is cut wherever it crosses a side of a cube.

    >>> index, probs = line_cells(torch.tensor([1.0, -1.0]), alpha=1e-6, width=0.4)
    >>> index[probs > 0.5].tolist()
    [[2, -3]]
    """
    positive("width", width)
    positive("alpha", alpha)
    if theta.ndim != 1 or not theta.all():
        raise ValueError(f"theta must be (K,) and without zeros, got {theta.tolist()}")
    theta = theta.double()
    low = 1 - _REACH * alpha**0.5
    high = 1 + _REACH * alpha**0.5
    cuts = [torch.tensor([low, high], dtype=torch.float64)]
    for entry in theta.tolist():
        one_end = low * entry / width
        other_end = high * entry / width
        first, last = _countable(min(one_end, other_end), max(one_end, other_end))
        sides = torch.arange(math.ceil(first), math.floor(last) + 1, dtype=torch.float64)
        cuts.append(sides * width / entry)
    xi = torch.cat(cuts).sort().values
    middle = (xi[:-1] + xi[1:]) / 2
    index = (middle[:, None] * theta / width).floor().long()
    return index, _interval_mass((xi - 1) / alpha**0.5)


def point_cells(points: Tensor, probs: Tensor, width: float) -> Cells:
    """Point masses ``probs (S,)`` at ``points (S, K)``: binary dropout. Shared cells are merged.

    >>> points, probs = torch.tensor([[0.1], [0.2], [3.0]]), torch.tensor([0.25, 0.25, 0.5])
    >>> index, probs = point_cells(points, probs, width=1.0)
    >>> index.tolist(), probs.tolist()
    ([[0], [3]], [0.5, 0.5])
    """
    positive("width", width)
    shapes("points must be (S, K) and probs (S,)", points, probs)
    index = (points.double() / width).floor()
    if not (index.abs() < 2**62).all():
        raise ValueError(f"points {_FAR}")
    cells, cell_of = index.long().unique(dim=0, return_inverse=True)
    masses = torch.zeros(len(cells), dtype=torch.float64)
    return cells, masses.index_add(0, cell_of, probs.double())


def _countable(low: float, high: float) -> tuple[float, float]:
    """Both, if the cells between them have numbers and fit into memory."""
    if not (high - low < 2**28 and max(-low, high) < 2**62):
        raise ValueError(f"the masses {_FAR}: {low:.3g} to {high:.3g}")
    return low, high


def _log_prior_mass(index: Tensor, width: float) -> Tensor:
    """Log mass of N(0, 1) in each interval, from the nearer tail so that nothing cancels."""
    mirrored = torch.where(index >= 0, -index - 1, index).double()
    upper = log_ndtr((mirrored + 1) * width)
    lower = log_ndtr(mirrored * width)
    return upper + (-torch.expm1(lower - upper)).log()


def _interval_mass(edges: Tensor) -> Tensor:
    """Mass of N(0, 1) between neighbouring ``edges``, from the nearer tail."""
    low = edges[:-1]
    high = edges[1:]
    return torch.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
