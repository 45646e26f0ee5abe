"""Variational dropout: Gaussian dropout whose noise is learned (Kingma et al., NeurIPS 2015).

Lesson 07.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from bdl_lessons.core.validation import non_negative, typechecked
from bdl_lessons.models.layers.gaussian_dropout import (
    GaussianNoise,
    MultiplicativeNoise,
    NoiseType,
    matched_log_alpha,
)
from bdl_lessons.probability import loguniform_kl

AlphaPer = Literal["layer", "unit", "weight"]
KLPer = Literal["factor", "weight"]


@typechecked
@dataclass(frozen=True)
class VariationalDropout(MultiplicativeNoise):
    """Layer factory: ``alpha`` is learned under the log-uniform prior (lesson 07).

    The paper's "variational A2" is ``VariationalDropout("A", kl_scale=1 / 3)``.

    Args:
        noise: ``"A"`` (on units) or ``"B"`` (on weights).
        alpha_per: what has an alpha of its own: the ``"layer"``, each input ``"unit"`` (a channel
            of a convolution) or each ``"weight"`` (type B only).
        init_p_drop: alpha starts at ``init_p_drop / (1 - init_p_drop)``.
        max_alpha: bound on alpha. The paper's is 1, where its cubic ends; ``math.inf``: no bound.
        kl: elementwise divergence as a function of ``log_alpha``, exact or approximate.
        kl_scale: on the divergence.
        kl_per: what is counted. ``"factor"`` is the divergence of what is drawn, for both types: a
            log-uniform factor times any fixed ``theta`` is a log-uniform weight. Under type A
            ``"weight"`` instead adds up the marginal distributions of the weights, as if the L
            that share a factor had one each.

    Raises:
        TypeError, ValueError: for an unknown ``noise``, ``alpha_per`` or ``kl_per``, an alpha per
            weight under type A, an ``init_p_drop`` outside (0, 1), a negative ``kl_scale``, or an
            alpha that starts above ``max_alpha``.
    """

    noise: NoiseType = "A"
    alpha_per: AlphaPer = "layer"
    init_p_drop: float = 0.5
    max_alpha: float = 1.0
    kl: Callable[[Tensor], Tensor] = loguniform_kl
    kl_scale: float = 1.0
    kl_per: KLPer = "factor"

    def __post_init__(self) -> None:
        non_negative("kl_scale", self.kl_scale)
        if self.noise == "A" and self.alpha_per == "weight":
            raise ValueError("alpha_per='weight' needs noise='B': type A has one factor per unit")
        if not self.max_alpha > 0:
            raise ValueError(f"max_alpha must be > 0, got {self.max_alpha}")
        if matched_log_alpha(self.init_p_drop) > math.log(self.max_alpha) + 1e-9:
            raise ValueError(
                f"init_p_drop={self.init_p_drop} starts alpha at p/(1-p), "
                f"above max_alpha={self.max_alpha}"
            )

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> GaussianNoise:
        n_units = weight_shape[1]
        per_unit = (n_units,) if self.noise == "A" else (1, n_units, *[1] * len(weight_shape[2:]))
        shape = {"layer": (), "unit": per_unit, "weight": weight_shape}[self.alpha_per]
        return self._gaussian_noise(shape, self.init_p_drop, max_log_alpha=math.log(self.max_alpha))

    def _kl(self, noise: GaussianNoise, theta: Tensor, bias: Tensor | None = None) -> Tensor:
        n_terms = theta.numel() if self.kl_per == "weight" else self._n_factors(theta)
        return self.kl_scale * n_terms * self.kl(noise.log_alpha).mean()
