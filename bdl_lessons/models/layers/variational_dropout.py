r"""Variational dropout: Gaussian dropout whose noise level is learned. Lesson 07.

Kingma, Salimans and Welling (NeurIPS 2015, section 3). Under the log-uniform prior a factor
``N(1, alpha)`` has the divergence ``KL(alpha)`` whatever the weight that it multiplies: K of them
under type A (:class:`VariationalDropout`, a factor for each input unit), K * L under type B
(:class:`VariationalDropoutB`, a factor for each weight). One weight has the same distribution under
both.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from bdl_lessons.core.devices import single
from bdl_lessons.core.random import standard_normal
from bdl_lessons.core.validation import bound, non_negative, one_of
from bdl_lessons.models.layers.base import (
    UnitNoise,
    WeightNoise,
    clamp_with_grad,
    matched_log_alpha,
)
from bdl_lessons.probability import loguniform_kl


class VariationalDropout(UnitNoise):
    """Type A: ``xi_i ~ N(1, alpha)`` on units, ``alpha`` learned under the log-uniform prior.

    The paper's "variational A2" has ``kl_scale=1 / 3``.

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d`` whose inputs get the noise.
        alpha_per: what has an alpha of its own: the ``"layer"`` or each input ``"unit"`` (a channel
            of a convolution).
        init_p_drop: alpha starts at ``init_p_drop / (1 - init_p_drop)``.
        max_alpha: bound on alpha. The paper's is 1, where its cubic ends; ``math.inf``: no bound.
        kl: elementwise divergence as a function of ``log_alpha``, exact or approximate.
        kl_scale: on the divergence.
        kl_per: what is counted. ``"factor"`` is the divergence of what is drawn: a log-uniform
            factor times a fixed ``theta`` is a log-uniform weight. ``"weight"`` counts the weights,
            as if the L that share a factor had one each.

    Raises:
        TypeError, ValueError: for a setting that is unknown or out of range, or an alpha that
            starts above ``max_alpha``.

    >>> layer = VariationalDropout(nn.Linear(3, 2), alpha_per="unit", init_p_drop=0.5)
    >>> layer.alpha.shape, round(layer.kl().item() / 3, 3)  # KL(alpha = 1) for each of 3 factors
    (torch.Size([3]), 0.427)
    """

    def __init__(
        self,
        inner: nn.Linear | nn.Conv2d,
        alpha_per: str = "layer",
        init_p_drop: float = 0.5,
        max_alpha: float = 1.0,
        kl: Callable[[Tensor], Tensor] = loguniform_kl,
        kl_scale: float = 1.0,
        kl_per: str = "factor",
    ) -> None:
        super().__init__(inner)
        one_of("alpha_per", alpha_per, ("layer", "unit"))
        one_of("kl_per", kl_per, ("factor", "weight"))
        shape = () if alpha_per == "layer" else (self.n_units,)
        start = start_below(max_alpha, init_p_drop)
        self.raw_log_alpha = nn.Parameter(torch.full(shape, start))
        self.max_log_alpha = math.log(max_alpha)
        self.kl_of_log_alpha = kl
        self.kl_scale = non_negative("kl_scale", kl_scale)
        self.kl_per = kl_per

    @property
    def log_alpha(self) -> Tensor:
        """Log variance of the factors, 0-dim or ``(K,)``: what is learned, within its bound."""
        return clamp_with_grad(self.raw_log_alpha, -math.inf, self.max_log_alpha)

    def draw_xi(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """``1 + sqrt(alpha) eps``, ``(..., K)``."""
        std = (self.log_alpha / 2).exp()
        return 1 + std * standard_normal(shape, generator, self.inner.weight)

    def kl(self) -> Tensor:
        """The divergences of the K factors, or of all weights, in nats: a sum, 0-dim."""
        n_terms = self.n_units if self.kl_per == "factor" else self.inner.weight.numel()
        return self.kl_scale * n_terms * self.kl_of_log_alpha(single(self.log_alpha)).mean()


class VariationalDropoutB(WeightNoise):
    """Type B: ``w_ij ~ N(theta_ij, alpha theta_ij**2)``, ``alpha`` learned, log-uniform prior.

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d`` whose weights get the noise.
        alpha_per: what has an alpha of its own: the ``"layer"``, each input ``"unit"`` (a channel
            of a convolution) or each ``"weight"``.
        init_p_drop, max_alpha, kl: as for :class:`VariationalDropout`, with its errors.

    >>> layer = VariationalDropoutB(nn.Linear(3, 2), alpha_per="weight", init_p_drop=0.5)
    >>> layer.alpha.shape, round(layer.kl().item() / 6, 3)  # KL(alpha = 1) for each of 6 weights
    (torch.Size([2, 3]), 0.427)
    """

    def __init__(
        self,
        inner: nn.Linear | nn.Conv2d,
        alpha_per: str = "layer",
        init_p_drop: float = 0.5,
        max_alpha: float = 1.0,
        kl: Callable[[Tensor], Tensor] = loguniform_kl,
    ) -> None:
        super().__init__(inner)
        one_of("alpha_per", alpha_per, ("layer", "unit", "weight"))
        weight_shape = inner.weight.shape
        per_unit = (1, self.n_units, *[1] * len(weight_shape[2:]))
        shape = {"layer": (), "unit": per_unit, "weight": weight_shape}[alpha_per]
        start = start_below(max_alpha, init_p_drop)
        self.raw_log_alpha = nn.Parameter(torch.full(shape, start))
        self.max_log_alpha = math.log(max_alpha)
        self.kl_of_log_alpha = kl

    @property
    def log_alpha(self) -> Tensor:
        """``log(var / theta**2)``, in a shape that broadcasts to that of the weights."""
        return clamp_with_grad(self.raw_log_alpha, -math.inf, self.max_log_alpha)

    def weight_var(self) -> Tensor:
        """``alpha theta**2``, in the shape of the weights."""
        return self.log_alpha.exp() * self.inner.weight.square()

    def kl(self) -> Tensor:
        """The divergences of all weights, in nats: a sum, 0-dim."""
        return self.inner.weight.numel() * self.kl_of_log_alpha(single(self.log_alpha)).mean()


def start_below(max_alpha: float, init_p_drop: float) -> float:
    """Where ``log_alpha`` starts; ValueError if that is above ``max_alpha`` or this is no bound."""
    if not bound("max_alpha", max_alpha) > 0:
        raise ValueError(f"max_alpha must be > 0, got {max_alpha}")
    start = matched_log_alpha(init_p_drop)
    if start > math.log(max_alpha) + 1e-9:
        alpha = f"init_p_drop={init_p_drop} starts alpha at p/(1-p)"
        raise ValueError(f"{alpha}, above max_alpha={max_alpha}: lower one or raise the other")
    return start
