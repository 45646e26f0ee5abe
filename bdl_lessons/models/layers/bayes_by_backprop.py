"""Bayes by backprop: Gaussian weights under a Gaussian prior (Blundell et al., ICML 2015).

Lesson 06.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from bdl_lessons.core.validation import positive, typechecked
from bdl_lessons.models.layers.weight_noise import AdditiveNoise, AdditiveNoiseFactory
from bdl_lessons.probability import gaussian_kl_to_prior


@typechecked
@dataclass(frozen=True)
class BayesByBackprop(AdditiveNoiseFactory):
    """Layer factory: ``q(w) = N(mu, sigma**2)`` with the prior ``N(0, prior_var)`` (lesson 06).

    Args:
        prior_var: variance of the prior of one weight.
        init_log_sigma2: where the posterior's log variances start. Small: a network that starts
            as noise does not learn.

    Raises:
        ValueError: if ``prior_var`` is not finite and > 0 or ``init_log_sigma2`` is not finite.
    """

    prior_var: float = 1.0
    init_log_sigma2: float = -6.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("prior_var", self.prior_var)

    def _kl(self, noise: AdditiveNoise, mu: Tensor) -> Tensor:
        return gaussian_kl_to_prior(mu, noise.log_sigma2, self.prior_var)
