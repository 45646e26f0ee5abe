"""The unit-noise family: one random factor for each input unit of a layer.

``W = diag(xi) Theta`` with ``E[xi] = 1``. Multiplying row i of the weights by ``xi_i`` is the same
as multiplying input i by it, so a draw takes K numbers instead of K * L. Layers of this family
(binary and Gaussian dropout, variational dropout, structured dropout) differ only in the
distribution of ``xi`` and in the KL. Lessons 01, 04, 05, 07, 10 and 11.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bdl_lessons.models.layers.base import Conv2d, LayerFactory, Linear, StochasticLayer


class UnitNoise(nn.Module):
    """The distribution of ``xi``: one factor for each input unit, with mean one."""

    @property
    def is_random(self) -> bool:
        """False if ``xi = 1`` with certainty."""
        return True

    def sample(self, shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
        """Draw ``xi`` of shape ``(..., K)``, independent over all axes but the last.

        The result has the device and dtype of ``like``.
        """
        raise NotImplementedError

    def cov(self) -> Tensor:
        """``Cov[xi]``, ``(K, K)``; TypeError if the factors are independent."""
        raise TypeError(
            "noise_cov needs structured dropout: independent factors have a diagonal covariance, "
            "with alpha or p_drop / keep on it"
        )

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the start of those parameters that start at random, if there are any."""


class UnitNoiseLayer(StochasticLayer):
    """``y = (x ∘ xi) Theta + b``. The bias has no noise.

    ``weight`` is stored as PyTorch stores it, ``(L, K)``, so ``Theta = weight.T``. The KL is
    ``prior_kl(noise, theta, bias)`` with ``theta`` of ``(K, Q)``: row i has the Q weights that
    ``xi_i`` multiplies.
    """

    noise: UnitNoise

    @property
    def is_random(self) -> bool:
        return self.noise.is_random

    @property
    def log_alpha(self) -> Tensor:
        """Log variance of the noise: 0-dim or ``(K,)``.

        It is that of the factors themselves if they are independent; in structured dropout it is
        that before the reflections, in hierarchical dropout that without the scales.
        """
        return self.noise.log_alpha

    def noise_cov(self) -> Tensor:
        """``Cov[xi]``, ``(K, K)``, of structured dropout, also with hierarchical scales.

        Raises:
            TypeError: for noise whose factors are independent: theirs is diagonal.
        """
        return self.noise.cov()

    def sample_weights(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """Draws of ``xi`` alone: ``(S, 1, K)`` or ``(S, 1, C, 1, 1)``."""
        return self._xi((n_samples, 1), generator)

    def kl(self) -> Tensor:
        return self.prior_kl(self.noise, self.weight.transpose(0, 1).flatten(1), self.bias)

    def _forward_mean(self, x: Tensor) -> Tensor:
        return self.linear_map(x, self.weight, self.bias)

    def _forward_per_example(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return self._forward_with(x, self._xi(x.shape[: -self.unit_dims], generator))

    def _forward_with(self, x: Tensor, draw: Tensor) -> Tensor:
        return self.linear_map(x * draw, self.weight, self.bias)

    def _xi(self, leading: tuple[int, ...], generator: torch.Generator) -> Tensor:
        shape = torch.Size([*leading, self.weight.shape[1]])
        xi = self.noise.sample(shape, generator, self.weight)
        return xi.view(*shape, *[1] * (self.unit_dims - 1))


class UnitNoiseLinear(UnitNoiseLayer, Linear):
    """A linear layer with unit noise: ``x`` is ``(..., B, K)`` and ``y`` ``(..., B, L)``."""


class UnitNoiseConv2d(UnitNoiseLayer, Conv2d):
    """A convolution with one ``xi`` for each input *channel*, the same at all pixels.

    ``x`` is ``(..., B, C, H, W)``. Sharing ``xi`` over the pixels is what makes the noise a
    distribution over the weights: the filter that slides over the image is ``xi_c Theta_c``
    everywhere. Noise that differs between pixels, as in ``nn.Dropout`` on a feature map, is no
    distribution over one filter.
    """


class UnitNoiseFactory(LayerFactory):
    """Layers with unit noise. A method adds its ``_noise`` and its ``_kl(noise, theta, bias)``."""

    layers = (UnitNoiseLinear, UnitNoiseConv2d)
