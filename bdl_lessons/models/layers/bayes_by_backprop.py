"""Bayes by backprop: Gaussian weights under a Gaussian prior (Blundell et al., ICML 2015).

Lesson 06.
"""

from dataclasses import dataclass

from torch import Tensor

from bdl_lessons.core.validation import number, positive, typechecked
from bdl_lessons.models.layers.weight_noise import AdditiveNoise, WeightNoiseFactory
from bdl_lessons.probability import gaussian_kl_to_prior


@typechecked
@dataclass(frozen=True)
class BayesByBackprop(WeightNoiseFactory):
    """Layer factory: ``q(w) = N(mu, sigma**2)`` with the prior ``N(0, prior_var)`` (lesson 06).

    Args:
        prior_var: variance of the prior of one weight, > 0, else ValueError.
        init_log_sigma2: where the posterior's log variances start, finite, else ValueError. Small:
            a network that starts as noise does not learn.

    >>> layer = BayesByBackprop(prior_var=1.0, init_log_sigma2=0.0).linear(3, 2, bias=False)
    >>> _ = layer.weight.data.fill_(1.0)
    >>> round(layer.kl().item(), 4)  # six weights, N(1, 1) from N(0, 1)
    3.0
    """

    prior_var: float = 1.0
    init_log_sigma2: float = -6.0

    def __post_init__(self) -> None:
        positive("prior_var", self.prior_var)
        number("init_log_sigma2", self.init_log_sigma2)

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> "GaussianPosterior":
        return GaussianPosterior(weight_shape, self.init_log_sigma2, self.prior_var)


class GaussianPosterior(AdditiveNoise):
    """``w ~ N(mu, sigma2)`` with its KL to ``N(0, prior_var)``."""

    def __init__(self, shape: tuple[int, ...], init_log_sigma2: float, prior_var: float) -> None:
        super().__init__(shape, init_log_sigma2)
        self.prior_var = prior_var

    def kl(self, mu: Tensor) -> Tensor:
        return gaussian_kl_to_prior(mu, self.log_sigma2, self.prior_var)
