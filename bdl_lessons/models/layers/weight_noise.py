r"""The weight-noise family: every weight of a layer has its own independent Gaussian.

.. math:: w_{ij} \sim \mathcal N(\mu_{ij}, \sigma_{ij}^2)

For an example ``a`` the activation ``b = a W`` is then Gaussian too, and independent over the
output units:

.. math:: b_j \sim \mathcal N(\gamma_j, \delta_j), \qquad \gamma_j = \sum_i a_i \mu_{ij}, \qquad
          \delta_j = \sum_i a_i^2 \sigma_{ij}^2

Drawing ``b`` instead of ``W`` is the local reparameterization trick (Kingma, Salimans and Welling,
NeurIPS 2015, section 2.3; lesson 06): a draw of its own for every example, by two matrix products.
Layers of this family differ only in how the variance is parametrised and in the KL.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from bdl_lessons.core.autograd import known_slope
from bdl_lessons.core.random import standard_normal
from bdl_lessons.core.validation import same_shape
from bdl_lessons.models.layers.base import Conv2d, LayerFactory, Linear, StochasticLayer


class WeightNoise(nn.Module):
    """How the mean and the variance of each weight follow from the parameters."""

    def mean(self, mu: Tensor) -> Tensor:
        """The mean of each weight: ``mu``, unless a method leaves some of them out."""
        return mu

    def var(self, mu: Tensor) -> Tensor:
        """The variance of each weight, in the shape of the means ``mu``: ``(L, K, ...)``."""
        raise NotImplementedError

    def log_alpha_at(self, mu: Tensor) -> Tensor:
        """``log(var / mu**2)`` of each weight."""
        return log_relative_variance(mu, self.var(mu).log())

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the start of those parameters that start at random, if there are any."""


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

    def log_alpha_at(self, mu: Tensor) -> Tensor:
        return log_relative_variance(mu, self.log_sigma2)


class WeightNoiseLayer(StochasticLayer):
    """``y = x W + b``; ``"per_example"`` is the local reparameterization trick.

    ``"shared"`` draws the weights. With a sample axis of length B and batches of one example,
    ``layer(x[:, None], "shared", g)[:, 0]``, every example gets its own draw of the weights: the
    distribution of ``"per_example"`` without the trick, at ``B * L * K`` random numbers.

    The mean weights are stored as ``weight``, as in the plain layer, and are also called ``mu``.
    The bias is a plain parameter without noise. The KL is ``prior_kl(noise, mu)``.
    """

    noise: WeightNoise

    @property
    def mu(self) -> nn.Parameter:
        return self.weight

    @property
    def log_alpha(self) -> Tensor:
        """``log(var / mu**2)`` of the weights, in their shape or one that broadcasts to it."""
        return self.noise.log_alpha_at(self.mu)

    def activation_moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean gamma and variance delta of each activation, given the inputs: ``(..., B, L)``."""
        return self._forward_mean(x), self.linear_map(x.square(), self.noise.var(self.mu), None)

    def sample_weights(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """``n_samples`` draws of the weights themselves: ``(S, L, K)`` or ``(S, L, C, k, k)``."""
        eps = standard_normal((n_samples, *self.mu.shape), generator, self.mu)
        return self.noise.mean(self.mu) + std_times(eps, self.noise.var(self.mu).expand_as(eps))

    def kl(self) -> Tensor:
        return self.prior_kl(self.noise, self.mu)

    def _forward_mean(self, x: Tensor) -> Tensor:
        return self.linear_map(x, self.noise.mean(self.mu), self.bias)

    def _forward_per_example(self, x: Tensor, generator: torch.Generator) -> Tensor:
        mean, var = self.activation_moments(x)
        return mean + std_times(standard_normal(var.shape, generator, var), var)

    def _forward_with(self, x: Tensor, draw: Tensor) -> Tensor:
        return self.linear_map(x, draw, self.bias)


class WeightNoiseLinear(WeightNoiseLayer, Linear):
    """A linear layer with weight noise: ``x`` is ``(..., B, K)`` and ``y`` ``(..., B, L)``.

    Given ``x``, ``"per_example"`` has exactly the distribution of one weight draw per example.
    """


class WeightNoiseConv2d(WeightNoiseLayer, Conv2d):
    """A convolution with weight noise: ``x`` is ``(..., B, C, H, W)``.

    ``"per_example"`` is an approximation here. One filter slides over the image, so activations at
    different places share its noise and are correlated; the trick draws each place on its own.
    Mean and variance of every activation are right, covariances between places are not (they are
    set to 0). ``"shared"`` with a sample axis has them, see :class:`WeightNoiseLayer`.
    """


class WeightNoiseFactory(LayerFactory):
    """Layers with weight noise. A method adds its ``_noise`` and its ``_kl(noise, mu)``."""

    layers = (WeightNoiseLinear, WeightNoiseConv2d)


class AdditiveNoiseFactory(WeightNoiseFactory):
    """Layers with :class:`AdditiveNoise`. A method adds ``init_log_sigma2`` and its ``_kl``."""

    init_log_sigma2: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.init_log_sigma2):
            raise ValueError(f"init_log_sigma2 must be finite, got {self.init_log_sigma2}")

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> AdditiveNoise:
        return AdditiveNoise(weight_shape, self.init_log_sigma2)


def log_relative_variance(mu: Tensor, log_sigma2: Tensor) -> Tensor:
    """``log_alpha = log(sigma2 / mu**2)`` of each weight, any shape (lesson 08).

    ``mu**2`` would underflow long before ``mu`` does, so the logarithm is taken of ``|mu|``, held
    at the smallest normal number: a ``mu`` of 0 gives a large, finite value and gradient 0.

    Raises:
        ValueError: if the shapes differ.
    """
    same_shape("mu", mu, "log_sigma2", log_sigma2)
    return log_sigma2 - 2 * mu.abs().clamp_min(torch.finfo(mu.dtype).tiny).log()


def std_times(eps: Tensor, var: Tensor) -> Tensor:
    """``sqrt(var) * eps``, with slope 0 where ``var`` is 0 (an example of zeros), not infinite.

    Some algorithms of convolution leave a ``var`` that should be 0 a little below.
    """
    with torch.no_grad():
        noise = var.clamp_min(0).sqrt_() * eps
        slope = noise / (2 * var.clamp_min(torch.finfo(var.dtype).tiny))
    return known_slope(noise, (var, slope))
