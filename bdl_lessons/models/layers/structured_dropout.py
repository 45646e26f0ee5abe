"""Variational structured dropout: Gaussian dropout whose noise is rotated (Nguyen et al. 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from bdl_lessons.models.layers.gaussian_dropout import matched_log_alpha
from bdl_lessons.models.layers.gaussian_noise import KLPer, LogAlpha, one_of
from bdl_lessons.models.layers.householder_vectors import VectorsFrom, householder_vectors
from bdl_lessons.models.layers.structured_noise import (
    EmpiricalBayesPrior,
    StructuredLogUniformPrior,
    StructuredUnitNoise,
)
from bdl_lessons.models.layers.unit_noise import UnitNoiseConv2d, UnitNoiseKL, UnitNoiseLinear

Prior = Literal["empirical_bayes", "log_uniform"]


@dataclass(frozen=True)
class StructuredDropout:
    r"""Layer factory: ``W = diag(xi) Theta`` with ``xi ~ N(1, U diag(alpha) U')``, all learned.

    A factor acts on an input unit, or on an input channel of a convolution. The law is
    :class:`StructuredUnitNoise`; with ``n_reflections=0`` it is that of
    ``VariationalDropout("A", "unit")``.

    **Watch the size of the KL.** It counts every weight: at alpha 0.05, 0.25 and 1 a 784 -> 400
    layer pays 8.0, 4.2 and 1.8 nats for each of 60 000 training images, more than any classifier
    has to lose. At full weight it drives the alphas to ``max_alpha`` first and trains the network
    afterwards. Bounds, ``kl_scale`` and ``kl_per`` are therefore explicit, and so is the weight of
    the whole KL in training, which may grow::

        fit(model, x, y, nll, kl_weight=lambda step: 0.1 * kl_warmup(step, 0, 1000), ...)

    What the authors used is not known. Theta pays nothing, at any size: decay its weights if that
    is wanted.

    Args:
        n_reflections: T, the length of the chain; 0 and more than K are fine.
        vectors: ``"free"``: T vectors are parameters. ``"fc"``: the published chain
            ``v_t = FC_t(v_{t-1})``. ``"fc_lowrank"``: with maps of rank ``rank``.
        rank: of the maps under ``"fc_lowrank"``; a layer with fewer inputs has full maps.
        init_p_drop: the alphas start around ``init_p_drop / (1 - init_p_drop)``.
        alpha_spread: standard deviation of log alpha at the start. At 0 the alphas are equal and
            the reflections have no effect and no gradient.
        min_alpha, max_alpha: bounds on alpha, of which ``math.inf`` is no upper one.
        prior: ``"empirical_bayes"``, as published, or the ``"log_uniform"`` one of variational
            dropout.
        kl_scale: on the divergence.
        kl_per: whether it is counted for each ``"weight"``, as published, or, as variational
            dropout does, for each random ``"factor"``.

    Raises:
        TypeError, ValueError: for a negative ``n_reflections``, a ``rank`` below 1, an unknown
            ``vectors``, ``prior`` or ``kl_per``, an ``init_p_drop`` outside (0, 1), a negative
            ``alpha_spread`` or ``kl_scale``, or bounds that do not hold the alpha of
            ``init_p_drop``.
    """

    n_reflections: int = 2
    vectors: VectorsFrom = "free"
    rank: int = 8
    init_p_drop: float = 0.2
    alpha_spread: float = 0.1
    min_alpha: float = 1e-4
    max_alpha: float = 1.0
    prior: Prior = "empirical_bayes"
    kl_scale: float = 1.0
    kl_per: KLPer = "weight"

    def __post_init__(self) -> None:
        one_of("vectors", self.vectors, VectorsFrom)
        one_of("prior", self.prior, Prior)
        one_of("kl_per", self.kl_per, KLPer)
        _at_least("n_reflections", self.n_reflections, 0)
        _at_least("rank", self.rank, 1)
        for name in ("alpha_spread", "kl_scale"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be finite and >= 0, got {getattr(self, name)}")
        start = math.exp(matched_log_alpha(self.init_p_drop))
        tolerance = 1 + 1e-9
        if not 0 < self.min_alpha <= start * tolerance or not start <= self.max_alpha * tolerance:
            raise ValueError(
                f"0 < min_alpha <= p/(1-p) <= max_alpha must hold at p = init_p_drop = "
                f"{self.init_p_drop}, got {self.min_alpha} and {self.max_alpha}"
            )

    def linear(self, in_features: int, out_features: int) -> UnitNoiseLinear:
        return UnitNoiseLinear(in_features, out_features, self._noise(in_features), self._prior)

    def conv2d(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        bias: bool = True,
        stride: int = 1,
        padding: int = 0,
    ) -> UnitNoiseConv2d:
        noise = self._noise(in_channels)
        return UnitNoiseConv2d(
            in_channels, out_channels, kernel_size, noise, self._prior, bias, stride, padding
        )

    def _noise(self, n_units: int) -> StructuredUnitNoise:
        log_alpha = LogAlpha(
            (n_units,),
            matched_log_alpha(self.init_p_drop),
            learned=True,
            max_log_alpha=math.log(self.max_alpha),
            min_log_alpha=math.log(self.min_alpha),
            spread=self.alpha_spread,
        )
        householder = householder_vectors(self.vectors, self.n_reflections, n_units, self.rank)
        return StructuredUnitNoise(log_alpha, householder)

    @property
    def _prior(self) -> UnitNoiseKL:
        prior = (
            EmpiricalBayesPrior if self.prior == "empirical_bayes" else StructuredLogUniformPrior
        )
        return prior(scale=self.kl_scale, per=self.kl_per)


def _at_least(name: str, value: int, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be >= {least}, got {value}")
