r"""Layers that find out which of their weights matter: sparse variational dropout and ARD.

One posterior, two priors (lesson 08). Every weight is ``w = mu + sigma * eps`` with its own free
``mu`` and ``log_sigma2`` (the additive parametrisation). What decides is its noise relative to its
size,

.. math:: \alpha = \sigma^2 / \mu^2, \qquad \log\alpha = \log\sigma^2 - 2 \log|\mu|,

and under both priors the divergence falls as ``log_alpha`` grows, and depends on nothing else. A
weight that the data do not hold back drifts to a large alpha and can be removed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from bdl_lessons.core.validation import number, typechecked
from bdl_lessons.models.layers.weight_noise import AdditiveNoise, WeightNoiseFactory
from bdl_lessons.probability import molchanov_kl


def ard_kl(log_alpha: Tensor) -> Tensor:
    r"""Divergence of each weight under the best Gaussian prior of its own, in nats.

    ``min over lambda2 of KL(N(mu, sigma2) || N(0, lambda2))`` is reached at
    ``lambda2 = mu**2 + sigma2`` and is :math:`\tfrac12\log(1 + 1/\alpha)
    = -\tfrac12 \log\mathrm{sigmoid}(\log\alpha)`, without any constant (Kharitonov, Molchanov and
    Vetrov 2018).

    >>> ard_kl(torch.tensor([-4.0, 0.0, 4.0])).round(decimals=3)
    tensor([2.0090, 0.3470, 0.0090])
    """
    return -logsigmoid(log_alpha) / 2


@dataclass(frozen=True)
class _SparseFactory(WeightNoiseFactory):
    """Layer factory: the noise of the weights and the sum of a divergence in ``log_alpha``.

    Args:
        init_log_sigma2: where the log variances start. Published: -10. Small, because a network
            that starts as noise does not learn.
        log_alpha_clamp: bounds put on ``log_alpha`` *inside the KL*, published (-8, 8); beyond them
            its gradient is 0. ``None``: no bounds, none are needed for stability.
        threshold: train with the means of weights at or above this ``log_alpha`` taken as 0, as the
            authors' code does at 3. No data reach such a ``mu``; only the KL moves it on, towards
            0, and the weight comes back if its variance falls. The KL is that of all weights, so
            the loss is no bound any more. ``None``: every mean counts until pruning.

    ValueError if ``init_log_sigma2`` is not finite, the clamp not ``(low, high)`` or ``threshold``
    NaN.
    """

    init_log_sigma2: float = -10.0
    log_alpha_clamp: tuple[float, float] | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        number("init_log_sigma2", self.init_log_sigma2)
        clamp = self.log_alpha_clamp
        if clamp is not None and not clamp[0] < clamp[1]:
            raise ValueError(f"log_alpha_clamp must be None or (low, high), got {clamp}")
        if self.threshold is not None and math.isnan(self.threshold):
            raise ValueError("threshold must be a number or None, got nan")

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> "SparseNoise":
        return SparseNoise(weight_shape, self)


@typechecked
@dataclass(frozen=True)
class SparseVD(_SparseFactory):
    """Layer factory of sparse variational dropout (Molchanov, Ashukha and Vetrov, ICML 2017).

    The prior is log-uniform, ``p(|w|) ~ 1/|w|``.

    Args:
        weight_kl: the divergence of each weight as a function of ``log_alpha``: the published
            sigmoid, or :func:`~bdl_lessons.probability.loguniform_kl`, exact and slower.

    >>> layer = SparseVD(init_log_sigma2=0.0).linear(3, 2, bias=False)
    >>> _ = layer.weight.data.fill_(1.0)  # alpha = 1
    >>> round(layer.kl().item() / 6, 3), round(molchanov_kl(torch.zeros(())).item(), 3)
    (0.431, 0.431)
    """

    weight_kl: Callable[[Tensor], Tensor] = molchanov_kl


@typechecked
@dataclass(frozen=True)
class ARD(_SparseFactory):
    """Layer factory of automatic relevance determination (Kharitonov et al. 2018).

    The prior is ``N(0, lambda2)``, each weight has its own ``lambda2`` at its optimum:
    :func:`ard_kl`.

    >>> layer = ARD(init_log_sigma2=0.0, threshold=3.0).linear(3, 2)
    >>> _ = layer.weight.data.fill_(0.1)  # log alpha = 4.6: the means count as 0
    >>> layer.noise.mean(layer.mu).abs().sum().item()
    0.0
    """

    weight_kl: ClassVar[Callable[[Tensor], Tensor]] = staticmethod(ard_kl)


class SparseNoise(AdditiveNoise):
    """``w ~ N(mu, sigma2)`` with the KL and the threshold of the factory's ``settings``."""

    def __init__(self, shape: tuple[int, ...], settings: _SparseFactory) -> None:
        super().__init__(shape, settings.init_log_sigma2)
        self.settings = settings

    def mean(self, mu: Tensor) -> Tensor:
        if self.settings.threshold is None:
            return mu
        with torch.no_grad():
            above = self.log_alpha_at(mu) >= self.settings.threshold
        return mu.masked_fill(above, 0.0)

    def kl(self, mu: Tensor) -> Tensor:
        log_alpha = self.log_alpha_at(mu)
        if self.settings.log_alpha_clamp is not None:
            log_alpha = log_alpha.clamp(*self.settings.log_alpha_clamp)
        return self.settings.weight_kl(log_alpha).sum()
