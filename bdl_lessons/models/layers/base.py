"""What every layer with random weights offers, whatever the law of its weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor, nn

Sampling = Literal["per_example", "shared", "mean"]


class StochasticLayer(nn.Module):
    """A layer whose weights have a law: it can draw from it and knows its KL to the prior.

    ``forward`` says what is drawn; ``train()`` and ``eval()`` do not matter:

    - ``"per_example"``: a fresh draw of the weights for every row of the batch. Training.
    - ``"shared"``: one draw shared by all rows. A sample of the function.
    - ``"mean"``: no draw, the mean weights. Weight scaling.

    Inputs are ``(B, K)``, or ``(S, B, K)`` with a sample axis; ``"shared"`` then makes one draw
    for each of the ``S`` (for a convolution put ``C, H, W`` in place of ``K``).
    """

    unit_dims: int
    """Axes of x from the units or channels on: 1 for linear layers, 3 for convolutions."""

    @property
    def is_random(self) -> bool:
        """Whether two draws can differ."""
        raise NotImplementedError

    def forward(
        self, x: Tensor, sampling: Sampling, generator: torch.Generator | None = None
    ) -> Tensor:
        raise NotImplementedError

    def sample_weights(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """``n_samples`` draws of the layer's noise, first axis S, for :meth:`forward_with`.

        A block of layers gives a tuple of such tensors.
        """
        raise NotImplementedError

    def forward_with(self, x: Tensor, draw: Tensor) -> Tensor:
        """The layer with the draws that :meth:`sample_weights` gave: ``x`` is ``(S, B, ...)``."""
        raise NotImplementedError

    def forward_shared(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """``"shared"`` by draws of the weights: one for each index of the sample axis.

        Raises:
            ValueError: if x has more axes than that.
        """
        if x.dim() not in (self.unit_dims + 1, self.unit_dims + 2):
            raise ValueError(
                f"x must have {self.unit_dims + 1} axes, or {self.unit_dims + 2} with a sample "
                f"axis, got shape {tuple(x.shape)}: flatten the leading axes"
            )
        if x.dim() == self.unit_dims + 1:
            return self.forward_with(x[None], self.sample_weights(1, generator))[0]
        return self.forward_with(x, self.sample_weights(len(x), generator))

    def kl(self) -> Tensor:
        """KL from the law of the weights to the prior: a positive sum in nats, 0-dim."""
        raise NotImplementedError


def over_images(convolution: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """``convolution`` for ``x`` with any number of axes before its images: ``(..., C, H, W)``."""
    if x.dim() <= 4:
        return convolution(x)
    return convolution(x.flatten(0, -4)).unflatten(0, x.shape[:-3])


def check_sampling(sampling: str, generator: torch.Generator | None) -> None:
    """Raise unless ``sampling`` is known and, where something is drawn, a generator is given."""
    if sampling not in get_args(Sampling):
        raise ValueError(
            f"sampling must be one of {', '.join(map(repr, get_args(Sampling)))}, got {sampling!r}"
        )
    if sampling != "mean" and not isinstance(generator, torch.Generator):
        raise TypeError(
            f"sampling={sampling!r} draws random numbers: give generator=torch.Generator(), "
            f"got {type(generator).__name__}"
        )
