r"""Multiplicative Gaussian noise as a law of the weights, in both families.

Noise with mean 1 and variance ``alpha`` (Kingma, Salimans and Welling, NeurIPS 2015, section 3):

- type **A**, on the inputs of a layer: ``b = (a ∘ xi) Theta``, ``xi_i ~ N(1, alpha)``. As a law of
  the weights ``W = diag(xi) Theta``: the weights that leave one input rise and fall together.
- type **B**, on every weight: ``w_ij ~ N(theta_ij, alpha theta_ij**2)``, independently.

One weight has the same law under both, and the log-uniform prior charges ``KL(alpha)`` for a
random factor ``N(1, alpha)``: K of them under A, K * L under B.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from bdl_lessons.core.random import standard_normal
from bdl_lessons.models.layers.unit_noise import UnitNoise, UnitNoiseConv2d, UnitNoiseLinear
from bdl_lessons.models.layers.weight_noise import WeightNoise, WeightNoiseConv2d, WeightNoiseLinear
from bdl_lessons.probability import loguniform_kl

NoiseType = Literal["A", "B"]
KLPer = Literal["factor", "weight"]


class LogAlpha(nn.Module):
    """``log alpha``, a constant or a parameter, between ``min_log_alpha`` and ``max_log_alpha``.

    A step that leads back inside is let through, so alpha can leave a bound again. A plain clamp
    has gradient 0 outside, and alpha would stay there for good.

    ``init`` is where it starts; :meth:`reset` draws around that with standard deviation ``spread``.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        init: float,
        learned: bool,
        max_log_alpha: float = float("inf"),
        min_log_alpha: float = -float("inf"),
        spread: float = 0.0,
    ) -> None:
        super().__init__()
        self.free = nn.Parameter(torch.full(shape, float(init)), requires_grad=learned)
        self.init, self.spread = init, spread
        self.min_log_alpha, self.max_log_alpha = min_log_alpha, max_log_alpha

    def forward(self) -> Tensor:
        return _Between.apply(self.free, self.min_log_alpha, self.max_log_alpha)

    @torch.no_grad()
    def reset(self, generator: torch.Generator) -> None:
        """Draw ``N(init, spread**2)`` anew, kept between the bounds."""
        start = self.init + self.spread * standard_normal(self.free.shape, generator, self.free)
        self.free.copy_(start.clamp(self.min_log_alpha, self.max_log_alpha))

    def extra_repr(self) -> str:
        return f"{tuple(self.free.shape)}, learned={self.free.requires_grad}"


class GaussianUnitNoise(UnitNoise):
    """Type A: ``xi_i ~ N(1, alpha)``, or ``N(1, alpha_i)`` for ``log_alpha`` of shape ``(K,)``."""

    def __init__(self, log_alpha: LogAlpha) -> None:
        super().__init__()
        self.log_alpha = log_alpha

    def sample(self, shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
        std = (self.log_alpha() / 2).exp()
        return torch.addcmul(std.new_ones(()), std, standard_normal(shape, generator, like))

    def n_factors(self, theta: Tensor) -> int:
        return len(theta)


class GaussianWeightNoise(WeightNoise):
    """Type B: ``Var[w_ij] = alpha theta_ij**2``; ``log_alpha`` broadcasts over the weights."""

    def __init__(self, log_alpha: LogAlpha) -> None:
        super().__init__()
        self.log_alpha = log_alpha

    def var(self, mu: Tensor) -> Tensor:
        return self.log_alpha().exp() * mu.square()

    def n_factors(self, theta: Tensor) -> int:
        return theta.numel()


@dataclass(frozen=True)
class LogUniformPrior:
    """``scale * sum KL(alpha)`` in nats: a term for each random factor, or one for each weight.

    ``per="factor"`` is the divergence of what is drawn, for both types: a log-uniform factor times
    any fixed ``theta`` is a log-uniform weight. Under type A ``per="weight"`` instead adds up the
    marginal laws of the weights, as if the L that share a factor had one each.

    Args:
        kl: elementwise divergence as a function of ``log_alpha``, exact or approximate.
        scale: on the sum.
        per: what is counted.
    """

    kl: Callable[[Tensor], Tensor] = loguniform_kl
    scale: float = 1.0
    per: KLPer = "factor"

    def __call__(
        self,
        noise: GaussianUnitNoise | GaussianWeightNoise,
        theta: Tensor,
        bias: Tensor | None = None,
    ) -> Tensor:
        n_terms = theta.numel() if self.per == "weight" else noise.n_factors(theta)
        return self.scale * n_terms * self.kl(noise.log_alpha()).mean()


class MultiplicativeNoise:
    """What the layer factories of this family share: they differ in how alpha is made."""

    noise: NoiseType

    def linear(self, in_features: int, out_features: int) -> UnitNoiseLinear | WeightNoiseLinear:
        layer = UnitNoiseLinear if self.noise == "A" else WeightNoiseLinear
        noise = self._noise((out_features, in_features))
        return layer(in_features, out_features, noise, self._prior)

    def conv2d(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        bias: bool = True,
        stride: int = 1,
        padding: int = 0,
    ) -> UnitNoiseConv2d | WeightNoiseConv2d:
        layer = UnitNoiseConv2d if self.noise == "A" else WeightNoiseConv2d
        noise = self._noise((out_channels, in_channels, kernel_size, kernel_size))
        return layer(
            in_channels, out_channels, kernel_size, noise, self._prior, bias, stride, padding
        )

    @property
    def _prior(self) -> LogUniformPrior:
        return LogUniformPrior()

    def _log_alpha(self, weight_shape: tuple[int, ...]) -> LogAlpha:
        raise NotImplementedError

    def _noise(self, weight_shape: tuple[int, ...]) -> GaussianUnitNoise | GaussianWeightNoise:
        law = GaussianUnitNoise if self.noise == "A" else GaussianWeightNoise
        return law(self._log_alpha(weight_shape))


def one_of(name: str, value: str, choices: object) -> None:
    """Raise ValueError unless ``value`` is one of the strings of a ``Literal``."""
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {', '.join(get_args(choices))}, got {value!r}")


class _Between(torch.autograd.Function):
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
        return _Between.apply(x, low, high), in_dims[0]  # a generated rule costs ten times as much
