r"""Layers that find out which of their weights matter: sparse variational dropout and ARD.

One posterior, two priors. Every weight is ``w = mu + sigma * eps`` with its own free ``mu`` and
``log_sigma2`` (the additive parametrisation). What decides is its noise relative to its size,

.. math:: \alpha = \sigma^2 / \mu^2, \qquad \log\alpha = \log\sigma^2 - 2 \log|\mu|,

and both priors make the divergence a falling function of ``log_alpha`` alone: noise is what the
prior wants. A weight that the data do not hold back drifts to a large alpha and can be removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from bdl_lessons.core.autograd import inside_vmap
from bdl_lessons.models.layers.sparse_vd_fast import ard_kl_sum, molchanov_kl_sum
from bdl_lessons.models.layers.weight_noise import AdditiveNoise, AdditiveNoiseFactory
from bdl_lessons.probability import molchanov_kl

Clamp = tuple[float, float]


def log_alpha(mu: Tensor, log_sigma2: Tensor) -> Tensor:
    """``log(sigma2 / mu**2)`` of each weight, any shape.

    ``mu**2`` would underflow long before ``mu`` does, so the logarithm is taken of ``|mu|``, held
    at the smallest normal number: a ``mu`` of 0 gives a large, finite value and gradient 0.

    Raises:
        ValueError: if the shapes differ.
    """
    if mu.shape != log_sigma2.shape:
        raise ValueError(
            f"mu has shape {tuple(mu.shape)}, log_sigma2 has {tuple(log_sigma2.shape)}; "
            "each weight needs one of each"
        )
    return log_sigma2 - 2 * mu.abs().clamp_min(torch.finfo(mu.dtype).tiny).log()


def ard_kl(log_alpha: Tensor) -> Tensor:
    r"""Divergence of each weight under the best Gaussian prior of its own, in nats.

    ``min over lambda2 of KL(N(mu, sigma2) || N(0, lambda2))`` is reached at
    ``lambda2 = mu**2 + sigma2`` and is :math:`\tfrac12\log(1 + 1/\alpha) = \tfrac12
    \mathrm{softplus}(-\log\alpha)`, without any constant (Kharitonov, Molchanov and Vetrov 2018).
    """
    return softplus(-log_alpha) / 2


class ThresholdedNoise(AdditiveNoise):
    """Weights with ``log_alpha >= cut_at`` count as having mean 0, so no data reach their ``mu``.

    Only the KL moves such a ``mu`` on, towards 0. The weight comes back if its variance falls.
    """

    def __init__(self, shape: tuple[int, ...], init_log_sigma2: float, cut_at: float) -> None:
        super().__init__(shape, init_log_sigma2)
        self.cut_at = cut_at

    def mean(self, mu: Tensor) -> Tensor:
        with torch.no_grad():
            cut = log_alpha(mu, self.log_sigma2) >= self.cut_at
        return mu.masked_fill(cut, 0.0)


@dataclass(frozen=True)
class _Relevance(AdditiveNoiseFactory):
    """Layer factory: the law of the weights and the sum of a divergence in ``log_alpha``.

    Args:
        init_log_sigma2: where the log variances start. Published: -10. Small, because a network
            that starts as noise does not learn.
        log_alpha_clamp: bounds put on ``log_alpha`` *inside the KL*, published (-8, 8); beyond them
            its gradient is 0. ``None``: no bounds, none are needed for stability. The variance that
            is sampled is ``exp(log_sigma2)`` either way.
        cut_at: train with the means of weights at or above this ``log_alpha`` taken as 0, as the
            authors' code does at 3: :class:`ThresholdedNoise`. The KL is that of the uncut weights,
            so the loss is no bound any more. ``None``: nothing is cut before pruning.

    Raises:
        ValueError: if ``init_log_sigma2`` is not finite, the clamp is not ``(low, high)`` or
            ``cut_at`` is NaN.
    """

    init_log_sigma2: float = -10.0
    log_alpha_clamp: Clamp | None = None
    cut_at: float | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.init_log_sigma2):
            raise ValueError(f"init_log_sigma2 must be finite, got {self.init_log_sigma2}")
        if self.log_alpha_clamp is not None and not (
            len(self.log_alpha_clamp) == 2 and self.log_alpha_clamp[0] < self.log_alpha_clamp[1]
        ):
            raise ValueError(
                f"log_alpha_clamp must be None or (low, high), got {self.log_alpha_clamp}"
            )
        if self.cut_at is not None and math.isnan(self.cut_at):
            raise ValueError("cut_at must be a number or None, got nan")

    def _noise(self, shape: tuple[int, ...]) -> AdditiveNoise:
        if self.cut_at is None:
            return super()._noise(shape)
        return ThresholdedNoise(shape, self.init_log_sigma2, self.cut_at)

    def _kl(self, noise: AdditiveNoise, mu: Tensor) -> Tensor:
        kl = self._sum(mu, noise.log_sigma2)
        if inside_vmap() or kl.isfinite():
            return kl
        kl = self._elementwise_sum(mu, noise.log_sigma2)
        if not kl.isfinite():
            raise ValueError("mu and log_sigma2 must be finite, and so must be their KL")
        return kl

    def _sum(self, mu: Tensor, log_sigma2: Tensor) -> Tensor:
        """:meth:`_elementwise_sum` or a faster form of it, infinite where that form fails."""
        return self._elementwise_sum(mu, log_sigma2)

    def _elementwise_sum(self, mu: Tensor, log_sigma2: Tensor) -> Tensor:
        values = log_alpha(mu, log_sigma2)
        if self.log_alpha_clamp is not None:
            values = values.clamp(*self.log_alpha_clamp)
        return self._weight_kl(values).sum()

    def _weight_kl(self, log_alpha: Tensor) -> Tensor:
        raise NotImplementedError


@dataclass(frozen=True)
class SparseVD(_Relevance):
    """Layer factory of sparse variational dropout (Molchanov, Ashukha and Vetrov, ICML 2017).

    The prior is log-uniform, ``p(|w|) ~ 1/|w|``.

    Args:
        weight_kl: the divergence of each weight as a function of ``log_alpha``: the published
            sigmoid, or :func:`~bdl_lessons.probability.loguniform_kl`, exact and slower.
    """

    weight_kl: Callable[[Tensor], Tensor] = molchanov_kl

    def _weight_kl(self, log_alpha: Tensor) -> Tensor:
        return self.weight_kl(log_alpha)

    def _sum(self, mu: Tensor, log_sigma2: Tensor) -> Tensor:
        one_pass = self.weight_kl is molchanov_kl and self.log_alpha_clamp is None
        return (molchanov_kl_sum if one_pass else self._elementwise_sum)(mu, log_sigma2)


@dataclass(frozen=True)
class ARD(_Relevance):
    """Layer factory of automatic relevance determination (Kharitonov et al. 2018).

    The prior is ``N(0, lambda2)``, each weight has its own ``lambda2`` at its optimum:
    :func:`ard_kl`.
    """

    def _weight_kl(self, log_alpha: Tensor) -> Tensor:
        return ard_kl(log_alpha)

    def _sum(self, mu: Tensor, log_sigma2: Tensor) -> Tensor:
        one_pass = self.log_alpha_clamp is None
        return (ard_kl_sum if one_pass else self._elementwise_sum)(mu, log_sigma2)
