r"""Layers whose weights and biases have one joint distribution, and are drawn as a matrix.

Row j of the matrix holds the K weights that lead to output j, then its bias: ``(L, K + 1)``, or
``(L, K)`` for a layer without bias. A convolution with C channels and filters of k x k pixels has
``K = C * k * k``. The weights need not be independent: a method says how they are correlated
(:class:`WeightPosterior`), the layers here turn that into activations.
"""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from bdl_lessons.core.random import standard_normal
from bdl_lessons.models import LayerFactory, StochasticLayer
from bdl_lessons.models.layers.base import Conv2d, Linear
from bdl_lessons.models.layers.weight_noise import scale_noise


class WeightPosterior(nn.Module):
    """The joint distribution of a layer's matrix of weights, and its KL to the prior.

    It is the layer's ``noise``. ``mu`` is the layer's own ``weight`` and ``bias`` as one matrix:
    the mean of the distribution, or what takes its place. A method adds

    - ``sample_weights(mu, n_samples, generator)``: matrices ``(S, L, K + 1)``;
    - ``per_example(mu, x, layer, generator)``: activations with a matrix of its own for every
      example, none of which is formed;
    - ``kl(mu)``: a positive sum in nats, 0-dim.

    Args:
        weight_shape: ``(L, K)`` or ``(L, C, k, k)``. bias: whether the layer has one.
    """

    def __init__(self, weight_shape: tuple[int, ...], bias: bool) -> None:
        super().__init__()
        self.has_bias = bias
        self.shape = (weight_shape[0], math.prod(weight_shape[1:]) + bias)

    def reset_parameters(self, mu: Tensor, generator: torch.Generator) -> None:
        """Draw the start values of the parameters, after the layer's weights got theirs."""

    def mean(self, mu: Tensor) -> Tensor:
        """The mean matrix, ``(L, K + 1)``."""
        return mu


class MatrixLayer(StochasticLayer):
    """What the linear and the convolutional layer share; ``draw`` gives matrices ``(S, L, K+1)``.

    With a sample axis of length B and batches of one example,
    ``layer(x[:, None], "shared", g)[:, 0]``, every example gets its own draw of the matrix: what
    ``"per_example"`` does without forming them.
    """

    noise: WeightPosterior

    @property
    def mu(self) -> Tensor:
        """``weight`` and ``bias`` as one matrix, ``(L, K + 1)``."""
        weight = self.weight.flatten(1)
        return weight if self.bias is None else torch.cat([weight, self.bias[:, None]], 1)

    def activations(self, x: Tensor, matrix: Tensor) -> Tensor:
        """What ``matrix`` makes of ``x``, linear in both (the bias is a weight on a constant 1).

        ``(N, K + 1)`` acts on all of ``x`` and gives N units or channels, not always L of them;
        ``(S, N, K + 1)`` gives each sample of ``x``, ``(S, B, ...)``, its own matrix.
        """
        weight, bias = (matrix, None) if self.bias is None else (matrix[..., :-1], matrix[..., -1])
        return self.linear_map(x, weight.unflatten(-1, self.weight.shape[1:]), bias)

    def reset_noise(self, generator: torch.Generator) -> None:
        self.noise.reset_parameters(self.mu.detach(), generator)

    def sample_weights(self, n_samples: int, generator: torch.Generator) -> Tensor:
        return self.noise.sample_weights(self.mu, n_samples, generator)

    def kl(self) -> Tensor:
        return self.noise.kl(self.mu)

    def _forward_mean(self, x: Tensor) -> Tensor:
        return self.activations(x, self.noise.mean(self.mu))

    def _forward_per_example(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return self.noise.per_example(self.mu, x, self, generator)

    def _forward_with(self, x: Tensor, draw: Tensor) -> Tensor:
        return self.activations(x, draw)


class MatrixLinear(MatrixLayer, Linear):
    """``y = x W + b`` with ``x`` of shape ``(..., B, K)`` and ``y`` ``(..., B, L)``."""


class MatrixConv2d(MatrixLayer, Conv2d):
    """``y = conv(x, W) + b`` with ``x`` of shape ``(..., B, C, H, W)``."""


class MatrixFactory(LayerFactory):
    """Layers with one joint distribution. A method says which as its ``posterior``."""

    layers = (MatrixLinear, MatrixConv2d)
    posterior: ClassVar[type[WeightPosterior]]

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> WeightPosterior:
        return self.posterior(self, weight_shape, bias)


def noisy(mean: Tensor, var: Tensor, generator: torch.Generator) -> Tensor:
    """Independent Gaussians. Where ``var`` is 0 its gradient is 0, not infinite."""
    return scale_noise(mean, var, standard_normal(mean.shape, generator, mean))
