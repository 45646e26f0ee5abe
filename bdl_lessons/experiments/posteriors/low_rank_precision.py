r"""A Gaussian over many numbers whose *precision* is a low-rank matrix plus a diagonal.

Nothing here is larger than the D x L factor: no D x D matrix is made. It is the law of
:mod:`bdl_lessons.experiments.posteriors.slang`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import solve_triangular

from bdl_lessons.core.random import standard_normal


@dataclass(frozen=True)
class LowRankPrecision:
    """``N(mean, (factor factor' + diag(diagonal))^-1)`` over D numbers.

    Args:
        mean, diagonal: ``(..., D)``, the diagonal > 0. factor: ``(..., D, L)``. Leading axes are
            Gaussians side by side.
    """

    mean: Tensor
    factor: Tensor
    diagonal: Tensor

    def solve(self, b: Tensor) -> Tensor:
        """Covariance times ``b``, ``(..., D)``, by Woodbury's identity: an L x L system."""
        scaled = self.factor / self.diagonal[..., None]
        inner = torch.cholesky_solve(scaled.mT @ b[..., None], self._cholesky())
        return b / self.diagonal - (scaled @ inner)[..., 0]

    def draw(self, n_samples: int, generator: torch.Generator) -> Tensor:
        r"""``n_samples`` draws ``(S, ..., D)``.

        With :math:`F = d^{-1/2} V` and the Cholesky factor M of ``I + F'F`` a root of the
        covariance is :math:`d^{-1/2} (I - F M^{-\top} (M + I)^{-1} F^\top)`. Multiply it by its
        transpose to see it. The published root has the Cholesky factor of ``F'F`` in its middle and
        needs V to have full rank; this one takes any V, zero too.
        """
        noise = standard_normal((n_samples, *self.mean.shape), generator, self.mean)
        root = self.diagonal.sqrt()
        F, M = self.factor / root[..., None], self._cholesky()
        eye = torch.eye(M.shape[-1], dtype=M.dtype, device=M.device)
        inner = solve_triangular(M + eye, F.mT @ noise[..., None], upper=False)
        inner = solve_triangular(M.mT, inner, upper=True)
        return self.mean + (noise - (F @ inner)[..., 0]) / root

    def kl(self, prior_precision: Tensor) -> Tensor:
        """To ``N(0, diag(1 / prior_precision))``, in nats, ``(...)``: a report, not a loss."""
        scaled = self.factor / self.diagonal[..., None]
        M = self._cholesky()
        saved = solve_triangular(M, scaled.mT, upper=False).square().sum(-2)
        second_moment = 1 / self.diagonal - saved + self.mean.square()
        log_det = self.diagonal.log().sum(-1) + 2 * M.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        d = self.mean.shape[-1]
        spread = (prior_precision * second_moment - prior_precision.log()).sum(-1)
        return (spread - d + log_det) / 2

    def _cholesky(self) -> Tensor:
        gram = self.factor.mT @ (self.factor / self.diagonal[..., None])
        return torch.linalg.cholesky(gram + torch.eye(gram.shape[-1]).to(gram))
