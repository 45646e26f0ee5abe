r"""The KL divergence seen through a grid: finer and finer cells, finite or not.

Cut space into cubes $A$ of side ``width`` and compare only the masses of the cubes,

$$\text{KL}_\text{width}(q \,\|\, p) = \sum_A q(A) \log \frac{q(A)}{p(A)}.$$

Halving the width never lowers it, and its limit is $\text{KL}(q \,\|\, p)$, whether q has a density
or not (Gelfand, Yaglom and Perez; used by Hron, Matthews and Ghahramani, ICML 2018). The
prior here is $p = \mathcal N(0, I_K)$: weights are measured in its standard deviations.

A law is handed over as its cells: integer coordinates ``index (M, K)`` of cubes
``[index * width, (index + 1) * width)`` and their masses ``probs (M,)``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.special import log_ndtr, ndtr, xlogy

Cells = tuple[Tensor, Tensor]

_REACH = 12.0  # standard deviations; beyond them lies a mass below 1e-32


def quantised_kl(cells: Cells, width: float) -> Tensor:
    """``KL_width(q || N(0, I))`` in nats, 0-dim.

    The KL of a law with independent coordinates is the sum of those of its coordinates.

    Raises:
        ValueError: if shapes do not match, ``width`` is not > 0 or ``probs`` do not sum to one.
    """
    index, probs = cells
    _check_width(width)
    if index.ndim != 2 or probs.shape != index.shape[:1]:
        raise ValueError(
            f"cells need index (M, K) and probs (M,), got {tuple(index.shape)}, "
            f"{tuple(probs.shape)}"
        )
    if not abs(probs.sum().item() - 1) < 1e-9:
        raise ValueError(f"probs must sum to one, got {probs.sum().item():.12g}")
    return (xlogy(probs, probs) - probs * _log_prior_mass(index, width).sum(-1)).sum()


def gaussian_cells(mean: float, std: float, width: float) -> Cells:
    """``N(mean, std**2)`` on the line: K = 1.

    Raises:
        ValueError: if ``std`` or ``width`` is not finite and > 0, or ``mean`` is not finite.
    """
    _check_width(width)
    if not (std > 0 and math.isfinite(std) and math.isfinite(mean)):
        raise ValueError(f"mean must be finite and std finite and > 0, got {mean} and {std}")
    low, high = (math.floor((mean + side * _REACH * std) / width) for side in (-1, 1))
    index = torch.arange(low, high + 1)
    edges = (torch.arange(low, high + 2, dtype=torch.float64) * width - mean) / std
    return index[:, None], _interval_mass(edges)


def line_cells(theta: Tensor, alpha: float, width: float) -> Cells:
    """``w = xi * theta`` with one ``xi ~ N(1, alpha)``: a law on the line through ``theta``.

    Gaussian dropout A on one input with K outputs: K weights, one random number. The cells are
    exact: the line is cut wherever it crosses a side of a cube.

    Args:
        theta: ``(K,)``, no entry zero.
        alpha: variance of ``xi``, > 0.

    Raises:
        ValueError: if an argument is out of range or not finite.
    """
    _check_width(width)
    if theta.ndim != 1 or not (theta.isfinite() & (theta != 0)).all():
        raise ValueError(f"theta must be (K,), finite and without zeros, got {theta.tolist()}")
    if not (alpha > 0 and math.isfinite(alpha)):
        raise ValueError(f"alpha must be finite and > 0, got {alpha}")
    theta = theta.double()
    low, high = 1 - _REACH * alpha**0.5, 1 + _REACH * alpha**0.5
    cuts = [torch.tensor([low, high], dtype=torch.float64)]
    for entry in theta.tolist():
        first, last = sorted((low * entry / width, high * entry / width))
        sides = torch.arange(math.ceil(first), math.floor(last) + 1, dtype=torch.float64)
        cuts.append(sides * width / entry)
    xi = torch.cat(cuts).sort().values
    middle = (xi[:-1] + xi[1:]) / 2
    index = (middle[:, None] * theta / width).floor().long()
    return index, _interval_mass((xi - 1) / alpha**0.5)


def point_cells(points: Tensor, probs: Tensor, width: float) -> Cells:
    """Point masses ``probs (S,)`` at ``points (S, K)``: binary dropout. Shared cells are merged."""
    _check_width(width)
    index = (points.double() / width).floor().long()
    index, member = index.unique(dim=0, return_inverse=True)
    return index, torch.zeros(len(index), dtype=torch.float64).index_add_(0, member, probs.double())


def _log_prior_mass(index: Tensor, width: float) -> Tensor:
    """Log mass of N(0, 1) in each interval, from the nearer tail so that nothing cancels."""
    mirrored = torch.where(index >= 0, -index - 1, index).double()
    upper, lower = log_ndtr((mirrored + 1) * width), log_ndtr(mirrored * width)
    return upper + (-torch.expm1(lower - upper)).log()


def _interval_mass(edges: Tensor) -> Tensor:
    """Mass of N(0, 1) between neighbouring ``edges``, from the nearer tail."""
    low, high = edges[:-1], edges[1:]
    return torch.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))


def _check_width(width: float) -> None:
    if not (width > 0 and math.isfinite(width)):
        raise ValueError(f"width must be finite and > 0, got {width}")
