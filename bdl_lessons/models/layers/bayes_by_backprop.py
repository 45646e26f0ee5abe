"""Bayes by backprop: Gaussian weights under a Gaussian prior (Blundell et al., ICML 2015).

Lesson 06.
"""

import torch
from torch import Tensor, nn

from bdl_lessons.core.validation import number, positive
from bdl_lessons.models.layers.base import WeightNoise, log_relative_variance
from bdl_lessons.probability import gaussian_kl_to_prior


class BayesByBackprop(WeightNoise):
    """``q(w) = N(mu, sigma**2)``, both free for each weight, with the prior ``N(0, prior_var)``.

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d``; its weights are the means.
        prior_var: variance of the prior of one weight, > 0, else ValueError.
        init_log_sigma2: where the log variances start, finite, else ValueError. Small: a network
            that starts as noise does not learn.

    >>> layer = BayesByBackprop(nn.Linear(3, 2, bias=False), prior_var=1.0, init_log_sigma2=0.0)
    >>> _ = layer.weight.data.fill_(1.0)
    >>> round(layer.kl().item(), 4)  # six weights, N(1, 1) from N(0, 1)
    3.0
    """

    def __init__(
        self,
        inner: nn.Linear | nn.Conv2d,
        prior_var: float = 1.0,
        init_log_sigma2: float = -6.0,
    ) -> None:
        super().__init__(inner)
        start = float(number("init_log_sigma2", init_log_sigma2))
        self.log_sigma2 = nn.Parameter(torch.full(inner.weight.shape, start))
        self.prior_var = positive("prior_var", prior_var)

    @property
    def log_alpha(self) -> Tensor:
        """``log(sigma**2 / mu**2)`` of each weight, in the shape of the weights."""
        return log_relative_variance(self.inner.weight, self.log_sigma2)

    def weight_var(self) -> Tensor:
        """``sigma**2`` of each weight, in the shape of the weights."""
        return self.log_sigma2.exp()

    def kl(self) -> Tensor:
        """``sum KL(N(mu, sigma**2) || N(0, prior_var))`` over the weights, in nats, 0-dim."""
        return gaussian_kl_to_prior(self.inner.weight, self.log_sigma2, self.prior_var)
