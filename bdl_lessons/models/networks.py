"""Networks built from a layer factory: one architecture under any distribution of the weights.

Lesson 05 is the first to use one; lesson 12 compares all distributions on the same network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bdl_lessons.core.validation import integer, non_negative, typechecked
from bdl_lessons.models.layers.base import (
    LayerFactory,
    Sampling,
    StochasticLayer,
    check_sampling,
    plain,
)

Layers = Any
"""One layer factory for all layers of a network, or a list with one for each. A lesson's own class
will do if it has the method ``linear``, and ``conv2d`` for a convolutional network."""


class Network(nn.Sequential):
    """Modules in sequence, some of them stochastic.

    ``network(x, sampling, generator)`` hands ``sampling`` and ``generator`` to the stochastic
    layers; see :class:`~bdl_lessons.models.StochasticLayer` for the three modes. Images may have a
    sample axis, ``(S, B, C, H, W)``.
    """

    def forward(
        self, x: Tensor, sampling: Sampling, generator: torch.Generator | None = None
    ) -> Tensor:
        check_sampling(sampling, generator)
        for module in self:
            stochastic = isinstance(module, StochasticLayer)
            x = module(x, sampling, generator) if stochastic else plain(module, x)
        return x

    def kl(self) -> Tensor:
        """Sum of the layers' KL terms in nats (0-dim); a layer used twice counts once."""
        layers = dict.fromkeys(module for module in self if isinstance(module, StochasticLayer))
        return sum((layer.kl() for layer in layers), start=torch.zeros(()))


@typechecked
def mlp(widths: Sequence, layers: Layers, activation: Callable[[], nn.Module] = nn.ReLU) -> Network:
    """A fully connected network ``(B, widths[0]) -> (B, widths[-1])``.

    Args:
        widths: input, hidden and output widths, e.g. ``(784, 1024, 1024, 10)``.
        layers: one factory for all ``len(widths) - 1`` layers, or one for each. Unit noise acts on
            a layer's *inputs*, so the first factory decides about noise on the data.
        activation: between the layers, not after the last.

    Raises:
        TypeError: if ``layers`` holds something that makes no layers, or a width is no integer.
        ValueError: if there are fewer than two widths, one is below 1, or there is not one factory
            per layer.
    """
    for width in widths:
        integer("widths", width, 1)
    if len(widths) < 2:
        raise ValueError(f"widths needs an input and an output width, got {tuple(widths)}")
    factories = _one_each(layers, len(widths) - 1)
    modules: list[nn.Module] = []
    for factory, n_in, n_out in zip(factories, widths[:-1], widths[1:], strict=True):
        modules += [factory.linear(n_in, n_out), activation()]
    return Network(*modules[:-1])


@typechecked
def lenet5(layers: Layers) -> Network:
    """Caffe's LeNet as Gal & Ghahramani use it: ``(B, 1, 28, 28) -> (B, 10)`` logits.

    conv 20 (5x5), pool 2, conv 50 (5x5), pool 2, linear 500, ReLU, linear. There is no nonlinearity
    after the convolutions but the pooling. Published: dropout 0.5 before the last layer only,
    i.e. ``layers = [Deterministic()] * 3 + [BinaryDropout(0.5)]``.

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
        dense2.linear(500, 10),
    )


@typechecked
def lenet5_classic(
    layers: Layers, n_classes: int = 10, in_channels: int = 1, size: int = 28
) -> Network:
    """LeNet-5 with the widths of LeCun et al. (1998): ``(B, C, size, size)`` to logits.

    conv 6 (5x5), ReLU, pool 2, conv 16 (5x5), ReLU, pool 2, then linear 120, 84, ``n_classes`` with
    ReLU between. As it is used today: max pooling, every channel connected to every other, softmax.
    The original was made for 32 x 32 pixels; 28 x 28 are padded to that.

    Raises:
        ValueError: if ``size`` is neither 28 nor 32, or ``layers`` is neither one factory nor five.
    """
    if size not in (28, 32):
        raise ValueError(f"size must be 28 or 32, got {size}")
    integer("n_classes", n_classes, 1), integer("in_channels", in_channels, 1)
    conv1, conv2, dense1, dense2, dense3 = _one_each(layers, 5)
    return Network(
        conv1.conv2d(in_channels, 6, 5, padding=(32 - size) // 2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        conv2.conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        dense1.linear(16 * 5 * 5, 120),
        nn.ReLU(),
        dense2.linear(120, 84),
        nn.ReLU(),
        dense3.linear(84, n_classes),
    )


@typechecked
def alexnet(layers: Layers, n_classes: int = 10, size: int = 32) -> Network:
    """AlexNet's five convolutions for small images: ``(B, 3, size, size)`` to logits.

    The version that is common on CIFAR: conv 64 (11x11, stride 4), 192 (5x5), 384, 256, 256 (3x3),
    pool 2 after the first, second and last, ReLU after each, one linear layer. 2.47 million
    parameters for 32 x 32 pixels and 10 classes.

    Raises:
        ValueError: if ``layers`` is neither one factory nor six, or nothing of the image is left.
    """
    integer("n_classes", n_classes, 1)
    conv1, conv2, conv3, conv4, conv5, dense = _one_each(layers, 6)
    side = ((size - 1) // 4 + 1) // 8
    if side < 1:
        raise ValueError(f"size must be at least 29 pixels, got {size}")
    return Network(
        conv1.conv2d(3, 64, 11, stride=4, padding=5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        conv2.conv2d(64, 192, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        conv3.conv2d(192, 384, 3, padding=1),
        nn.ReLU(),
        conv4.conv2d(384, 256, 3, padding=1),
        nn.ReLU(),
        conv5.conv2d(256, 256, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        dense.linear(256 * side**2, n_classes),
    )


@typechecked
def initialise(network: Network, generator: torch.Generator, weight_var: float = 2.0) -> Network:
    """Draw new weights from ``generator``: uniform, mean 0, variance ``weight_var / fan_in``.

    ``weight_var = 2`` keeps the scale of ReLU activations from layer to layer (He et al. 2015), 1
    that of tanh, and is the ``U(-sqrt(3/fan_in), sqrt(3/fan_in))`` of Gal & Ghahramani. Biases
    become 0. Then the layer's noise draws its start: ``layer.reset_noise(generator)``. Returns
    ``network``.
    """
    non_negative("weight_var", weight_var)
    for module in _weight_layers(network):
        fan_in = module.weight[0].numel()
        uniform = torch.rand(module.weight.shape, generator=generator, device=generator.device)
        scale = (3 * weight_var / fan_in) ** 0.5
        with torch.no_grad():
            module.weight.copy_((2 * uniform - 1) * scale)
            if module.bias is not None:
                module.bias.zero_()
        if isinstance(module, StochasticLayer):
            module.reset_noise(generator)
    return network


def _weight_layers(module: nn.Module) -> Iterator[nn.Linear | nn.Conv2d]:
    """Layers in their order, those inside blocks too, but not what a layer itself is made of."""
    for child in module.children():
        if isinstance(child, nn.Linear | nn.Conv2d):
            yield child
        else:
            yield from _weight_layers(child)


def _one_each(layers: Layers, n_layers: int) -> Sequence[LayerFactory]:
    factories = layers if isinstance(layers, list | tuple) else [layers] * n_layers
    for factory in factories:
        if not hasattr(factory, "linear"):
            raise TypeError(f"layers must be factories such as BinaryDropout(0.5), got {factory!r}")
    if len(factories) != n_layers:
        raise ValueError(f"layers must be one factory or {n_layers}, got {len(factories)}")
    return factories
