r"""Gaussian dropout, with fixed noise and with learned noise: variational dropout. Lesson 07.

Noise with mean 1 and variance ``alpha``, that of inverted dropout at ``alpha = p_drop / keep``
(Kingma, Salimans and Welling, NeurIPS 2015, section 3):

- type **A**, on the inputs of a layer: ``b = (a ∘ xi) Theta``, ``xi_i ~ N(1, alpha)``. As a
  distribution over the weights ``W = diag(xi) Theta``: the weights that leave one input are
  correlated. With ``alpha`` fixed this is the noise of Srivastava et al. (JMLR 2014, section 10).
- type **B**, on every weight: ``w_ij ~ N(theta_ij, alpha theta_ij**2)``, independently, as in Wang
  and Manning (ICML 2013), who drew the activations a layer's dropout would give.

Under the log-uniform prior a factor ``N(1, alpha)`` has the divergence ``KL(alpha)``: K of them
under A, K * L under B. One weight has the same distribution under both.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bdl_lessons.core.random import standard_normal
from bdl_lessons.core.validation import non_negative, typechecked, valid_p_drop
from bdl_lessons.models.layers import base
from bdl_lessons.models.layers.weight_noise import WeightNoise, WeightNoiseFactory
from bdl_lessons.probability import loguniform_kl

NoiseType = Literal["A", "B"]
KLPer = Literal["factor", "weight"]


class _Multiplicative(base.LayerFactory):
    noise: NoiseType

    @property
    def layers(self) -> tuple[type[base.StochasticLayer], type[base.StochasticLayer]]:
        return (base.UnitNoiseFactory if self.noise == "A" else WeightNoiseFactory).layers


@typechecked
@dataclass(frozen=True)
class VariationalDropout(_Multiplicative):
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
            log-uniform factor times a fixed ``theta`` is a log-uniform weight. Under type A
            ``"weight"`` counts the weights, as if the L that share a factor had one each.

    Raises:
        TypeError, ValueError: for a setting that is unknown or out of range, an alpha per weight
            under type A, or an alpha that starts above ``max_alpha``.

    >>> layer = VariationalDropout("A", "unit", init_p_drop=0.5).linear(3, 2)
    >>> layer.alpha.shape, round(layer.kl().item() / 3, 3)  # KL(alpha = 1) for each of 3 factors
    (torch.Size([3]), 0.427)
    """

    noise: NoiseType = "A"
    alpha_per: Literal["layer", "unit", "weight"] = "layer"
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
            start = f"init_p_drop={self.init_p_drop} starts alpha at p/(1-p)"
            raise ValueError(f"{start}, above max_alpha={self.max_alpha}")

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> base.GaussianNoise:
        n_units = weight_shape[1]
        per_unit = (n_units,) if self.noise == "A" else (1, n_units, *[1] * len(weight_shape[2:]))
        shape = {"layer": (), "unit": per_unit, "weight": weight_shape}[self.alpha_per]
        return (GaussianUnitNoise if self.noise == "A" else GaussianWeightNoise)(shape, self)


@typechecked
@dataclass(frozen=True)
class GaussianDropout(_Multiplicative):
    """Layer factory: ``alpha = p_drop / (1 - p_drop)``, fixed. Its KL is a constant (lesson 07).

    Raises TypeError or ValueError for a ``p_drop`` outside (0, 1) or an unknown ``noise``.

    >>> round(GaussianDropout(p_drop=0.2, noise="B").linear(3, 2).alpha.item(), 4)
    0.25
    """

    p_drop: float
    noise: NoiseType = "A"

    def __post_init__(self) -> None:
        matched_log_alpha(self.p_drop)

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> base.GaussianNoise:
        learned = VariationalDropout(self.noise, init_p_drop=self.p_drop, max_alpha=math.inf)
        return learned._noise(weight_shape, bias).requires_grad_(False)


class _VariationalNoise(base.GaussianNoise):
    def __init__(self, shape: tuple[int, ...], settings: VariationalDropout) -> None:
        start = matched_log_alpha(settings.init_p_drop)
        largest = math.log(settings.max_alpha)
        super().__init__(shape, start, -math.inf, largest)
        self.settings = settings

    def _sum_of_kl(self, n_terms: int) -> Tensor:
        return self.settings.kl_scale * n_terms * self.settings.kl(self.log_alpha).mean()


class GaussianUnitNoise(_VariationalNoise, base.UnitNoise):
    """Type A: ``xi_i ~ N(1, alpha)``, or ``N(1, alpha_i)`` for ``log_alpha`` of shape ``(K,)``.

    >>> noise = GaussianDropout(p_drop=0.5, noise="A").linear(3, 2).noise
    >>> noise.sample(torch.Size([4, 3]), torch.Generator(), like=torch.ones(())).shape
    torch.Size([4, 3])
    """

    def sample(self, shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
        std = (self.log_alpha / 2).exp()
        return 1 + std * standard_normal(shape, generator, like)

    def kl(self, theta: Tensor, bias: Tensor | None) -> Tensor:
        return self._sum_of_kl(theta.numel() if self.settings.kl_per == "weight" else len(theta))


class GaussianWeightNoise(_VariationalNoise, WeightNoise):
    """Type B: ``Var[w_ij] = alpha theta_ij**2``; ``log_alpha`` broadcasts over the weights.

    >>> noise = GaussianDropout(p_drop=0.5, noise="B").linear(3, 2).noise
    >>> noise.var(torch.tensor([1.0, 2.0, 3.0])).round(decimals=4)
    tensor([1., 4., 9.])
    """

    def var(self, mu: Tensor) -> Tensor:
        return self.log_alpha.exp() * mu.square()

    def log_alpha_at(self, mu: Tensor) -> Tensor:
        return self.log_alpha

    def kl(self, mu: Tensor) -> Tensor:
        return self._sum_of_kl(mu.numel())


@typechecked
def matched_log_alpha(p_drop: float) -> float:
    """The log variance of inverted dropout, ``log(p_drop / (1 - p_drop))``.

    Raises TypeError or ValueError if ``p_drop`` is not a number in (0, 1).

    >>> round(math.exp(matched_log_alpha(0.2)), 6)
    0.25
    """
    if valid_p_drop(p_drop) == 0:
        raise ValueError("p_drop must lie in (0, 1), got 0: its alpha is 0 and has no logarithm")
    return math.log(p_drop) - math.log1p(-p_drop)
