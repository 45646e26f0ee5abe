"""What the layers of all methods share, linear and convolutional.

A layer is put together from three parts, each written once:

- :class:`StochasticLayer`: the three ways to sample, common to all methods;
- :class:`Linear` or :class:`Conv2d`: what a given matrix of weights makes of the inputs;
- a family, :mod:`unit_noise` or :mod:`weight_noise`: how noise enters between the two.

A method then adds the distribution of its noise and the KL to its prior, in a
:class:`LayerFactory`. Lessons 05 to 12 build their networks from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from bdl_lessons.core.validation import one_of

Sampling = Literal["per_example", "shared", "mean"]


class StochasticLayer(nn.Module):
    """A layer with a distribution over its weights: it draws from it and has a KL to the prior.

    ``forward`` says what is drawn; ``train()`` and ``eval()`` do not matter:

    - ``"per_example"``: its own draw of the weights for every example of the batch. Training.
      (The scales of hierarchical dropout are drawn once for all of them.)
    - ``"shared"``: one draw shared by all examples. A sample of the function.
    - ``"mean"``: no draw, the mean weights. Weight scaling.

    Inputs are ``(B, K)``, or ``(S, B, K)`` with a sample axis; ``"shared"`` then makes one draw
    for each of the ``S`` (for a convolution put ``C, H, W`` in place of ``K``).

    Raises:
        ValueError: if x has another number of units or channels, or under ``"shared"`` another
            number of axes, or if ``sampling`` is unknown.
        TypeError: if something is drawn without a generator.
    """

    unit_dims: int
    """Axes of x from the units or channels on: 1 for linear layers, 3 for convolutions."""

    @property
    def is_random(self) -> bool:
        """Whether two draws can differ."""
        return True

    @property
    def alpha(self) -> Tensor:
        """``exp(log_alpha)``: variance of the noise relative to the squared mean of a weight.

        AttributeError for layers without a ``log_alpha``, such as those of binary dropout.
        """
        return self.log_alpha.exp()

    def forward(
        self, x: Tensor, sampling: Sampling, generator: torch.Generator | None = None
    ) -> Tensor:
        check_sampling(sampling, generator)
        self._check_units(x)
        if sampling == "mean" or not self.is_random:
            return self._forward_mean(x)
        if sampling == "per_example":
            return self._forward_per_example(x, generator)
        return self.forward_shared(x, generator)

    def forward_shared(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """``"shared"`` by draws of the weights: one for each index of the sample axis."""
        if x.dim() not in (self.unit_dims + 1, self.unit_dims + 2):
            raise ValueError(
                f"x must have {self.unit_dims + 1} axes, or {self.unit_dims + 2} with a sample "
                f"axis, got shape {tuple(x.shape)}: flatten the leading axes"
            )
        if x.dim() == self.unit_dims + 1:
            return self.forward_with(x[None], self.sample_weights(1, generator))[0]
        return self.forward_with(x, self.sample_weights(len(x), generator))

    def sample_weights(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """``n_samples`` draws of the layer's noise, first axis S, for :meth:`forward_with`.

        A block of layers gives a tuple of such tensors.
        """
        raise NotImplementedError

    def forward_with(self, x: Tensor, draw: Tensor) -> Tensor:
        """The layer under the draws that :meth:`sample_weights` gave, one for each sample of x.

        Args:
            x: ``(S, B, ...)``. draw: ``(S, ...)``.

        Raises:
            ValueError: if their sample axes differ or x has another number of units.
        """
        if x.dim() != self.unit_dims + 2 or len(x) != len(draw):
            raise ValueError(
                f"x must have {self.unit_dims + 2} axes, the first for the {len(draw)} draws, "
                f"got shape {tuple(x.shape)}"
            )
        self._check_units(x)
        return self._forward_with(x, draw)

    def kl(self) -> Tensor:
        """KL from the distribution of the weights to the prior: a positive sum in nats, 0-dim."""
        raise NotImplementedError

    def reset_noise(self, generator: torch.Generator) -> None:
        """Draw the start of those parameters of the noise that start at random, if it has any."""
        self.noise.reset_parameters(generator)

    def _forward_mean(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _forward_per_example(self, x: Tensor, generator: torch.Generator) -> Tensor:
        raise NotImplementedError

    def _forward_with(self, x: Tensor, draw: Tensor) -> Tensor:
        raise NotImplementedError

    def _check_units(self, x: Tensor) -> None:
        n_units, axis = self.weight.shape[1], -self.unit_dims
        found = x.shape[axis] if x.dim() >= self.unit_dims else "none"
        if found != n_units:
            raise ValueError(
                f"x must have {n_units} input {'channels' if self.unit_dims == 3 else 'units'} "
                f"on axis {axis}, got {found} in shape {tuple(x.shape)}"
            )


class Linear(nn.Linear):
    """The linear map of a layer, from ``(..., B, K)`` to ``(..., B, L)``.

    Args:
        noise: the distribution of the weights around those that ``nn.Linear`` stores.
        prior_kl: the KL to the prior, a function of the noise and the stored weights.
    """

    unit_dims = 1

    def __init__(
        self,
        in_features: int,
        out_features: int,
        noise: nn.Module,
        prior_kl: Callable[..., Tensor],
        bias: bool = True,
    ) -> None:
        super().__init__(in_features, out_features, bias)
        self.noise, self.prior_kl = noise, prior_kl

    def linear_map(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """``x W' + b`` with ``W`` ``(L, K)``, or ``(S, L, K)`` for an x of ``(S, B, K)``."""
        if weight.dim() == 2:
            return functional.linear(x, weight, bias)
        y = x @ weight.mT
        return y if bias is None else y + bias[..., None, :]


