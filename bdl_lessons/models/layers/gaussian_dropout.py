r"""Gaussian dropout: multiplicative noise with the mean and variance of inverted dropout.

Noise with mean 1 and variance ``alpha`` (Kingma, Salimans and Welling, NeurIPS 2015, section 3;
lesson 07):

- type **A**, on the inputs of a layer: ``b = (a ∘ xi) Theta``, ``xi_i ~ N(1, alpha)``. As a
  distribution over the weights ``W = diag(xi) Theta``: the weights that leave one input are
  correlated. With ``alpha`` fixed this is the noise of Srivastava et al. (JMLR 2014, section 10).
- type **B**, on every weight: ``w_ij ~ N(theta_ij, alpha theta_ij**2)``, independently, as in Wang
  and Manning (ICML 2013), who drew the activations a layer's dropout would give.

One weight has the same distribution under both. Under the log-uniform prior a random factor
``N(1, alpha)`` has the divergence ``KL(alpha)``: K of them under A, K * L under B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from bdl_lessons.core.random import standard_normal
from bdl_lessons.core.validation import typechecked, valid_p_drop
from bdl_lessons.models.layers.base import LayerFactory, StochasticLayer
from bdl_lessons.models.layers.unit_noise import UnitNoise, UnitNoiseFactory
from bdl_lessons.models.layers.weight_noise import WeightNoise, WeightNoiseFactory
from bdl_lessons.probability import loguniform_kl

NoiseType = Literal["A", "B"]


class GaussianNoise(nn.Module):
    """Noise with a ``log_alpha``: a constant or a parameter, kept between two bounds.

    The stored ``raw_log_alpha`` may leave the bounds: see :func:`clamp_with_grad`.

    Args:
        shape: of ``log_alpha``: ``()``, or one number for each unit or weight.
        init: where it starts.
        learned: whether it is trained.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        init: float,
        learned: bool = True,
        min_log_alpha: float = -math.inf,
        max_log_alpha: float = math.inf,
    ) -> None:
        super().__init__()
        self.raw_log_alpha = nn.Parameter(torch.full(shape, float(init)), requires_grad=learned)
        self.min_log_alpha, self.max_log_alpha = min_log_alpha, max_log_alpha

    @property
    def log_alpha(self) -> Tensor:
        return clamp_with_grad(self.raw_log_alpha, self.min_log_alpha, self.max_log_alpha)

    def extra_repr(self) -> str:
        return f"{tuple(self.raw_log_alpha.shape)}, learned={self.raw_log_alpha.requires_grad}"


class GaussianUnitNoise(GaussianNoise, UnitNoise):
    """Type A: ``xi_i ~ N(1, alpha)``, or ``N(1, alpha_i)`` for ``log_alpha`` of shape ``(K,)``."""

    def sample(self, shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
        std = (self.log_alpha / 2).exp()
        return torch.addcmul(std.new_ones(()), std, standard_normal(shape, generator, like))


class GaussianWeightNoise(GaussianNoise, WeightNoise):
    """Type B: ``Var[w_ij] = alpha theta_ij**2``; ``log_alpha`` broadcasts over the weights."""

    def var(self, mu: Tensor) -> Tensor:
        return self.log_alpha.exp() * mu.square()

    def log_alpha_at(self, mu: Tensor) -> Tensor:
        return self.log_alpha


class MultiplicativeNoise(LayerFactory):
    """What Gaussian and variational dropout share: they differ in how alpha is made."""

    noise: NoiseType

    @property
    def layers(self) -> tuple[type[StochasticLayer], type[StochasticLayer]]:
        return (UnitNoiseFactory if self.noise == "A" else WeightNoiseFactory).layers

    def _gaussian_noise(self, shape: tuple[int, ...], p_drop: float, **options) -> GaussianNoise:
        """Noise with a ``log_alpha`` of ``shape`` that matches ``p_drop``."""
        kind = GaussianUnitNoise if self.noise == "A" else GaussianWeightNoise
        return kind(shape, matched_log_alpha(p_drop), **options)

    def _n_factors(self, theta: Tensor) -> int:
        """One for each row of ``theta`` ``(K, Q)`` under A, one for each weight under B."""
        return len(theta) if self.noise == "A" else theta.numel()


@typechecked
@dataclass(frozen=True)
class GaussianDropout(MultiplicativeNoise):
    """Layer factory: ``alpha = p_drop / (1 - p_drop)``, fixed. Its KL is a constant (lesson 07).

    Raises:
        TypeError, ValueError: for a ``p_drop`` outside (0, 1) or an unknown ``noise``.
    """

    p_drop: float
    noise: NoiseType = "A"

    def __post_init__(self) -> None:
        matched_log_alpha(self.p_drop)

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> GaussianNoise:
        return self._gaussian_noise((), self.p_drop, learned=False)

    def _kl(self, noise: GaussianNoise, theta: Tensor, bias: Tensor | None = None) -> Tensor:
        return self._n_factors(theta) * loguniform_kl(noise.log_alpha)


@typechecked
def matched_log_alpha(p_drop: float) -> float:
    """The log variance of inverted dropout, ``log(p_drop / (1 - p_drop))``.

    Raises:
        TypeError, ValueError: if ``p_drop`` is not a number in (0, 1).
    """
    if valid_p_drop(p_drop) == 0:
        raise ValueError("p_drop must lie in (0, 1), got 0: its alpha is 0 and has no logarithm")
    return math.log(p_drop) - math.log1p(-p_drop)


def clamp_with_grad(x: Tensor, low: float, high: float) -> Tensor:
    """``x.clamp(low, high)`` whose gradient passes wherever a step would lead back inside.

    A plain clamp has gradient 0 outside, and a parameter would stay there for good.
    """
    return _ClampWithGrad.apply(x, low, high)


class _ClampWithGrad(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, low: float, high: float) -> Tensor:
        return x.clamp(low, high)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, float, float], output: Tensor) -> None:
        x, *ctx.bounds = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        outside = x - x.clamp(*ctx.bounds)
        blocked = (grad * outside).clamp(max=0).sign()  # -1 for a step further out, else 0
        return torch.addcmul(grad, grad, blocked), None, None

    @staticmethod
    def vmap(info, in_dims: tuple, x: Tensor, low: float, high: float) -> tuple[Tensor, int]:
        return clamp_with_grad(x, low, high), in_dims[0]  # a generated rule takes ten times as long
