r"""Layers whose weights and biases have one joint law, and are drawn together as a matrix.

Row j of the matrix holds the K weights that lead to output j, then its bias: ``(L, K + 1)``, or
``(L, K)`` for a layer without bias. A convolution with C channels and filters of k x k pixels has
``K = C * k * k``. The weights need not be independent: a method says how they move together
(:class:`WeightPosterior`), the layers here turn that into activations.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from bdl_lessons.core.random import standard_normal
from bdl_lessons.models import Sampling, StochasticLayer
from bdl_lessons.models.layers.base import check_sampling, over_images


class WeightPosterior(nn.Module):
    """The joint law of a layer's matrix of weights, and its KL to the prior.

    ``mu`` is the layer's own ``weight`` and ``bias`` as one matrix: the mean of the law, or what
    takes its place. The parameters of the law beside it are this module's.
    """

    def reset(self, mu: Tensor, generator: torch.Generator) -> None:
        """Draw the start values of the law's parameters, after the layer's weights got theirs."""

    def mean(self, mu: Tensor) -> Tensor:
        """The mean matrix, ``(L, K + 1)``."""
        return mu

    def sample_weights(self, mu: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
        """``n_samples`` matrices, ``(S, L, K + 1)``."""
        raise NotImplementedError

    def example(
        self, mu: Tensor, x: Tensor, layer: JointLayer, generator: torch.Generator
    ) -> Tensor:
        """Activations with a matrix of its own for every row of ``x``, none of which is formed."""
        raise NotImplementedError

    def kl(self, mu: Tensor) -> Tensor:
        """A positive sum in nats, 0-dim."""
        raise NotImplementedError


class JointLayer(StochasticLayer):
    """What the linear and the convolutional layer share; ``draw`` gives matrices ``(S, L, K+1)``.

    With a sample axis of length B and batches of one row, ``layer(x[:, None], "shared", g)[:, 0]``,
    every row gets its own draw of the matrix: what ``"per_example"`` does without forming them.
    """

    law: WeightPosterior

    @property
    def is_random(self) -> bool:
        return True

    @property
    def mu(self) -> Tensor:
        """``weight`` and ``bias`` as one matrix, ``(L, K + 1)``."""
        weight = self.weight.flatten(1)
        return weight if self.bias is None else torch.cat([weight, self.bias[:, None]], 1)

    def reset(self, generator: torch.Generator) -> None:
        self.law.reset(self.mu.detach(), generator)

    def forward(
        self, x: Tensor, sampling: Sampling, generator: torch.Generator | None = None
    ) -> Tensor:
        check_sampling(sampling, generator)
        if sampling == "mean":
            return self.activations(x, self.law.mean(self.mu))
        if sampling == "per_example":
            return self.law.example(self.mu, x, self, generator)
        return self.forward_shared(x, generator)

    def sample_weights(self, n_samples: int, generator: torch.Generator) -> Tensor:
        return self.law.sample_weights(self.mu, n_samples, generator)

    def forward_with(self, x: Tensor, draw: Tensor) -> Tensor:
        return self.activations(x, draw)

    def kl(self) -> Tensor:
        return self.law.kl(self.mu)

    def activations(self, x: Tensor, matrix: Tensor) -> Tensor:
        """What ``matrix`` makes of ``x``, linear in both (the bias is a weight on a constant 1).

        ``(N, K + 1)`` acts on all rows of ``x`` and gives N units or channels, not always L of
        them; ``(S, N, K + 1)`` gives each sample of ``x``, ``(S, B, ...)``, its own matrix.
        """
        raise NotImplementedError

    def _split(self, matrix: Tensor) -> tuple[Tensor, Tensor | None]:
        if self.bias is None:
            return matrix, None
        return matrix[..., :-1], matrix[..., -1]


class JointLinear(JointLayer, nn.Linear):
    """``y = x W + b`` with ``x`` of shape ``(..., B, K)`` and ``y`` ``(..., B, L)``."""

    unit_dims = 1

    def __init__(
        self, in_features: int, out_features: int, law: WeightPosterior, bias: bool = True
    ) -> None:
        super().__init__(in_features, out_features, bias)
        self.law = law

    def activations(self, x: Tensor, matrix: Tensor) -> Tensor:
        weight, bias = self._split(matrix)
        if matrix.dim() == 2:
            return functional.linear(x, weight, bias)
        y = x @ weight.mT
        return y if bias is None else y + bias[:, None]


class JointConv2d(JointLayer, nn.Conv2d):
    """``y = conv(x, W) + b`` with ``x`` of shape ``(..., B, C, H, W)``."""

    unit_dims = 3

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        law: WeightPosterior,
        bias: bool = True,
        stride: int = 1,
        padding: int = 0,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, bias=bias
        )
        self.law = law

    def activations(self, x: Tensor, matrix: Tensor) -> Tensor:
        if matrix.dim() == 3:
            return torch.vmap(self.activations)(x, matrix)
        weight, bias = self._split(matrix)
        weight = weight.unflatten(-1, self.weight.shape[1:])
        return over_images(
            lambda images: functional.conv2d(images, weight, bias, self.stride, self.padding), x
        )


class JointFactory:
    """Layers with one joint law. A method says in ``_law`` which."""

    def linear(self, in_features: int, out_features: int, bias: bool = True) -> JointLinear:
        law = self._posterior(out_features, in_features, 1, bias)
        return JointLinear(in_features, out_features, law, bias)

    def conv2d(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        bias: bool = True,
        stride: int = 1,
        padding: int = 0,
    ) -> JointConv2d:
        law = self._posterior(out_channels, in_channels, kernel_size**2, bias)
        return JointConv2d(in_channels, out_channels, kernel_size, law, bias, stride, padding)

    def _posterior(self, n_out: int, n_in: int, n_pixels: int, bias: bool) -> WeightPosterior:
        """For ``n_out`` outputs and ``n_in`` input units or channels with ``n_pixels`` each."""
        raise NotImplementedError


def noisy(mean: Tensor, var: Tensor, generator: torch.Generator) -> Tensor:
    """Independent Gaussians. Where ``var`` is 0 its gradient is 0, not infinite."""
    std = var.clamp_min(torch.finfo(var.dtype).tiny).sqrt()
    return mean + std * standard_normal(mean.shape, generator, mean)
