r"""Variational structured dropout (VSD): Gaussian dropout whose noise is rotated, and its scales.

Both are contributions of Nguyen et al., NeurIPS 2021. In the first (lesson 10) the factors of a
layer's K input units are correlated:

.. math:: \xi = 1 + U \eta, \quad \eta \sim N(0, \mathrm{diag}(\alpha)), \quad U = H_T \cdots H_1,
          \qquad \xi \sim N(1,\ U\, \mathrm{diag}(\alpha)\, U^\top).

The mean is not rotated. T = 0 is the noise of variational dropout. With T reflections the
covariance differs from a diagonal one by a matrix of rank at most 2 T, and a draw takes O(K T). The
layer multiplies its inputs by xi: ``W = diag(xi) Theta``. Two things to know:

- **With equal alphas U has no effect.** ``U (alpha I) U' = alpha I``: the distribution is that of
  T = 0 whatever the vectors are, and they get no gradient on average. So the alphas start apart.
- **The joint distribution stays degenerate.** All columns of W share xi, so the covariance of W
  has rank K out of K Q, for T = 0 and for T > 0. The component of W that goes with ``eta_i`` is
  ``diag(U_{:i}) Theta``; without rotation it is zero outside row i.

The second (lesson 11) puts a distribution on the scale of each input unit, which all examples of a
batch share: ``p(W, z) = p(W | z) p(z)`` and ``q(W, z) = q(z) q(W | z)``.

.. math:: \hat\xi_n = z \circ \xi_n, \qquad W = \operatorname{diag}(\hat\xi_n)\, \Theta, \qquad
          p(W_{ij} \mid z) = N(0, z_i^2 / \beta_{ij}).

(They do not print ``p(W | z)``; this is the reading under which their claim about the divergence
holds.) As a *standard deviation* z scales W and its prior alike and cancels from the conditional
divergence, so ``KL = KL(q(z) || p(z)) + KL of the noise xi``. Here ``q(z)`` is log-normal with mean
one: ``log z_i ~ N(-sigma_i^2 / 2, sigma_i^2)``. A free location adds nothing: scaling z by c and
row i of Theta by 1/c leaves the distribution of W and the divergence as they are; so the location
may go where ``KL(q(z) || p(z))`` is smallest, and the scale priors below are evaluated there.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from bdl_lessons.core.random import standard_normal
from bdl_lessons.core.validation import integer, non_negative, positive, typechecked
from bdl_lessons.models.layers.base import (
    GaussianNoise,
    LayerFactory,
    UnitNoise,
    UnitNoiseFactory,
    UnitNoiseLinear,
)
from bdl_lessons.models.layers.variational_dropout import KLPer, matched_log_alpha
from bdl_lessons.probability import loguniform_kl, orthogonal_matrix, reflect, rotated_variance


@typechecked
@dataclass(frozen=True)
class StructuredDropout(UnitNoiseFactory):
    r"""Layer factory: ``W = diag(xi) Theta`` with ``xi ~ N(1, U diag(alpha) U')``, all learned.

    A factor acts on an input unit, or on an input channel of a convolution. With
    ``n_reflections=0`` the noise is that of ``VariationalDropout("A", "unit")``.

    **Watch the size of the KL.** With ``kl_per="weight"``, as published, it counts every weight: at
    alpha 0.05, 0.25 and 1 that of a 784 -> 400 layer is 8.0, 4.2 and 1.8 nats for each of 60 000
    training images; guessing among ten classes loses 2.3. It drives the alphas to ``max_alpha``
    first and trains the network afterwards. By default each random factor is counted once, which
    lesson 10 recommends; ``fit`` can weigh the KL too (``kl_warmup``). What the authors used is not
    known. The KL does not depend on Theta: decay its weights if they should stay small.

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
        kl_per: ``"factor"``, as in variational dropout, counts a random factor once; ``"weight"``
            counts all Q weights of a row, as published.

    Raises:
        TypeError, ValueError: for a setting that is unknown or out of range, or bounds that do not
            hold the alpha of ``init_p_drop``; the message names it.

    >>> layer = StructuredDropout(n_reflections=1, init_p_drop=0.5, alpha_spread=0.0).linear(3, 2)
    >>> round(layer.kl().item() / 3, 3)  # log(1 + 1 / alpha) / 2 for each factor, at alpha = 1
    0.347
    """

    n_reflections: int = 2
    vectors: Literal["free", "fc", "fc_lowrank"] = "free"
    rank: int = 8
    init_p_drop: float = 0.2
    alpha_spread: float = 0.1
    min_alpha: float = 1e-4
    max_alpha: float = 1.0
    prior: Literal["empirical_bayes", "log_uniform"] = "empirical_bayes"
    kl_scale: float = 1.0
    kl_per: KLPer = "factor"

    def __post_init__(self) -> None:
        integer("n_reflections", self.n_reflections, least=0)
        integer("rank", self.rank, least=1)
        non_negative("alpha_spread", self.alpha_spread)
        non_negative("kl_scale", self.kl_scale)
        start = math.exp(matched_log_alpha(self.init_p_drop))
        above = start * (1 + 1e-9)
        below = start * (1 - 1e-9)  # rounding puts it beside a bound
        if not (0 < self.min_alpha <= above and below <= self.max_alpha):
            rule = f"0 < min_alpha <= p/(1-p) <= max_alpha at p = init_p_drop = {self.init_p_drop}"
            raise ValueError(f"{rule} must hold, got {self.min_alpha} and {self.max_alpha}")

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> "StructuredUnitNoise":
        return StructuredUnitNoise(weight_shape[1], self)


class StructuredUnitNoise(GaussianNoise, UnitNoise):
    """``xi ~ N(1, U diag(alpha) U')`` for one layer of K input units or channels.

    The vectors and the alphas of a new layer are drawn from PyTorch's global generator, as weights
    are.

    >>> noise = StructuredDropout(n_reflections=2).linear(3, 2).noise
    >>> noise.vectors.shape, noise.cov().shape
    (torch.Size([2, 3]), torch.Size([3, 3]))
    """

    def __init__(self, n_units: int, settings: StructuredDropout) -> None:
        bounds = math.log(settings.min_alpha), math.log(settings.max_alpha)
        super().__init__((n_units,), matched_log_alpha(settings.init_p_drop), *bounds)
        self.settings = settings
        if settings.vectors == "free":
            self.householder = FreeVectors(settings.n_reflections, n_units)
        else:
            rank = settings.rank if settings.vectors == "fc_lowrank" else None
            self.householder = ChainedVectors(settings.n_reflections, n_units, rank)
        self.reset_parameters(torch.default_generator)

    @property
    def vectors(self) -> Tensor:
        """The Householder vectors, ``(T, K)``, the first reflection first."""
        return self.householder()

    def sample(self, shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
        eta = (self.log_alpha / 2).exp() * standard_normal(shape, generator, like)
        return 1 + reflect(eta, self.vectors)

    def kl(self, theta: Tensor, bias: Tensor | None) -> Tensor:
        """The KL of the columns of W to the best Gaussian prior, lesson 10's equation (8), in nats.

        :math:`\\tfrac{Q}{2} \\sum_i \\log\\big((1 + \\tilde\\alpha_i) / \\alpha_i\\big)`, Q = 1 for
        ``"factor"``; :func:`~bdl_lessons.probability.empirical_bayes_kl` has more about it.
        """
        log_alpha = self.log_alpha
        var = rotated_variance(log_alpha.exp(), self.vectors)  # the diagonal of the covariance
        if self.settings.prior == "empirical_bayes":
            kl = (var.log1p() - log_alpha).sum() / 2
        else:
            total_correlation = (var.log() - log_alpha).sum() / 2
            kl = loguniform_kl(var.log()).sum() + total_correlation
        n_columns = theta.shape[1] if self.settings.kl_per == "weight" else 1
        return self.settings.kl_scale * n_columns * kl

    def cov(self) -> Tensor:
        """``U diag(alpha) U'``, ``(K, K)``: for looking at, no layer needs it."""
        U = orthogonal_matrix(self.vectors)
        return (U * self.log_alpha.exp()) @ U.T

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw ``log_alpha`` around its start, within its bounds, then the vectors."""
        raw = self.raw_log_alpha
        start = matched_log_alpha(self.settings.init_p_drop)
        drawn = start + self.settings.alpha_spread * standard_normal(raw.shape, generator, raw)
        raw.copy_(drawn.clamp(*self.bounds))
        self.householder.reset_parameters(generator)


class FreeVectors(nn.Module):
    """T Householder vectors as they are: ``T K`` parameters, entries from N(0, 1) at the start.

    A reflection depends on the direction alone, so the length sets the pace: Adam turns a vector of
    half the length twice as fast.
    """

    def __init__(self, n_reflections: int, n_units: int) -> None:
        super().__init__()
        self.v = nn.Parameter(torch.empty(n_reflections, n_units))

    def forward(self) -> Tensor:
        return self.v

    def reset_parameters(self, generator: torch.Generator) -> None:
        _draw_normal(self.v, 1.0, generator)


class ChainedVectors(nn.Module):
    """Householder vectors ``v_t = FC_t(v_{t-1})`` with affine maps and a learned ``v_0``.

    As published, after the Householder flow of Tomczak and Welling (2016), where the first vector
    is computed from the input. Here nothing enters, so the chain has T K^2 parameters for the
    distributions that T K describe, and can only change how they are learned. A map is K -> K,
    ``K^2 + K`` parameters, or with a ``rank`` r below K it is K -> r -> K, ``2 r K + K``. The
    slides give no activation, size of the maps or start; here is no activation, ``v_0`` starts from
    N(0, I), and the maps with weights of variance 1 / fan-in, which keep the length.
    """

    def __init__(self, n_reflections: int, n_units: int, rank: int | None = None) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.empty(n_units))
        self.maps = nn.ModuleList(_affine(n_units, rank) for _ in range(n_reflections))

    def forward(self) -> Tensor:
        vectors = [self.start]
        for affine in self.maps:
            vectors.append(affine(vectors[-1]))
        return torch.stack(vectors)[1:]

    def reset_parameters(self, generator: torch.Generator) -> None:
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


@typechecked
@dataclass(frozen=True)
class LogNormalScale:
    """``p(z_i) = LogNormal(., std**2)``, ValueError unless ``std`` > 0; the location cancels.

    >>> LogNormalScale(std=1.0)(torch.zeros(3))  # the prior itself
    tensor(0.)
    """

    std: float = 1.0

    def __post_init__(self) -> None:
        positive("std", self.std)

    def __call__(self, log_sigma2: Tensor) -> Tensor:
        """``sum ½ (r - 1 - log r)`` with ``r = sigma² / std²``, nats."""
        log_ratio = log_sigma2 - 2 * math.log(self.std)
        return (log_ratio.expm1() - log_ratio).sum() / 2


@typechecked
@dataclass(frozen=True)
class GammaScale:
    """``p(z_i) = Gamma(shape, .)``, ValueError unless ``shape`` > 0; the rate cancels.

    >>> GammaScale(shape=1.0)(torch.zeros(1)).round(decimals=3)
    tensor(0.0810)
    """

    shape: float = 1.0

    def __post_init__(self) -> None:
        positive("shape", self.shape)

    def __call__(self, log_sigma2: Tensor) -> Tensor:
        """``sum a + log Gamma(a) - a log a + ½ (a sigma² - log(2 pi e sigma²))``, a = shape, nats.

        That is :func:`~bdl_lessons.probability.lognormal_gamma_kl` at ``E[z] = shape / rate``.
        """
        a = self.shape
        constant = a + math.lgamma(a) - a * math.log(a) - math.log(2 * math.pi * math.e) / 2
        return (constant + (a * log_sigma2.exp() - log_sigma2) / 2).sum()


@typechecked
@dataclass(frozen=True)
class HierarchicalDropout(UnitNoiseFactory):
    """Layer factory: the layers of ``base`` with a random scale for each input unit or channel.

    ``HierarchicalDropout(StructuredDropout())`` is hierarchical VSD (lesson 11).

    Args:
        base: factory of unit-noise layers, else TypeError, whose KL does not depend on Theta, else
            ValueError: z would not cancel.
        scale_kl: the prior of the scales: their divergence in nats, a function of ``log_sigma2``.
        init_std: standard deviation of ``log z`` at the start, > 0, else ValueError.

    >>> base = StructuredDropout()
    >>> layer = HierarchicalDropout(base, LogNormalScale(std=0.1), init_std=0.1).linear(3, 2)
    >>> extra = layer.kl() - layer.noise.base.kl(layer.weight.T, layer.bias)  # q(z) = p(z)
    >>> abs(extra.item()) < 1e-5
    True
    """

    base: LayerFactory
    scale_kl: Callable[[Tensor], Tensor] = LogNormalScale()
    init_std: float = 0.1

    def __post_init__(self) -> None:
        positive("init_std", self.init_std)
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            layer = self.base.linear(1, 1)
            if not isinstance(layer, UnitNoiseLinear):
                raise TypeError(f"base must make unit-noise layers, got {type(layer).__name__}")
            # adding 0 * weight, the gradient exists for a KL without Theta too
            kl = layer.kl() + 0 * layer.weight.sum()
        if torch.autograd.grad(kl, layer.weight)[0].any():
            raise ValueError(f"base must have a KL without Theta in it, got {self.base!r}")

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> "ScaledNoise":
        return ScaledNoise(self.base._noise(weight_shape, bias), weight_shape[1], self)


class ScaledNoise(UnitNoise):
    """``xi_hat = z ∘ xi``: the noise ``xi`` of ``base`` times a log-normal scale of mean one.

    The examples, the last but one axis of a draw, share one ``z``; every index of the axes before,
    such as the sample axis S, has its own. So ``"per_example"`` draws one z for the batch and one
    xi for each example, ``"shared"`` one of each for each function, and ``"mean"`` has
    ``E[xi_hat] = 1``.
    """

    def __init__(self, base: UnitNoise, n_units: int, settings: HierarchicalDropout) -> None:
        super().__init__()
        self.base, self.settings = base, settings
        self.log_sigma2 = nn.Parameter(torch.full((n_units,), 2 * math.log(settings.init_std)))

    @property
    def log_alpha(self) -> Tensor:
        """That of ``xi``."""
        return self.base.log_alpha

    def sample(self, shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
        eps = standard_normal((*shape[:-2], 1, shape[-1]), generator, like)
        log_z = (self.log_sigma2 / 2).exp() * eps - self.log_sigma2.exp() / 2
        return log_z.exp() * self.base.sample(shape, generator, like)

    def kl(self, theta: Tensor, bias: Tensor | None) -> Tensor:
        """``KL(q(z) || p(z))`` plus the divergence of the base noise, nats."""
        return self.settings.scale_kl(self.log_sigma2) + self.base.kl(theta, bias)

    def cov(self) -> Tensor:
        """``Cov[xi_hat]``, ``(K, K)``; the base must know its own."""
        return scaled_cov(self.base.cov(), self.log_sigma2)

    def reset_parameters(self, generator: torch.Generator) -> None:
        self.base.reset_parameters(generator)


def scaled_cov(cov: Tensor, log_sigma2: Tensor) -> Tensor:
    """``Cov[z ∘ xi]`` for ``Cov[xi] = cov``, ``(K, K)``, and means of one.

    Off the diagonal nothing changes; on it ``1 + s_i`` becomes ``exp(sigma_i²) (1 + s_i)``.

    >>> cov, log_sigma2 = torch.tensor([[1.0, 0.5], [0.5, 1.0]]), torch.full((2,), -0.36651)
    >>> scaled_cov(cov, log_sigma2).round(decimals=3)  # sigma² = log 2
    tensor([[3.0000, 0.5000],
            [0.5000, 3.0000]])
    """
    added = log_sigma2.exp().expm1() * (1 + cov.diagonal())
    return cov + added.diag()
