"""Networks of stochastic layers: one architecture under any distribution of the weights.

Lesson 05 is the first to use one; lesson 13 compares all distributions on the same network.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.modules import dropout, pooling

from bdl_lessons.core.validation import integer, non_negative
from bdl_lessons.models.layers.base import Method, Sampling, StochasticLayer

DRAW_BY_THEMSELVES = (dropout._DropoutNd, nn.RReLU, pooling.FractionalMaxPool2d)
"""Modules of PyTorch that draw from its global generator, whatever ``sampling`` says."""


class Network(nn.Sequential):
    """Modules in sequence, some of them stochastic.

    Those that have a method ``kl`` are called as ``module(x, sampling, generator)``: the layers of
    this package, networks, and classes of your own. All others are called as ``module(x)``.

    >>> from functools import partial
    >>> from bdl_lessons.models import BinaryDropout
    >>> network = mlp((3, 8, 2), partial(BinaryDropout, p_drop=0.5))
    >>> network(torch.ones(5, 3), "per_example", torch.Generator()).shape
    torch.Size([5, 2])
    """

    def forward(
        self, x: Tensor, sampling: Sampling | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """The network's outputs, ``(..., B, L)``, under drawn weights.

        Arguments and errors as for each layer:
        :class:`StochasticLayer <bdl_lessons.models.StochasticLayer>`.
        """
        for module in self:
            if is_stochastic(module):
                x = module(x, sampling, generator)
            else:
                x = apply_batched(module, x)
        return x

    def kl(self) -> Tensor:
        """Sum of the layers' KL terms in nats (0-dim); a layer used twice counts once."""
        layers = dict.fromkeys(module for module in self if is_stochastic(module))
        return sum((layer.kl() for layer in layers), start=torch.zeros(()))


def is_stochastic(module: nn.Module) -> bool:
    """Whether a module of a network is called with ``sampling`` and a generator."""
    return hasattr(module, "kl")


