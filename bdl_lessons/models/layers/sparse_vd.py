r"""Layers that find out which of their weights matter: sparse variational dropout and ARD.

One posterior, two priors (lesson 08). Every weight is ``w = mu + sigma * eps`` with its own free
``mu`` and ``log_sigma2`` (the additive parametrisation). What decides is its noise relative to its
size,

.. math:: \alpha = \sigma^2 / \mu^2, \qquad \log\alpha = \log\sigma^2 - 2 \log|\mu|,

and under both priors the divergence falls as ``log_alpha`` grows, and depends on nothing else. A
weight that the data do not hold back drifts to a large alpha and can be removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from bdl_lessons.core.validation import typechecked
from bdl_lessons.models.layers.sparse_vd_fast import ard_kl_sum, molchanov_kl_sum
from bdl_lessons.models.layers.weight_noise import (
    AdditiveNoise,
    AdditiveNoiseFactory,
    log_relative_variance,
)
from bdl_lessons.probability import molchanov_kl


def ard_kl(log_alpha: Tensor) -> Tensor:
    r"""Divergence of each weight under the best Gaussian prior of its own, in nats.

    ``min over lambda2 of KL(N(mu, sigma2) || N(0, lambda2))`` is reached at
    ``lambda2 = mu**2 + sigma2`` and is :math:`\tfrac12\log(1 + 1/\alpha) = \tfrac12
    \mathrm{softplus}(-\log\alpha)`, without any constant (Kharitonov, Molchanov and Vetrov 2018).
    """
    return softplus(-log_alpha) / 2


ONE_PASS = {ard_kl: ard_kl_sum, molchanov_kl: molchanov_kl_sum}
"""Sums over the weights that are computed together with their gradients."""


class ThresholdedNoise(AdditiveNoise):
    """Weights with ``log_alpha >= threshold`` count as having mean 0: no data reach their ``mu``.

    Only the KL moves such a ``mu`` on, towards 0. The weight comes back if its variance falls.
    """

    def __init__(self, shape: tuple[int, ...], init_log_sigma2: float, threshold: float) -> None:
        super().__init__(shape, init_log_sigma2)
        self.threshold = threshold

    def mean(self, mu: Tensor) -> Tensor:
        with torch.no_grad():
            above = log_relative_variance(mu, self.log_sigma2) >= self.threshold
        return mu.masked_fill(above, 0.0)


@dataclass(frozen=True)
class _SparseFactory(AdditiveNoiseFactory):
    """Layer factory: the noise of the weights and the sum of a divergence in ``log_alpha``.

    Args:
        init_log_sigma2: where the log variances start. Published: -10. Small, because a network
            that starts as noise does not learn.
        log_alpha_clamp: bounds put on ``log_alpha`` *inside the KL*, published (-8, 8); beyond them
            its gradient is 0. ``None``: no bounds, none are needed for stability. The variance that
            is sampled is ``exp(log_sigma2)`` either way.
        threshold: train with the means of weights at or above this ``log_alpha`` taken as 0, as the
            authors' code does at 3: :class:`ThresholdedNoise`. The KL is that of all weights, so
            the loss is no bound any more. ``None``: every mean counts until pruning.

    Raises:
        ValueError: if ``init_log_sigma2`` is not finite, the clamp is not ``(low, high)`` or
            ``threshold`` is NaN.
    """

    init_log_sigma2: float = -10.0
    log_alpha_clamp: tuple[float, float] | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.log_alpha_clamp is not None and not (
            self.log_alpha_clamp[0] < self.log_alpha_clamp[1]
        ):
            raise ValueError(
                f"log_alpha_clamp must be None or (low, high), got {self.log_alpha_clamp}"
            )
        if self.threshold is not None and math.isnan(self.threshold):
            raise ValueError("threshold must be a number or None, got nan")

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> AdditiveNoise:
        if self.threshold is None:
            return AdditiveNoise(weight_shape, self.init_log_sigma2)
        return ThresholdedNoise(weight_shape, self.init_log_sigma2, self.threshold)

    def _kl(self, noise: AdditiveNoise, mu: Tensor) -> Tensor:
        if self.log_alpha_clamp is None and self.weight_kl in ONE_PASS:  # the same, faster
            return ONE_PASS[self.weight_kl](mu, noise.log_sigma2)
        log_alpha = log_relative_variance(mu, noise.log_sigma2)
        if self.log_alpha_clamp is not None:
            log_alpha = log_alpha.clamp(*self.log_alpha_clamp)
        return self.weight_kl(log_alpha).sum()


@typechecked
@dataclass(frozen=True)
class SparseVD(_SparseFactory):
    """Layer factory of sparse variational dropout (Molchanov, Ashukha and Vetrov, ICML 2017).

    The prior is log-uniform, ``p(|w|) ~ 1/|w|``.

    Args:
        weight_kl: the divergence of each weight as a function of ``log_alpha``: the published
            sigmoid, or :func:`~bdl_lessons.probability.loguniform_kl`, exact and slower.
    """

    weight_kl: Callable[[Tensor], Tensor] = molchanov_kl


@typechecked
@dataclass(frozen=True)
class ARD(_SparseFactory):
    """Layer factory of automatic relevance determination (Kharitonov et al. 2018).

    The prior is ``N(0, lambda2)``, each weight has its own ``lambda2`` at its optimum:
    :func:`ard_kl`.
    """

    weight_kl: ClassVar[Callable[[Tensor], Tensor]] = staticmethod(ard_kl)
