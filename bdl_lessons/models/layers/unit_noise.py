"""The unit-noise family: one random factor for each input unit of a layer.

``W = diag(xi) Theta`` with ``E[xi] = 1``. Multiplying row i of the weights by ``xi_i`` is the same
as multiplying input i by it, so a draw costs K numbers instead of K * L. Members of the family
(binary and Gaussian dropout, variational dropout, structured dropout) differ only in the law of
``xi`` and in the KL.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bdl_lessons.models.layers.base import Sampling, StochasticLayer, check_sampling, over_images


class UnitNoise(nn.Module):
    """The law of ``xi``: one factor for each input unit, with mean one."""

    @property
    def is_random(self) -> bool:
        """False if ``xi = 1`` with certainty."""
        return True

    def sample(self, shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
        """Draw ``xi`` of shape ``(..., K)``, independent over all axes but the last.

        The result has the device and dtype of ``like``.
        """
        raise NotImplementedError

    def reset(self, generator: torch.Generator) -> None:
        """Draw the start of those parameters of the law that start at random, if it has any."""


UnitNoiseKL = Callable[[UnitNoise, Tensor, Tensor | None], Tensor]
"""``kl(noise, theta, bias)``: a positive sum in nats. ``theta`` is ``(K, Q)``: row i has the Q
weights that ``xi_i`` multiplies."""


class _UnitNoiseLayer(StochasticLayer):
    """What the linear and the convolutional layer share."""

    _n_units: int
    noise: UnitNoise
    prior_kl: UnitNoiseKL

    @property
    def is_random(self) -> bool:
        return self.noise.is_random

    def forward(
        self, x: Tensor, sampling: Sampling, generator: torch.Generator | None = None
    ) -> Tensor:
        check_sampling(sampling, generator)
        if sampling == "mean" or not self.is_random:
            return self._map(x)
        rows = x.shape[: -self.unit_dims]
        if sampling == "shared":
            rows = torch.Size([*rows[:-1], 1])
        return self._map(x * self._noise(rows, generator))

    def sample_weights(self, n_samples: int, generator: torch.Generator) -> Tensor:
        return self._noise(torch.Size([n_samples, 1]), generator)

    def forward_with(self, x: Tensor, draw: Tensor) -> Tensor:
        return self._map(x * draw)

    def reset(self, generator: torch.Generator) -> None:
        """Let the noise draw its start values."""
        self.noise.reset(generator)

    def kl(self) -> Tensor:
        theta = self.weight.transpose(0, 1).flatten(1)
        return self.prior_kl(self.noise, theta, self.bias)

    def _noise(self, rows: torch.Size, generator: torch.Generator) -> Tensor:
        xi = self.noise.sample(torch.Size([*rows, self._n_units]), generator, self.weight)
        return xi.view(*xi.shape, *[1] * (self.unit_dims - 1))


class UnitNoiseLinear(_UnitNoiseLayer, nn.Linear):
    """``y = (x ∘ xi) Theta + b`` with ``x`` of shape ``(..., B, K)`` and ``y`` ``(..., B, L)``.

    ``weight`` is stored as ``nn.Linear`` stores it, ``(L, K)``, so ``Theta = weight.T``. The bias
    has no noise.
    """

    unit_dims = 1

    def __init__(
        self,
        in_features: int,
        out_features: int,
        noise: UnitNoise,
        prior_kl: UnitNoiseKL,
        bias: bool = True,
    ) -> None:
        super().__init__(in_features, out_features, bias)
        self.noise, self.prior_kl, self._n_units = noise, prior_kl, in_features

    def _map(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class UnitNoiseConv2d(_UnitNoiseLayer, nn.Conv2d):
    """``y = conv(x ∘ xi, Theta) + b``: one ``xi`` for each input *channel*, the same at all pixels.

    ``x`` is ``(..., B, C, H, W)``. Sharing ``xi`` over the pixels is what makes the noise a law of
    the weights: the filter that slides over the image is ``xi_c Theta_c`` everywhere. Noise that
    differs between pixels, as in ``nn.Dropout`` on a feature map, is no law of one filter.
    """

    unit_dims = 3

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        noise: UnitNoise,
        prior_kl: UnitNoiseKL,
        bias: bool = True,
        stride: int = 1,
        padding: int = 0,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, bias=bias
        )
        self.noise, self.prior_kl, self._n_units = noise, prior_kl, in_channels

    def _map(self, x: Tensor) -> Tensor:
        return over_images(lambda images: self._conv_forward(images, self.weight, self.bias), x)