class Conv2d(nn.Conv2d):
    """The linear map of a convolution, from ``(..., B, C, H, W)`` to ``(..., B, L, H', W')``.

    Arguments as for :class:`Linear`.
    """

    unit_dims = 3

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        noise: nn.Module,
        prior_kl: Callable[..., Tensor],
        bias: bool = True,
        stride: int = 1,
        padding: int = 0,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, bias=bias)
        self.noise, self.prior_kl = noise, prior_kl

    def linear_map(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """``weight`` is ``(L, C, k, k)``, or ``(S, L, C, k, k)`` for an x of ``(S, B, ...)``."""
        if weight.dim() == 5:
            bias_dim = None if bias is None or bias.dim() == 1 else 0
            return torch.vmap(self.linear_map, (0, 0, bias_dim))(x, weight, bias)
        return plain(lambda images: self._conv_forward(images, weight, bias), x)


class LayerFactory:
    """Makes the linear and convolutional layers of one method, e.g. ``BinaryDropout(0.5)``.

    A method names its pair of ``layers``, linear and convolutional, and says in :meth:`_noise` and
    :meth:`_kl` which noise they have and what its KL to the prior is.
    """

    layers: tuple[type[StochasticLayer], type[StochasticLayer]]

    def linear(self, in_features: int, out_features: int, bias: bool = True) -> StochasticLayer:
        noise = self._noise((out_features, in_features), bias)
        return self.layers[0](in_features, out_features, noise, self._kl, bias)

    def conv2d(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        bias: bool = True,
        stride: int = 1,
        padding: int = 0,
    ) -> StochasticLayer:
        noise = self._noise((out_channels, in_channels, kernel_size, kernel_size), bias)
        sizes = (in_channels, out_channels, kernel_size)
        return self.layers[1](*sizes, noise, self._kl, bias, stride, padding)

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> nn.Module:
        """The noise of a new layer with weights ``(L, K)`` or ``(L, C, k, k)``."""
        raise NotImplementedError

    def _kl(self, noise: nn.Module, *weights: Tensor | None) -> Tensor:
        """A positive sum in nats, 0-dim; the family says which weights it is given."""
        raise NotImplementedError


def plain(module: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """A module without random weights on ``x``; images may have sample axes before their batch."""
    if x.dim() <= 4:
        return module(x)
    return module(x.flatten(0, -4)).unflatten(0, x.shape[:-3])


def check_sampling(sampling: str, generator: torch.Generator | None) -> None:
    """Raise unless ``sampling`` is known and, where something is drawn, a generator is given."""
    one_of("sampling", sampling, Sampling)
    if sampling != "mean" and not isinstance(generator, torch.Generator):
        raise TypeError(
            f"sampling={sampling!r} draws random numbers: give generator=torch.Generator(), "
            f"got {type(generator).__name__}"
        )
