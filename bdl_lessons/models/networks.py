"""Networks built from a layer factory: one architecture under any distribution of the weights.

Lesson 05 is the first to use one; lesson 12 compares all distributions on the same network.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bdl_lessons.core.validation import integer, non_negative, typechecked
from bdl_lessons.models.layers import base
from bdl_lessons.models.layers.base import Sampling, StochasticLayer

Layers = Any
"""One layer factory for all layers of a network, or a list with one for each. Any class will do
that has the method ``linear``, and ``conv2d`` for a convolutional network."""


class Network(nn.Sequential):
    """Modules in sequence, some of them stochastic.

    >>> from bdl_lessons.models import BinaryDropout
    >>> network, g = mlp((3, 8, 2), BinaryDropout(0.5)), torch.Generator().manual_seed(0)
    >>> network(torch.ones(5, 3), "per_example", g).shape
    torch.Size([5, 2])
    """

    def forward(
        self, x: Tensor, sampling: Sampling | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """The network's outputs, ``(..., B, L)``, under drawn weights.

        Arguments and errors as for each layer:
        :meth:`StochasticLayer.forward <bdl_lessons.models.StochasticLayer.forward>`.
        """
        base.check_call(x, sampling, generator)
        for module in self:
            stochastic = isinstance(module, StochasticLayer)
            x = module(x, sampling, generator) if stochastic else base.apply_batched(module, x)
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
        TypeError, ValueError: if ``layers`` holds something that makes no layers or not one factory
            for each layer, or ``widths`` are not two integers >= 1 or more.

    >>> from bdl_lessons.models import BinaryDropout, Deterministic
    >>> network = mlp((3, 8, 2), [Deterministic(), BinaryDropout(0.5)])
    >>> network(torch.ones(5, 3), "mean").shape
    torch.Size([5, 2])
    """
    for width in widths:
        integer("widths", width, 1)
    try:
        is_right = isinstance(activation(), nn.Module)
    except TypeError:
        is_right = False
    if not is_right:
        raise TypeError(f"activation must be a class such as nn.ReLU, got {activation}")
    if len(widths) < 2:
        raise ValueError(f"widths needs an input and an output width, got {tuple(widths)}")
    factories = one_each(layers, len(widths) - 1)
    modules: list[nn.Module] = []
    for factory, n_in, n_out in zip(factories, widths[:-1], widths[1:], strict=True):
        modules += [factory.linear(n_in, n_out), activation()]
    return Network(*modules[:-1])


@typechecked
def lenet5(layers: Layers) -> Network:
    """Caffe's LeNet as Gal & Ghahramani use it: ``(B, 1, 28, 28) -> (B, 10)`` logits.

    There is no nonlinearity after the convolutions but the pooling. Published: dropout 0.5 before
    the last layer only, i.e. ``layers = [Deterministic()] * 3 + [BinaryDropout(0.5)]``. Raises
    ValueError if ``layers`` is neither one factory nor four.

    >>> from bdl_lessons.models import BinaryDropout
    >>> lenet5(BinaryDropout(0.5))(torch.ones(2, 1, 28, 28), "mean").shape
    torch.Size([2, 10])
    """
    conv1, conv2, dense1, dense2 = one_each(layers, 4)
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
def initialise(network: Network, generator: torch.Generator, weight_var: float = 2.0) -> Network:
    """Draw new weights from ``generator``: uniform, mean 0, variance ``weight_var / fan_in``.

    ``weight_var = 2`` keeps the scale of ReLU activations from layer to layer (He et al. 2015), 1
    that of tanh, and is the ``U(-sqrt(3/fan_in), sqrt(3/fan_in))`` of Gal & Ghahramani. Biases
    become 0. Then the layer's noise draws its start: ``layer.reset_noise(generator)``. Returns
    ``network``.

    >>> from bdl_lessons.models import BinaryDropout
    >>> network = initialise(mlp((3, 2), BinaryDropout(0.5)), torch.Generator().manual_seed(0))
    >>> network[0].bias
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
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


def one_each(layers: Layers, n_layers: int) -> Sequence[base.LayerFactory]:
    """The factories of a network with ``n_layers`` layers; errors as in :func:`mlp`."""
    factories = layers if isinstance(layers, list | tuple) else [layers] * n_layers
    for factory in factories:
        if isinstance(factory, type) or not hasattr(factory, "linear"):
            raise TypeError(f"layers must be factories such as BinaryDropout(0.5), got {factory!r}")
    if len(factories) != n_layers:
        raise ValueError(f"layers must be one factory or {n_layers}, got {len(factories)}")
    return factories
