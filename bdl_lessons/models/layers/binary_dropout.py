"""Binary dropout as a law of the weights (Gal & Ghahramani, ICML 2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from bdl_lessons.core.autograd import inside_vmap
from bdl_lessons.core.random import dropout_noise
from bdl_lessons.core.validation import valid_p_drop
from bdl_lessons.models.layers.unit_noise import UnitNoise, UnitNoiseConv2d, UnitNoiseLinear


class BernoulliNoise(UnitNoise):
    """``xi = z / keep`` with ``z ~ Bernoulli(keep)``: inverted dropout.

    Raises:
        TypeError, ValueError: if ``p_drop`` is not a number in [0, 1).
    """

    def __init__(self, p_drop: float) -> None:
        super().__init__()
        self.p_drop = valid_p_drop(p_drop)
        self.register_buffer("keep", torch.tensor(1 - self.p_drop), persistent=False)

    @property
    def is_random(self) -> bool:
        return self.p_drop > 0

    def sample(self, shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
        if inside_vmap():  # networks side by side may have rates of their own
            uniform = torch.rand(shape, generator=generator, device=generator.device)
            return (uniform.to(like.device) < self.keep).to(like.dtype) / self.keep
        return dropout_noise(
            shape, self.p_drop, generator=generator, device=like.device, dtype=like.dtype
        )

    def extra_repr(self) -> str:
        return f"p_drop={self.p_drop:g}"


def binary_dropout_kl(
    noise: BernoulliNoise, theta: Tensor, bias: Tensor | None, length_scale: float
) -> Tensor:
    """The part of KL(q || N(0, length_scale**-2 I)) that depends on the parameters, in nats.

    Gal & Ghahramani's mixture q puts mass ``keep`` on row ``m_i`` of M and the rest on 0, which
    gives ``sum_i keep * l**2/2 * ||m_i||**2 + l**2/2 * ||b||**2`` up to a constant that is infinite
    in the limit of point masses. With inverted dropout the stored weights are ``theta = keep * M``,
    so the first sum is ``l**2 / (2 keep) * ||theta||**2``.

    Args:
        theta: ``(K, Q)``. bias: ``(L,)`` or ``None``.
        length_scale: the prior's l; a weight has prior standard deviation 1/l.
    """
    keep = noise.keep if inside_vmap() else 1 - noise.p_drop
    kl = length_scale**2 / (2 * keep) * theta.square().sum()
    return kl if bias is None else kl + length_scale**2 / 2 * bias.square().sum()


@dataclass(frozen=True)
class BinaryDropout:
    """Layer factory: dropout on the *inputs* of the layer with the prior's ``length_scale``.

    ``BinaryDropout(0.0)`` is a layer without noise under the same Gaussian prior.
    """

    p_drop: float
    length_scale: float = 1.0

    def __post_init__(self) -> None:
        valid_p_drop(self.p_drop)
        if not (self.length_scale > 0 and math.isfinite(self.length_scale)):
            raise ValueError(f"length_scale must be finite and > 0, got {self.length_scale}")

    def linear(self, in_features: int, out_features: int) -> UnitNoiseLinear:
        return UnitNoiseLinear(in_features, out_features, BernoulliNoise(self.p_drop), self._kl())

    def conv2d(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        bias: bool = True,
        stride: int = 1,
        padding: int = 0,
    ) -> UnitNoiseConv2d:
        noise, kl = BernoulliNoise(self.p_drop), self._kl()
        return UnitNoiseConv2d(
            in_channels, out_channels, kernel_size, noise, kl, bias, stride, padding
        )

    def _kl(self) -> partial:
        return partial(binary_dropout_kl, length_scale=self.length_scale)
