r"""Hierarchical dropout: unit noise whose scale is random too, and shared by all examples.

Nguyen et al. (Variational Structured Dropout, NeurIPS 2021, contribution 2; lesson 11) put a
distribution on the scale of each input unit, ``p(W, z) = p(W | z) p(z)`` and
``q(W, z) = q(z) q(W | z)``:

.. math:: \hat\xi_n = z \circ \xi_n, \qquad W = \operatorname{diag}(\hat\xi_n)\, \Theta, \qquad
          p(W_{ij} \mid z) = N(0, z_i^2 / \beta_{ij}).

(They do not print ``p(W | z)``; this is the reading under which their claim about the divergence
holds.) As a *standard deviation* z scales W and its prior alike and cancels from the conditional
divergence, so ``KL = KL(q(z) || p(z)) + KL of the noise xi``. (As a variance, ``z / beta``, it
would not.)

Here ``q(z)`` is log-normal with mean one: ``log z_i ~ N(-sigma_i^2 / 2, sigma_i^2)``. A free
location adds nothing. Scaling z by c and row i of Theta by 1/c leaves the distribution of W as it
is, and a divergence that does not depend on Theta does not change; so the location may go where
``KL(q(z) || p(z))`` is smallest, and the scale priors below are evaluated there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bdl_lessons.core.random import standard_normal
from bdl_lessons.core.validation import positive, typechecked
from bdl_lessons.models.layers.base import LayerFactory
from bdl_lessons.models.layers.unit_noise import UnitNoise, UnitNoiseFactory, UnitNoiseLinear
from bdl_lessons.probability import lognormal_gamma_kl, lognormal_kl


class ScaledNoise(UnitNoise):
    """``xi_hat = z ∘ xi``: the noise ``xi`` of ``base`` times a log-normal scale of mean one.

    The last but one axis of a draw holds the examples. They share one ``z``; every index of the
    axes before it, such as the sample axis S, has a ``z`` of its own. So ``"per_example"`` draws
    one z for the batch and one xi for each example, ``"shared"`` one of each for each function, and
    ``"mean"`` has ``E[xi_hat] = 1``.
    """

    def __init__(self, base: UnitNoise, n_units: int, init_std: float = 0.1) -> None:
        super().__init__()
        self.base = base
        self.log_sigma2 = nn.Parameter(torch.full((n_units,), 2 * math.log(init_std)))

    @property
    def log_alpha(self) -> Tensor:
        """That of ``xi``."""
        return self.base.log_alpha

    def sample(self, shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
        shared = (*shape[:-2], 1, shape[-1])
        eps = standard_normal(shared, generator, like)
        log_z = (self.log_sigma2 / 2).exp() * eps - self.log_sigma2.exp() / 2
        return log_z.exp() * self.base.sample(shape, generator, like)

    def cov(self) -> Tensor:
        """``Cov[xi_hat]``, ``(K, K)``; the base must know its own."""
        return scaled_cov(self.base.cov(), self.log_sigma2)

    def reset_parameters(self, generator: torch.Generator) -> None:
        self.base.reset_parameters(generator)


def scaled_cov(cov: Tensor, log_sigma2: Tensor) -> Tensor:
    """``Cov[z ∘ xi]`` for ``Cov[xi] = cov``, ``(K, K)``, and means of one.

    Off the diagonal nothing changes; on it ``1 + s_i`` becomes ``exp(sigma_i²) (1 + s_i)``.
    """
    own = log_sigma2.exp().expm1() * (1 + cov.diagonal())
    return cov + own.diag()


@typechecked
@dataclass(frozen=True)
class LogNormalScale:
    """``p(z_i) = LogNormal(., std**2)``; the location cancels, see the module's docstring.

    Raises:
        ValueError: if ``std`` is not positive and finite.
    """

    std: float = 1.0

    def __post_init__(self) -> None:
        positive("std", self.std)

    def __call__(self, log_sigma2: Tensor) -> Tensor:
        """``sum ½ (r - 1 - log r)`` with ``r = sigma² / std²``, nats."""
        return lognormal_kl(
            torch.zeros_like(log_sigma2), log_sigma2, prior_log_sigma2=2 * math.log(self.std)
        )


@typechecked
@dataclass(frozen=True)
class GammaScale:
    """``p(z_i) = Gamma(shape, .)``; the rate cancels with the location of q(z).

    Raises:
        TypeError, ValueError: if ``shape`` is not a positive and finite number.
    """

    shape: float = 1.0

    def __post_init__(self) -> None:
        positive("shape", self.shape)

    def __call__(self, log_sigma2: Tensor) -> Tensor:
        """``KL`` at ``E[z] = shape / rate``, nats."""
        return lognormal_gamma_kl(-log_sigma2.exp() / 2, log_sigma2, self.shape, self.shape)


@typechecked
@dataclass(frozen=True)
class HierarchicalDropout(UnitNoiseFactory):
    """Layer factory: the layers of ``base`` with a random scale for each input unit or channel.

    ``HierarchicalDropout(StructuredDropout())`` is hierarchical VSD.

    Args:
        base: factory of unit-noise layers whose KL does not depend on Theta.
        scale_kl: the prior of the scales: their divergence in nats, a function of ``log_sigma2``.
        init_std: standard deviation of ``log z`` at the start, > 0.

    Raises:
        ValueError: if ``init_std`` is not positive or the KL of ``base`` depends on Theta: then z
            does not cancel.
        TypeError: if ``base`` makes layers of another family.
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

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> ScaledNoise:
        return ScaledNoise(self.base._noise(weight_shape, bias), weight_shape[1], self.init_std)

    def _kl(self, noise: ScaledNoise, theta: Tensor, bias: Tensor | None) -> Tensor:
        """``KL(q(z) || p(z))`` plus the divergence of the base noise, nats."""
        return self.scale_kl(noise.log_sigma2) + self.base._kl(noise.base, theta, bias)
