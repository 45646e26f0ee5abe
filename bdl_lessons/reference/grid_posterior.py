"""A posterior over two weights by brute force: evaluate it on a grid, then sum. Lesson 02."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from bdl_lessons.core.validation import instance, integer, number, same_dtype, shapes
from bdl_lessons.reference.gaussian_vi import LogJoint


class GridPosterior:
    r"""The posterior of a two-weight model on a rectangular grid.

    .. math:: p(D) \approx \sum_g p(D, w_g)\, a, \qquad p(w_g \mid D) = p(D, w_g) / p(D)

    with ``a`` the area of a cell. For a smooth density that has died out at the border the error
    of this sum falls faster than any power of the spacing: a few hundred points a side are exact
    for every purpose. But ``n ** K`` points make two or three weights the limit.

    Args:
        log_joint: ``(P, 2)`` weights to ``(P,)`` values of ``log p(D, w)`` in nats; it is given
            float64 tensors on the CPU.
        low, high: corners of the rectangle, two numbers each.
        n: points a side.

    Attributes:
        points, axes: ``(n * n, 2)``, and the two tensors ``(n,)`` that they come from.
        log_density, probs: ``(n * n,)``, of the posterior and of each cell.
        log_evidence: 0-dim, nats.

    Raises:
        TypeError, ValueError: if the rectangle is empty, ``log_joint`` gives a NaN or another
            shape, or more than a millionth of the posterior lies on the border of the grid.

    >>> grid = GridPosterior(lambda w: -w.square().sum(-1) / 2, low=(-8, -8), high=(8, 8))
    >>> round(grid.log_evidence.item(), 4), grid.cov.diagonal().round(decimals=4).tolist()
    (1.8379, [1.0, 1.0])
    """

    def __init__(
        self, log_joint: LogJoint, low: tuple[float, float], high: tuple[float, float], n: int = 200
    ):
        instance("log_joint", log_joint, Callable)
        self.n = integer("n", n, 3)
        for name, corner in (("low", low), ("high", high)):
            if not isinstance(corner, Sequence) or len(corner) != 2:
                raise TypeError(f"{name} must be two numbers, got {corner!r}")
        sides = list(zip(low, high, strict=True))
        if not all(number("low", a) < number("high", b) for a, b in sides):
            raise ValueError(f"low must be below high on both axes, got low={low}, high={high}")
        self.axes = [torch.linspace(a, b, n, dtype=torch.float64) for a, b in sides]
        self.points = torch.cartesian_prod(*self.axes)
        self.log_cell = sum(math.log((b - a) / (n - 1)) for a, b in sides)
        values = log_joint(self.points)
        shapes("log_joint must give (P,) at the points (P, 2)", values, self.points)
        if values.isnan().any():
            raise ValueError("log_joint is NaN on the grid")
        self.log_evidence = values.logsumexp(0) + self.log_cell
        self.log_density = values - self.log_evidence
        self.probs = (self.log_density + self.log_cell).exp()
        inside = self.probs.view(n, n)[1:-1, 1:-1].sum()
        if not 1 - inside < 1e-6:
            border = f"{1 - inside:.1e} of it lies on the border of low={low}, high={high}"
            raise ValueError(f"the grid cuts the posterior off: {border}; widen the rectangle")

    def expect(self, values: Tensor) -> Tensor:
        """Posterior mean of ``values``, ``(n * n, ...)`` to ``(...)``."""
        same_dtype("values", values, "the points", self.points)
        shapes("values must be (P, ...) at the points (P, 2)", values, self.points)
        return torch.tensordot(self.probs, values, dims=1)

    @property
    def mean(self) -> Tensor:
        """Posterior mean of the weights, ``(2,)``."""
        return self.expect(self.points)

    @property
    def cov(self) -> Tensor:
        """Posterior covariance of the weights, ``(2, 2)``."""
        centred = self.points - self.mean
        return (self.probs[:, None] * centred).mT @ centred

    def sample(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """Grid points drawn from the posterior, ``(n_samples, 2)``."""
        integer("n_samples", n_samples, 1)
        drawn = torch.multinomial(self.probs, n_samples, replacement=True, generator=generator)
        return self.points[drawn]

    def kl_from(self, log_q: Tensor) -> Tensor:
        """``KL(q || posterior)`` in nats, from ``log q`` at ``points``, ``(n * n,)``."""
        same_dtype("log_q", log_q, "the points", self.points)
        shapes("log_q must be (P,) at the points (P, 2)", log_q, self.points)
        return ((log_q + self.log_cell).exp() * (log_q - self.log_density)).sum()
