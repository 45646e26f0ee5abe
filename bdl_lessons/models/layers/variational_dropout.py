"""Variational dropout: Gaussian dropout whose noise is learned (Kingma et al., NeurIPS 2015)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from bdl_lessons.models.layers.gaussian_dropout import matched_log_alpha
from bdl_lessons.models.layers.gaussian_noise import (
    KLPer,
    LogAlpha,
    LogUniformPrior,
    MultiplicativeNoise,
    NoiseType,
    one_of,
)
from bdl_lessons.probability import loguniform_kl

AlphaPer = Literal["layer", "unit", "weight"]


@dataclass(frozen=True)
class VariationalDropout(MultiplicativeNoise):
    """Layer factory: ``alpha`` is learned under the log-uniform prior.

    The paper's "variational A2" is ``VariationalDropout("A", kl_scale=1 / 3)``.

    Args:
        noise: ``"A"`` (on units) or ``"B"`` (on weights).
        alpha_per: what has an alpha of its own: the ``"layer"``, each input ``"unit"`` (a channel
            of a convolution) or each ``"weight"`` (type B only).
        init_p_drop: alpha starts at ``init_p_drop / (1 - init_p_drop)``.
        max_alpha: bound on alpha. The paper's is 1, where its cubic ends; ``math.inf``: no bound.
        kl: elementwise divergence as a function of ``log_alpha``.
        kl_scale: on the divergence.
        kl_per: what it is summed over, see :class:`LogUniformPrior`.

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
        one_of("noise", self.noise, NoiseType)
        one_of("alpha_per", self.alpha_per, AlphaPer)
        one_of("kl_per", self.kl_per, KLPer)
        if self.noise == "A" and self.alpha_per == "weight":
            raise ValueError("alpha_per='weight' needs noise='B': type A has one factor per unit")
        if not self.max_alpha > 0:
            raise ValueError(f"max_alpha must be > 0, got {self.max_alpha}")
        if not 0 <= self.kl_scale < math.inf:
            raise ValueError(f"kl_scale must be finite and >= 0, got {self.kl_scale}")
        if matched_log_alpha(self.init_p_drop) > math.log(self.max_alpha) + 1e-9:
            raise ValueError(
                f"init_p_drop={self.init_p_drop} starts alpha at p/(1-p), "
                f"above max_alpha={self.max_alpha}"
            )

    def _log_alpha(self, weight_shape: tuple[int, ...]) -> LogAlpha:
        n_units = weight_shape[1]
        per_unit = (n_units,) if self.noise == "A" else (1, n_units, *[1] * len(weight_shape[2:]))
        shape = {"layer": (), "unit": per_unit, "weight": weight_shape}[self.alpha_per]
        start = matched_log_alpha(self.init_p_drop)
        return LogAlpha(shape, start, learned=True, max_log_alpha=math.log(self.max_alpha))

    @property
    def _prior(self) -> LogUniformPrior:
        return LogUniformPrior(self.kl, self.kl_scale, self.kl_per)