def apply_batched(module: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """A module without random weights on ``x``; images may have sample axes before their batch.

    >>> apply_batched(nn.MaxPool2d(2), torch.ones(7, 5, 3, 8, 8)).shape
    torch.Size([7, 5, 3, 4, 4])
    """
    if x.dim() <= 4:
        return module(x)
    return module(x.flatten(0, -4)).unflatten(0, x.shape[:-3])


def mlp(
    widths: Sequence[int],
    method: Method | Sequence[Method],
    activation: Callable[[], nn.Module] = nn.ReLU,
) -> Network:
    """A fully connected network ``(B, widths[0]) -> (B, widths[-1])``.

    Args:
        widths: input, hidden and output widths, e.g. ``(784, 1024, 1024, 10)``.
        method: what makes a stochastic layer of an ``nn.Linear``, such as ``Deterministic`` or
            ``partial(BinaryDropout, p_drop=0.5)``: one for all ``len(widths) - 1`` layers, or a
            list with one for each. Unit noise acts on a layer's *inputs*, so the first one decides
            about noise on the data.
        activation: between the layers, not after the last.

    Raises:
        TypeError, ValueError: if ``method`` makes no layers or is not one for each of them,
            ``widths`` are not two integers >= 1 or more, or ``activation`` makes no module.

    >>> from functools import partial
    >>> from bdl_lessons.models import BinaryDropout, Deterministic
    >>> network = mlp((3, 8, 2), [Deterministic, partial(BinaryDropout, p_drop=0.5)])
    >>> network(torch.ones(5, 3), "mean").shape
    torch.Size([5, 2])
    """
    if not isinstance(widths, tuple | list):
        raise TypeError(f"widths must be a tuple such as (784, 400, 10), got {widths!r}")
    widths = tuple(integer("widths", width, least=1) for width in widths)
    if len(widths) < 2:
        raise ValueError(f"widths needs an input and an output width, got {widths}")
    if isinstance(activation, nn.Module) or not callable(activation):
        raise TypeError(f"activation must be a class such as nn.ReLU, got {activation}")
    modules: list[nn.Module] = []
    for n_in, n_out in pairwise(widths):
        modules += [nn.Linear(n_in, n_out), activation()]
    return wrap(nn.Sequential(*modules[:-1]), method)


def wrap(model: nn.Sequential, method: Method | Sequence[Method]) -> Network:
    """An existing network with its linear and convolutional layers under a distribution.

    Its weights are kept: the new layers hold the modules of ``model``, not copies. Layers of an
    ``nn.Sequential`` inside are found too.

    Args:
        model: what is wrapped. A module of another class that has linear or convolutional layers
            inside must become a class with ``forward(x, sampling, generator)`` and ``kl()``.
        method: one for all layers or a list with one for each, as in :func:`mlp`.

    Raises:
        TypeError, ValueError: if ``model`` is no ``nn.Sequential``, has no such layer, hides one in
            a module of another class or has an ``nn.Dropout``, or ``method`` is not one for all or
            one for each.

    >>> from functools import partial
    >>> from bdl_lessons.models import StructuredDropout
    >>> plain = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    >>> network = wrap(plain, partial(StructuredDropout, n_reflections=2))
    >>> network[0].weight is plain[0].weight, network(torch.ones(5, 1, 8, 8), "mean").shape
    (True, torch.Size([5, 10]))
    """
    if not isinstance(model, nn.Sequential):
        remedy = "nn.Sequential(*model.children()) is one, if its layers are called in that order"
        raise TypeError(f"model must be an nn.Sequential, got {type(model).__name__}: {remedy}")
    refuse_own_draws(model)
    layers = list(dict.fromkeys(_plain_layers(model)))
    if not layers:
        raise ValueError("model has no nn.Linear or nn.Conv2d: there is nothing to wrap")
    stochastic = {}
    for layer, make_layer in zip(layers, one_for_each(method, len(layers)), strict=True):
        stochastic[layer] = make_layer(layer)
        if not is_stochastic(stochastic[layer]):
            got = type(stochastic[layer]).__name__
            raise TypeError(f"method must make a layer with a kl, got {got} from it")

    def wrapped(module: nn.Module) -> nn.Module:
        if isinstance(module, nn.Sequential):
            return Network(*map(wrapped, module))
        return stochastic.get(module, module)

    return wrapped(model)


def one_for_each(method: Method | Sequence[Method], n_layers: int) -> Sequence[Method]:
    """The methods of ``n_layers`` layers; TypeError or ValueError if there is not one for each."""
    methods = method if isinstance(method, list | tuple) else [method] * n_layers
    for each in methods:
        if isinstance(each, nn.Module) or not callable(each):
            wanted = "method must make layers, as partial(BinaryDropout, p_drop=0.5) does"
            raise TypeError(f"{wanted}, got {each!r}")
    if len(methods) != n_layers:
        raise ValueError(f"method must be one for all or {n_layers}, got {len(methods)}")
    return methods


def refuse_own_draws(model: nn.Module) -> None:
    """ValueError if a module of ``model`` draws by itself: ``nn.Dropout`` and its relatives."""
    for name, module in model.named_modules():
        if isinstance(module, DRAW_BY_THEMSELVES):
            kind = type(module).__name__
            rule = f"model has nn.{kind} at {name!r}, which draws by itself, not as sampling says"
            remedy = "leave it out and take BinaryDropout for the layer after it"
            raise ValueError(f"{rule}: {remedy}")


def initialise(network: nn.Module, generator: torch.Generator, weight_var: float = 2.0) -> Network:
    """Draw new weights from ``generator``: uniform, mean 0, variance ``weight_var / fan_in``.

    ``weight_var = 2`` keeps the scale of ReLU activations from layer to layer (He et al. 2015), 1
    that of tanh, and is the ``U(-sqrt(3/fan_in), sqrt(3/fan_in))`` of Gal & Ghahramani. Biases
    become 0. Then the layer's noise draws its start: ``layer.reset_noise(generator)``. Returns
    ``network``.

    >>> from functools import partial
    >>> from bdl_lessons.models import BinaryDropout
    >>> network = mlp((3, 2), partial(BinaryDropout, p_drop=0.5))
    >>> initialise(network, torch.Generator().manual_seed(0))[0].bias
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """
    if not isinstance(network, nn.Module):
        raise TypeError(f"network must be a module such as mlp makes, got {network!r}")
    if not isinstance(generator, torch.Generator):
        raise TypeError(f"generator must be a torch.Generator, got {generator!r}")
    non_negative("weight_var", weight_var)
    for layer in _weight_layers(network):
        fan_in = layer.weight[0].numel()
        uniform = torch.rand(layer.weight.shape, generator=generator, device=generator.device)
        scale = (3 * weight_var / fan_in) ** 0.5
        with torch.no_grad():
            layer.weight.copy_((2 * uniform - 1) * scale)
            if layer.bias is not None:
                layer.bias.zero_()
        if isinstance(layer, StochasticLayer):
            layer.reset_noise(generator)
    return network


def _weight_layers(module: nn.Module) -> Iterator[StochasticLayer | nn.Linear | nn.Conv2d]:
    """Layers in their order, those inside blocks too, but not what a layer itself is made of."""
    for child in module.children():
        if isinstance(child, StochasticLayer | nn.Linear | nn.Conv2d):
            yield child
        else:
            yield from _weight_layers(child)


def _plain_layers(model: nn.Sequential) -> Iterator[nn.Linear | nn.Conv2d]:
    for module in model:
        if isinstance(module, nn.Linear | nn.Conv2d):
            yield module
        elif isinstance(module, nn.Sequential):
            yield from _plain_layers(module)
        elif any(isinstance(part, nn.Linear | nn.Conv2d) for part in module.modules()):
            rule = f"model has a {type(module).__name__} with linear or convolutional layers inside"
            raise ValueError(f"{rule}: give it forward(x, sampling, generator) and kl() of its own")
