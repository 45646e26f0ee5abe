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

import torch
from torch import Tensor, nn

from bdl_lessons.core.random import standard_normal
from bdl_lessons.models.layers.base import Conv2d, LayerFactory, Linear, StochasticLayer


class WeightNoise(nn.Module):
    """How the mean and the variance of each weight follow from the parameters, and its KL.

    >>> class Wide(WeightNoise):
    ...     def var(self, mu):
    ...         return torch.ones_like(mu)
    >>> layer = WeightNoiseLinear(3, 2, Wide())
    >>> layer.activation_moments(torch.ones(1, 3))[1]
    tensor([[3., 3.]])
    """

    def mean(self, mu: Tensor) -> Tensor:
        """The mean of each weight: ``mu``, unless a method leaves some of them out."""
        return mu

    def var(self, mu: Tensor) -> Tensor:
        """The variance of each weight, in the shape of the means ``mu``: ``(L, K, ...)``."""
        raise NotImplementedError

    def log_alpha_at(self, mu: Tensor) -> Tensor:
        """``log(var / mu**2)`` of each weight."""
        return log_relative_variance(mu, self.var(mu).log())

    def kl(self, mu: Tensor) -> Tensor:
        """KL to the prior, a sum over the weights in nats, 0-dim."""
        raise NotImplementedError

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the start of those parameters that start at random, if there are any."""


class AdditiveNoise(WeightNoise):
    """``w = mu + sigma * eps`` with a free ``log_sigma2`` for each weight.

    Args:
        shape: that of the weights, ``(L, K)`` or ``(L, C, k, k)``.
        init_log_sigma2: where every ``log_sigma2`` starts.

    >>> AdditiveNoise((2, 3), init_log_sigma2=0.0).var(torch.zeros(2, 3)).sum().item()
    6.0
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
    distribution of ``"per_example"`` without the trick, at ``B * L * K`` random numbers. The mean
    weights ``mu`` are stored as ``weight``; the bias has no noise.
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
        return scale_noise(self.noise.mean(self.mu), self.noise.var(self.mu), eps)

    def kl(self) -> Tensor:
        return self.noise.kl(self.mu)

    def _forward_mean(self, x: Tensor) -> Tensor:
        return self.linear_map(x, self.noise.mean(self.mu), self.bias)

    def _forward_per_example(self, x: Tensor, generator: torch.Generator) -> Tensor:
        mean, var = self.activation_moments(x)
        return scale_noise(mean, var, standard_normal(var.shape, generator, var))

    def _forward_with(self, x: Tensor, draw: Tensor) -> Tensor:
        return self.linear_map(x, draw, self.bias)


class WeightNoiseLinear(WeightNoiseLayer, Linear):
    """A linear layer with weight noise: ``x`` is ``(..., B, K)`` and ``y`` ``(..., B, L)``.

    Given ``x``, ``"per_example"`` has exactly the distribution of one weight draw per example.

    >>> layer, g = WeightNoiseLinear(3, 2, AdditiveNoise((2, 3), -6.0)), torch.Generator()
    >>> layer(torch.ones(5, 3), "per_example", g).shape, layer.sample_weights(7, g).shape
    (torch.Size([5, 2]), torch.Size([7, 2, 3]))
    """


class WeightNoiseConv2d(WeightNoiseLayer, Conv2d):
    """A convolution with weight noise: ``x`` is ``(..., B, C, H, W)``.

    ``"per_example"`` is an approximation here. One filter slides over the image, so activations at
    different places share its noise; the trick draws each place on its own. Mean and variance of
    every activation are right, covariances between places are set to 0. ``"shared"`` with a sample
    axis has them, see :class:`WeightNoiseLayer`.
    """


class WeightNoiseFactory(LayerFactory):
    """Layers with weight noise. A method adds its ``_noise``."""

    layers = (WeightNoiseLinear, WeightNoiseConv2d)


def log_relative_variance(mu: Tensor, log_sigma2: Tensor) -> Tensor:
    """``log_alpha = log(sigma2 / mu**2)`` of each weight, any shape (lesson 08).

    ``mu**2`` would underflow long before ``mu`` does, so the logarithm is taken of ``|mu|``, held
    at the smallest normal number: a ``mu`` of 0 gives a large, finite value and gradient 0. Raises
    ValueError if the shapes differ.

    >>> log_relative_variance(torch.tensor([-1.0, 0.1]), torch.zeros(2)).round(decimals=3)
    tensor([0.0000, 4.6050])
    """
    if mu.shape != log_sigma2.shape:
        raise ValueError(f"mu has shape {tuple(mu.shape)}, log_sigma2 {tuple(log_sigma2.shape)}")
    log_size = mu.abs().clamp_min(torch.finfo(mu.dtype).tiny).log()
    return torch.sub(log_sigma2, log_size, alpha=2)


def scale_noise(mean: Tensor, var: Tensor, eps: Tensor) -> Tensor:
    """``mean + sqrt(var) * eps``, with slope 0 where ``var`` is 0 (an example of zeros).

    The slope of the square root is infinite there. Some algorithms of convolution leave a ``var``
    that should be 0 a little below.
    """
    return mean + var.clamp_min(torch.finfo(var.dtype).tiny).sqrt() * eps
