r"""Variational structured dropout (VSD): Gaussian dropout whose noise is rotated.

Nguyen et al., NeurIPS 2021; lesson 10. The factors of a layer's K input units are correlated:

.. math:: \xi = 1 + U \eta, \quad \eta \sim N(0, \mathrm{diag}(\alpha)), \quad U = H_T \cdots H_1,
          \qquad \xi \sim N(1,\ U\, \mathrm{diag}(\alpha)\, U^\top).

The mean is not rotated. T = 0 is the noise of variational dropout. With T
reflections the covariance differs from a diagonal one by a matrix of rank at most 2 T, and a draw
takes O(K T). Two things to know:

- **With equal alphas U has no effect.** ``U (alpha I) U' = alpha I``: the distribution is that of
  T = 0 whatever the vectors are, and they get no gradient on average. So the alphas start apart.
- **The joint distribution stays degenerate.** All columns of W share xi, so the covariance of W
  has rank K out of K Q, for T = 0 and for T > 0. The component of W that goes with ``eta_i`` is
  ``diag(U_{:i}) Theta``; without rotation it is zero outside row i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from bdl_lessons.core.random import standard_normal
from bdl_lessons.core.validation import integer, non_negative, typechecked
from bdl_lessons.models.layers.gaussian_dropout import GaussianUnitNoise, matched_log_alpha
from bdl_lessons.models.layers.unit_noise import UnitNoiseFactory
from bdl_lessons.models.layers.variational_dropout import KLPer
from bdl_lessons.probability import (
    empirical_bayes_kl,
    loguniform_kl,
    orthogonal_matrix,
    rotated_noise,
    rotated_variance,
    total_correlation,
)

Prior = Literal["empirical_bayes", "log_uniform"]
VectorsFrom = Literal["free", "fc", "fc_lowrank"]


class StructuredUnitNoise(GaussianUnitNoise):
    """``xi ~ N(1, U diag(alpha) U')`` for one layer of K input units or channels.

    Until :meth:`reset_parameters` is called with a generator, the vectors and the alphas are drawn
    as PyTorch draws the weights of a new layer, from its global generator.

    Args:
        householder: makes the ``(T, K)`` vectors.
        n_units: K.
        init, std: mean and standard deviation of ``log_alpha`` at the start.
        bounds: ``min_log_alpha`` and ``max_log_alpha``.
    """

    def __init__(
        self, householder: nn.Module, n_units: int, init: float, std: float, **bounds: float
    ) -> None:
        super().__init__((n_units,), init, **bounds)
        self.householder, self.init, self.std = householder, init, std
        self.reset_parameters(torch.default_generator)

    @property
    def vectors(self) -> Tensor:
        """The Householder vectors, ``(T, K)``, the first reflection first."""
        return self.householder()

    def sample(self, shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
        eps = standard_normal(shape, generator, like)
        return rotated_noise(eps, (self.log_alpha / 2).exp(), self.vectors, mean=1.0)

    def cov(self) -> Tensor:
        """``U diag(alpha) U'``, ``(K, K)``: for looking at, no layer needs it."""
        U = orthogonal_matrix(self.vectors)
        return (U * self.log_alpha.exp()) @ U.T

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw ``log_alpha`` from ``N(init, std**2)`` within its bounds, then the vectors."""
        raw = self.raw_log_alpha
        start = self.init + self.std * standard_normal(raw.shape, generator, raw)
        raw.copy_(start.clamp(self.min_log_alpha, self.max_log_alpha))
        self.householder.reset_parameters(generator)


@typechecked
@dataclass(frozen=True)
class StructuredDropout(UnitNoiseFactory):
    r"""Layer factory: ``W = diag(xi) Theta`` with ``xi ~ N(1, U diag(alpha) U')``, all learned.

    A factor acts on an input unit, or on an input channel of a convolution. With
    ``n_reflections=0`` the noise is that of ``VariationalDropout("A", "unit")``.

    **Watch the size of the KL.** It counts every weight: at alpha 0.05, 0.25 and 1 that of a
    784 -> 400 layer is 8.0, 4.2 and 1.8 nats for each of 60 000 training images; guessing among
    ten classes loses 2.3. At full weight it drives the alphas to ``max_alpha`` first and trains the
    network afterwards. Bounds, ``kl_scale`` and ``kl_per`` are therefore explicit, and so is the
    weight of the whole KL in training, which may grow::

        fit(model, x, y, nll, kl_weight=lambda step: 0.1 * kl_warmup(step, 0, 1000), ...)

    What the authors used is not known. The KL does not depend on Theta: decay its weights if they
    should stay small.

    Args:
        n_reflections: T, the length of the chain; 0 and more than K are fine.
        vectors: ``"free"``: T vectors are parameters. ``"fc"``: the published chain
            ``v_t = FC_t(v_{t-1})``. ``"fc_lowrank"``: with maps of rank ``rank``.
        rank: of the maps under ``"fc_lowrank"``; a layer with fewer inputs has full maps.
        init_p_drop: the alphas start around ``init_p_drop / (1 - init_p_drop)``.
        alpha_spread: standard deviation of log alpha at the start. At 0 the alphas are equal and
            the reflections have no effect and no gradient.
        min_alpha, max_alpha: bounds on alpha; ``max_alpha=math.inf`` is no upper bound.
        prior: ``"empirical_bayes"``, as published: the best Gaussian prior of every weight. Or the
            ``"log_uniform"`` one of variational dropout, up to its constant, by the chain rule:
            the KL of every factor by itself and the factors' total correlation.
        kl_scale: on the divergence.
        kl_per: ``"weight"`` counts all Q weights of a row, as published; ``"factor"``, as in
            variational dropout, the random factor once.

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
        integer("n_reflections", self.n_reflections, least=0)
        integer("rank", self.rank, least=1)
        non_negative("alpha_spread", self.alpha_spread)
        non_negative("kl_scale", self.kl_scale)
        start = math.exp(matched_log_alpha(self.init_p_drop))
        tolerance = 1 + 1e-9
        if not 0 < self.min_alpha <= start * tolerance or not start <= self.max_alpha * tolerance:
            raise ValueError(
                f"0 < min_alpha <= p/(1-p) <= max_alpha must hold at p = init_p_drop = "
                f"{self.init_p_drop}, got {self.min_alpha} and {self.max_alpha}"
            )

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> StructuredUnitNoise:
        n_units = weight_shape[1]
        if self.vectors == "free":
            householder = FreeVectors(self.n_reflections, n_units)
        else:
            rank = self.rank if self.vectors == "fc_lowrank" else None
            householder = ChainedVectors(self.n_reflections, n_units, rank)
        return StructuredUnitNoise(
            householder,
            n_units,
            matched_log_alpha(self.init_p_drop),
            self.alpha_spread,
            min_log_alpha=math.log(self.min_alpha),
            max_log_alpha=math.log(self.max_alpha),
        )

    def _kl(self, noise: StructuredUnitNoise, theta: Tensor, bias: Tensor | None) -> Tensor:
        log_alpha = noise.log_alpha
        var = rotated_variance(log_alpha.exp(), noise.vectors)  # the diagonal of the covariance
        n_columns = theta.shape[1] if self.kl_per == "weight" else 1
        if self.prior == "empirical_bayes":
            return self.kl_scale * empirical_bayes_kl(log_alpha, var, n_columns)
        kl = loguniform_kl(var.log()).sum() + total_correlation(log_alpha, var)
        return self.kl_scale * n_columns * kl


class FreeVectors(nn.Module):
    """T Householder vectors as they are: ``T K`` parameters, entries of size one at the start.

    A reflection depends on the direction alone, so the length sets the pace: Adam turns a vector of
    half the length twice as fast.
    """

    def __init__(self, n_reflections: int, n_units: int) -> None:
        super().__init__()
        self.v = nn.Parameter(torch.empty(n_reflections, n_units))

    def forward(self) -> Tensor:
        """``(T, K)``, the first reflection first."""
        return self.v

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw every entry from N(0, 1): all directions are as likely."""
        _draw_normal(self.v, 1.0, generator)


class ChainedVectors(nn.Module):
    """Householder vectors ``v_t = FC_t(v_{t-1})`` with affine maps and a learned ``v_0``.

    As published, after the Householder flow of Tomczak and Welling (2016), where the first vector
    is computed from the input. Here nothing enters, so ``v_0`` is a parameter, and so are in effect
    all T vectors: the chain has T K^2 parameters for the distributions that T K describe, and can
    only change how they are learned.

    A map is K -> K, ``K^2 + K`` parameters, or with a ``rank`` r below K it is K -> r -> K,
    ``2 r K + K``. The slides give no activation, size of the maps or start; here there is no
    activation, and the maps start with weights of variance 1 / fan-in, which keep the length.
    """

    def __init__(self, n_reflections: int, n_units: int, rank: int | None = None) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.empty(n_units))
        self.maps = nn.ModuleList(_affine(n_units, rank) for _ in range(n_reflections))

    def forward(self) -> Tensor:
        """``(T, K)``, the first reflection first."""
        vectors = [self.start]
        for affine in self.maps:
            vectors.append(affine(vectors[-1]))
        return torch.stack(vectors)[1:]

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw ``v_0`` from N(0, I) and the weights of the maps; biases become 0."""
        _draw_normal(self.start, 1.0, generator)
        for module in self.maps.modules():
            if isinstance(module, nn.Linear):
                _draw_normal(module.weight, module.in_features**-0.5, generator)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)


def _affine(n_units: int, rank: int | None) -> nn.Module:
    if rank is None or rank >= n_units:
        return nn.Linear(n_units, n_units)
    return nn.Sequential(nn.Linear(n_units, rank, bias=False), nn.Linear(rank, n_units))


@torch.no_grad()
def _draw_normal(parameter: Tensor, std: float, generator: torch.Generator) -> None:
    parameter.copy_(std * standard_normal(parameter.shape, generator, parameter))
