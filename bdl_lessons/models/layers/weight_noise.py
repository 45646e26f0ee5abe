r"""The weight-noise family: every weight of a layer has its own independent Gaussian.

.. math:: w_{ij} \sim \mathcal N(\mu_{ij}, \sigma_{ij}^2)

For a row ``a`` of inputs the activation ``b = a W`` is then Gaussian too, and independent over the
output units:

.. math:: b_j \sim \mathcal N(\gamma_j, \delta_j), \qquad \gamma_j = \sum_i a_i \mu_{ij}, \qquad
          \delta_j = \sum_i a_i^2 \sigma_{ij}^2

Drawing ``b`` instead of ``W`` is the local reparameterization trick (Kingma, Salimans and Welling,
NeurIPS 2015, section 2.3): a fresh draw for every row at the price of two matrix products. Members
of the family differ only in how the variance is parametrised and in the KL.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bdl_lessons.core.autograd import known_slope
from bdl_lessons.core.random import standard_normal
from bdl_lessons.models.layers.base import Sampling, StochasticLayer, check_sampling, over_images


class WeightNoise(nn.Module):
    """How the mean and the variance of each weight follow from the parameters."""

    def mean(self, mu: Tensor) -> Tensor:
        """The mean of each weight: ``mu``, unless a law leaves some of them out."""
        return mu

    def var(self, mu: Tensor) -> Tensor:
        """The variance of each weight, in the shape of the means ``mu``: ``(L, K, ...)``."""
        raise NotImplementedError


class AdditiveNoise(WeightNoise):
    """``w = mu + sigma * eps`` with a free ``log_sigma2`` for each weight.

    Args:
        shape: that of the weights, ``(L, K)`` or ``(L, C, k, k)``.
        init_log_sigma2: where every ``log_sigma2`` starts.
    """

    def __init__(self, shape: tuple[int, ...], init_log_sigma2: float) -> None:
        super().__init__()
        self.log_sigma2 = nn.Parameter(torch.full(shape, float(init_log_sigma2)))

    def var(self, mu: Tensor) -> Tensor:
        return self.log_sigma2.exp()


WeightNoiseKL = Callable[[WeightNoise, Tensor], Tensor]
"""``kl(noise, mu)``: a positive sum in nats over the weights, which have means ``mu``."""


class WeightNoiseLayer(StochasticLayer):
    """What the linear and the convolutional layer share.

    ``"per_example"`` is the local reparameterization trick; ``"shared"`` draws the weights. With a
    sample axis of length B and batches of one row, ``layer(x[:, None], "shared", g)[:, 0]``,
    every row gets its own draw of the weights: the law of ``"per_example"`` without the trick, at
    ``B * L * K`` random numbers.

    The mean weights are stored as ``weight``, as in the plain layer, and are also called ``mu``.
    The bias is a plain parameter without noise.
    """

    noise: WeightNoise
    prior_kl: WeightNoiseKL

    @property
    def is_random(self) -> bool:
        return True

    @property
    def mu(self) -> nn.Parameter:
        return self.weight

    def forward(
        self, x: Tensor, sampling: Sampling, generator: torch.Generator | None = None
    ) -> Tensor:
        check_sampling(sampling, generator)
        if sampling == "mean":
            return self._map(x, self.noise.mean(self.mu), self.bias)
        if sampling == "per_example":
            mean, var = self.activation_moments(x)
            return mean + _noise(var, standard_normal(var.shape, generator, var))
        return self.forward_shared(x, generator)

    def activation_moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean gamma and variance delta of each activation, given the inputs: ``(..., B, L)``."""
        mean = self._map(x, self.noise.mean(self.mu), self.bias)
        return mean, self._map(x.square(), self.noise.var(self.mu), None)

    def sample_weights(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """``n_samples`` draws of the weights themselves: ``(S, L, K)`` or ``(S, L, C, k, k)``."""
        eps = standard_normal((n_samples, *self.mu.shape), generator, self.mu)
        return self.noise.mean(self.mu) + _noise(self.noise.var(self.mu).expand_as(eps), eps)

    def kl(self) -> Tensor:
        return self.prior_kl(self.noise, self.mu)

    def _map(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        raise NotImplementedError


class WeightNoiseLinear(WeightNoiseLayer, nn.Linear):
    """``y = x W + b`` with ``x`` of shape ``(..., B, K)`` and ``y`` ``(..., B, L)``.

    Given ``x``, ``"per_example"`` has exactly the law of one weight draw per row.
    """

    unit_dims = 1

    def __init__(
        self,
        in_features: int,
        out_features: int,
        noise: WeightNoise,
        prior_kl: WeightNoiseKL,
        bias: bool = True,
    ) -> None:
        super().__init__(in_features, out_features, bias)
        self.noise, self.prior_kl = noise, prior_kl

    def forward_with(self, x: Tensor, draw: Tensor) -> Tensor:
        y = x @ draw.mT
        return y if self.bias is None else y + self.bias

    def _map(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return linear(x, weight, bias)


class WeightNoiseConv2d(WeightNoiseLayer, nn.Conv2d):
    """``y = conv(x, W) + b`` with ``x`` of shape ``(..., B, C, H, W)``.

    ``"per_example"`` is an approximation here. One filter slides over the image, so activations at
    different places share its noise and are correlated; the trick draws each place on its own.
    Mean and variance of every activation are right, covariances between places are not (they are
    set to 0). ``"shared"`` with a sample axis has them, see :class:`WeightNoiseLayer`.
    """

    unit_dims = 3

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        noise: WeightNoise,
        prior_kl: WeightNoiseKL,
        bias: bool = True,
        stride: int = 1,
        padding: int = 0,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, bias=bias
        )
        self.noise, self.prior_kl = noise, prior_kl

    def forward_with(self, x: Tensor, draw: Tensor) -> Tensor:
        return torch.vmap(lambda images, w: self._conv_forward(images, w, self.bias))(x, draw)

    def _map(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return over_images(lambda images: self._conv_forward(images, weight, bias), x)


class AdditiveNoiseFactory:
    """Layers with :class:`AdditiveNoise`. A method adds ``init_log_sigma2`` and its ``_kl``."""

    init_log_sigma2: float

    def linear(self, in_features: int, out_features: int) -> WeightNoiseLinear:
        noise = self._noise((out_features, in_features))
        return WeightNoiseLinear(in_features, out_features, noise, self._kl)

    def conv2d(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        bias: bool = True,
        stride: int = 1,
        padding: int = 0,
    ) -> WeightNoiseConv2d:
        noise = self._noise((out_channels, in_channels, kernel_size, kernel_size))
        return WeightNoiseConv2d(
            in_channels, out_channels, kernel_size, noise, self._kl, bias, stride, padding
        )

    def _noise(self, shape: tuple[int, ...]) -> AdditiveNoise:
        return AdditiveNoise(shape, self.init_log_sigma2)

    def _kl(self, noise: AdditiveNoise, mu: Tensor) -> Tensor:
        raise NotImplementedError


def _noise(var: Tensor, eps: Tensor) -> Tensor:
    """``sqrt(var) * eps``, with slope 0 where ``var`` is 0 (a row of zeros) instead of infinite.

    Some algorithms of convolution leave a ``var`` that should be 0 a little below.
    """
    with torch.no_grad():
        noise = var.clamp_min(0).sqrt_() * eps
        slope = noise / (2 * var.clamp_min(torch.finfo(var.dtype).tiny))
    return known_slope(noise, (var, slope))
