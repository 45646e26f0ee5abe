"""Networks built from a layer factory: the same architecture under any law of the weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from bdl_lessons.layers.stochastic import Sampling, StochasticLayer, check_sampling


class LayerFactory(Protocol):
    """Makes the linear and convolutional layers of one method, e.g. ``BinaryDropout(0.5)``."""

    def linear(self, in_features: int, out_features: int) -> nn.Module: ...

    def conv2d(self, in_channels: int, out_channels: int, kernel_size: int) -> nn.Module: ...


class Network(nn.Sequential):
    """Modules in sequence, some of them stochastic.

    ``network(x, sampling, generator)`` hands ``sampling`` and ``generator`` to the stochastic
    layers; see :class:`~bdl_lessons.layers.StochasticLayer` for the three modes.
    """

    def forward(
        self, x: Tensor, sampling: Sampling, generator: torch.Generator | None = None
    ) -> Tensor:
        check_sampling(sampling, generator)
        for module in self:
            stochastic = isinstance(module, StochasticLayer)
            x = module(x, sampling, generator) if stochastic else module(x)
        return x

    def kl(self) -> Tensor:
        """Sum of the layers' KL terms in nats (0-dim)."""
        layers = [module for module in self if isinstance(module, StochasticLayer)]
        return sum((layer.kl() for layer in layers), start=torch.zeros(()))


def mlp(
    widths: Sequence[int],
    layers: LayerFactory | Sequence[LayerFactory],
    activation: Callable[[], nn.Module] = nn.ReLU,
) -> Network:
    """A fully connected network ``(B, widths[0]) -> (B, widths[-1])``.

    Args:
        widths: input, hidden and output widths, e.g. ``(784, 1024, 1024, 10)``.
        layers: one factory for all ``len(widths) - 1`` layers, or one for each. Unit noise acts on
            a layer's *inputs*, so the first factory decides about noise on the data.
        activation: between the layers, not after the last.

    Raises:
        ValueError: if there are fewer than two widths, or not one factory per layer.
    """
    if len(widths) < 2:
        raise ValueError(f"widths needs an input and an output width, got {tuple(widths)}")
    factories = _one_each(layers, len(widths) - 1)
    modules: list[nn.Module] = []
    for factory, n_in, n_out in zip(factories, widths[:-1], widths[1:], strict=True):
        modules += [factory.linear(n_in, n_out), activation()]
    return Network(*modules[:-1])


def lenet5(layers: LayerFactory | Sequence[LayerFactory], n_classes: int = 10) -> Network:
    """Caffe's LeNet as Gal & Ghahramani use it: ``(B, 1, 28, 28) -> (B, n_classes)`` logits.

    conv 20@5x5, pool 2, conv 50@5x5, pool 2, linear 500, ReLU, linear. There is no nonlinearity
    after the convolutions but the pooling. Published: dropout 0.5 before the last layer only,
    i.e. ``layers = [plain, plain, plain, BinaryDropout(0.5)]``.

    Raises:
        ValueError: if ``layers`` is neither one factory nor four.
    """
    conv1, conv2, dense1, dense2 = _one_each(layers, 4)
    return Network(
        conv1.conv2d(1, 20, 5),
        nn.MaxPool2d(2),
        conv2.conv2d(20, 50, 5),
        nn.MaxPool2d(2),
        nn.Flatten(),
        dense1.linear(50 * 4 * 4, 500),
        nn.ReLU(),
        dense2.linear(500, n_classes),
    )


def initialise(network: Network, generator: torch.Generator, weight_var: float = 2.0) -> Network:
    """Draw fresh weights from ``generator``: uniform, mean 0, variance ``weight_var / fan_in``.

    ``weight_var = 2`` keeps the scale of ReLU activations from layer to layer (He et al. 2015), 1
    that of tanh, and is the ``U(-sqrt(3/fan_in), sqrt(3/fan_in))`` of Gal & Ghahramani. Biases
    become 0. A layer with more to draw has a method ``reset(generator)``, called after its weights
    are there. Returns ``network``.
    """
    for module in network:
        if isinstance(module, nn.Linear | nn.Conv2d):
            fan_in = module.weight[0].numel()
            uniform = torch.rand(module.weight.shape, generator=generator, device=generator.device)
            scale = (3 * weight_var / fan_in) ** 0.5
            with torch.no_grad():
                module.weight.copy_((2 * uniform - 1) * scale)
                if module.bias is not None:
                    module.bias.zero_()
        if callable(getattr(module, "reset", None)):
            module.reset(generator)
    return network


def _one_each(
    layers: LayerFactory | Sequence[LayerFactory], n_layers: int
) -> Sequence[LayerFactory]:
    factories = layers if isinstance(layers, Sequence) else [layers] * n_layers
    if len(factories) != n_layers:
        raise ValueError(f"layers must be one factory or {n_layers}, got {len(factories)}")
    return factories
