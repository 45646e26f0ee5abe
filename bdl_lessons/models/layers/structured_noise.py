r"""Noise with structure: the law of structured dropout, and what it pays.

.. math:: \xi = 1 + U \eta, \quad \eta \sim N(0, \mathrm{diag}(\alpha)), \quad U = H_T \cdots H_1,
          \qquad \xi \sim N(1,\ U\, \mathrm{diag}(\alpha)\, U^\top).

The mean is not rotated. T = 0 is the noise of variational dropout. T reflections add at most 2 T
dimensions to a diagonal covariance, in O(K T) a draw. Two things to know:

- **Equal alphas make U inert.** ``U (alpha I) U' = alpha I``: the law is that of T = 0 whatever the
  vectors are, and they get no gradient on average. So the alphas start apart (``spread``).
- **The joint law stays degenerate.** All columns of W share xi, so the covariance of W has rank K
  out of K Q, for T = 0 and for T > 0. The component of W that goes with ``eta_i`` is
  ``diag(U_{:i}) Theta``; without rotation it is zero outside row i. That differs, the rank not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bdl_lessons.core.random import standard_normal
from bdl_lessons.models.layers.gaussian_noise import KLPer, LogAlpha
from bdl_lessons.models.layers.householder_vectors import ChainedVectors, FreeVectors
from bdl_lessons.models.layers.unit_noise import UnitNoise
from bdl_lessons.probability import (
    empirical_bayes_kl,
    loguniform_kl,
    orthogonal_matrix,
    rotated_noise,
    rotated_variance,
    total_correlation,
)


class StructuredUnitNoise(UnitNoise):
    """``xi ~ N(1, U diag(alpha) U')`` for one layer of K input units or channels.

    Until :meth:`reset` is called with a generator, the vectors and the spread of the alphas are
    drawn as PyTorch draws the weights of a new layer, from its global generator.

    Args:
        log_alpha: ``(K,)``.
        householder: makes the ``(T, K)`` vectors.
    """

    def __init__(self, log_alpha: LogAlpha, householder: FreeVectors | ChainedVectors) -> None:
        super().__init__()
        self.log_alpha, self.householder = log_alpha, householder
        self.reset(torch.default_generator)

    def alpha(self) -> Tensor:
        """The variances before the rotation, ``(K,)``."""
        return self.log_alpha().exp()

    def vectors(self) -> Tensor:
        """The Householder vectors, ``(T, K)``, the first reflection first."""
        return self.householder()

    def var(self) -> Tensor:
        """The variances after it, ``s = diag(U diag(alpha) U')``, ``(K,)``, in O(K T^2)."""
        return self.log_alpha_and_var()[1]

    def log_alpha_and_var(self) -> tuple[Tensor, Tensor]:
        """``log alpha`` and s, each ``(K,)``: all that a divergence depends on."""
        log_alpha = self.log_alpha()
        return log_alpha, rotated_variance(log_alpha.exp(), self.vectors())

    def covariance(self) -> Tensor:
        """``U diag(alpha) U'``, ``(K, K)``: for looking at, no layer needs it."""
        U = orthogonal_matrix(self.vectors())
        return (U * self.alpha()) @ U.T

    def sample(self, shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
        eps = standard_normal(shape, generator, like)
        std = (self.log_alpha() / 2).exp()
        return rotated_noise(eps, std, self.vectors(), mean=1.0)

    def reset(self, generator: torch.Generator) -> None:
        self.log_alpha.reset(generator)
        self.householder.reset(generator)


@dataclass(frozen=True)
class EmpiricalBayesPrior:
    """``scale * KL_EB`` in nats: the best Gaussian prior for every weight.

    Args:
        scale: on the sum.
        per: ``"weight"`` counts all Q weights of a row, as published; ``"factor"`` counts the
            random factor once, so that the sum is Q times smaller.
    """

    scale: float = 1.0
    per: KLPer = "weight"

    def __call__(
        self, noise: StructuredUnitNoise, theta: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        n_columns = theta.shape[1] if self.per == "weight" else 1
        return self.scale * empirical_bayes_kl(*noise.log_alpha_and_var(), n_columns)


@dataclass(frozen=True)
class StructuredLogUniformPrior:
    r"""The log-uniform prior of variational dropout, for factors that depend on each other.

    .. math:: \mathrm{KL}\Big(N(1, C) \,\Big\|\, \prod_i |\xi_i|^{-1}\Big)
              = \sum_i \mathrm{KL}(s_i) + \tfrac12 \sum_i \log(s_i / \alpha_i)

    by the chain rule: what each factor pays by itself, and their total correlation. The prior is
    improper, so this holds up to the constant of :func:`bdl_lessons.probability.loguniform_kl`.

    Args:
        kl: elementwise divergence of one factor as a function of its log variance.
        scale: on the sum.
        per: ``"factor"`` is the divergence of what is drawn; ``"weight"`` counts it for each of the
            Q weights.
    """

    kl: Callable[[Tensor], Tensor] = loguniform_kl
    scale: float = 1.0
    per: KLPer = "factor"

    def __call__(
        self, noise: StructuredUnitNoise, theta: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        n_columns = theta.shape[1] if self.per == "weight" else 1
        log_alpha, var = noise.log_alpha_and_var()
        total = self.kl(var.log()).sum() + total_correlation(log_alpha, var)
        return self.scale * n_columns * total
