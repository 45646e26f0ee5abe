"""Gaussian noise on units with any covariance: what structured dropout could learn at most."""

import math

import torch
from torch import Tensor, nn

from bdl_lessons.core.devices import single
from bdl_lessons.core.random import standard_normal
from bdl_lessons.core.validation import non_negative
from bdl_lessons.models import UnitNoise
from bdl_lessons.models.layers.base import clamp_with_grad
from bdl_lessons.models.layers.structured_dropout import start_between
from bdl_lessons.probability import empirical_bayes_kl


class FullCovarianceDropout(UnitNoise):
    r"""``W = diag(xi) Theta`` with ``xi ~ N(1, R R')``, R a lower triangle, all learned.

    .. math:: \xi = 1 + R \eta, \quad \eta \sim N(0, I), \qquad
              R = (I + L)\, \mathrm{diag}(\sqrt\alpha), \quad L \text{ strictly lower.}

    Every covariance has such a root, so it is the positive control of
    :class:`~bdl_lessons.models.StructuredDropout`: an effect of correlated noise that this layer
    does not show, no number of reflections can. It starts at L = 0, where it is structured dropout
    without reflections, and equal generators then draw equal noise. A draw takes O(K^2).

    alpha_i is the variance of factor i given the factors before it. Only that is bounded; the
    variance of the factor is larger. The KL counts every weight, as published for structured
    dropout.

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d`` whose inputs get the noise.
        init_p_drop: the alphas start around ``init_p_drop / (1 - init_p_drop)``.
        alpha_spread: standard deviation of log alpha at the start.
        min_alpha, max_alpha: bounds on alpha.

    Raises:
        TypeError, ValueError: for a setting that is out of range, or bounds that do not hold the
            alpha of ``init_p_drop``; the message names it.

    >>> layer = FullCovarianceDropout(nn.Linear(3, 2), init_p_drop=0.5, alpha_spread=0.0)
    >>> round(layer.kl().item() / 6, 3)  # log(1 + 1 / alpha) / 2 for each weight, at alpha = 1
    0.347
    """

    batch_may_differ = ("init_log_alpha", "alpha_spread")

    def __init__(
        self,
        inner: nn.Linear | nn.Conv2d,
        init_p_drop: float = 0.2,
        alpha_spread: float = 0.1,
        min_alpha: float = 1e-4,
        max_alpha: float = 1.0,
    ) -> None:
        super().__init__(inner)
        self.init_log_alpha = start_between(min_alpha, max_alpha, init_p_drop)
        self.alpha_spread = non_negative("alpha_spread", alpha_spread)
        self.bounds = (math.log(min_alpha), math.log(max_alpha))
        self.raw_log_alpha = nn.Parameter(torch.empty(self.n_units))
        self.lower = nn.Parameter(torch.empty(self.n_units, self.n_units))
        self.reset_noise(torch.default_generator)

    @property
    def log_alpha(self) -> Tensor:
        """Log conditional variances, ``(K,)``: what is learned, within its bounds."""
        return clamp_with_grad(self.raw_log_alpha, *self.bounds)

    def root(self) -> Tensor:
        """R, ``(K, K)``: a lower triangle. Of ``lower`` only what is below the diagonal counts."""
        ones = torch.eye(self.n_units, dtype=self.lower.dtype, device=self.lower.device)
        std = (self.log_alpha / 2).exp()
        return (ones + self.lower.tril(-1)) * std

    def draw_xi(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """``1 + R eta``, ``(..., K)``."""
        eta = standard_normal(shape, generator, self.inner.weight)
        return 1 + eta @ self.root().mT

    def kl(self) -> Tensor:
        """The KL of the columns of W to the best Gaussian prior of every weight, in nats, 0-dim.

        ``log det R R'`` is the sum of the log alphas, as it is with reflections.
        """
        var = single(self.root()).square().sum(1)
        weights_of_a_row = self.inner.weight.numel() // self.n_units
        return empirical_bayes_kl(self.log_alpha, var, weights_of_a_row)

    def noise_cov(self) -> Tensor:
        """``Cov[xi] = R R'``, ``(K, K)``."""
        root = self.root()
        return root @ root.mT

    @torch.no_grad()
    def reset_noise(self, generator: torch.Generator) -> None:
        """Draw ``log_alpha`` around its start, within its bounds; no correlations."""
        eps = standard_normal(self.raw_log_alpha.shape, generator, self.raw_log_alpha)
        log_alpha = self.init_log_alpha + self.alpha_spread * eps
        self.raw_log_alpha.copy_(log_alpha.clamp(*self.bounds))
        self.lower.zero_()
