"""Removing the dead units of a pruned network: the smaller dense network that it contains.

Zeros in a dense product take as long as other numbers. What does save time is a unit, or a channel
of a convolution, that is gone altogether. Two kinds can go without changing the function:

- nothing reads it: all its outgoing weights are zero, or lead to units that nothing reads;
- it is constant: all its incoming weights are zero, or come from constant units. What it
  contributes to the next layer is a number, and moves into that layer's bias.
"""

import torch
from torch import Tensor, nn

from bdl_lessons.inference import PrunedNetwork

_WEIGHTED = (nn.Linear, nn.Conv2d)


@torch.no_grad()
def remove_dead_units(network: PrunedNetwork) -> PrunedNetwork:
    """The same function of ``x`` with as few hidden units and channels as its zeros allow.

    The inputs and outputs stay; so does one unit of a layer that could go as a whole.

    Args:
        network: what :func:`~bdl_lessons.inference.zero_pruned` returns: linear layers and
            convolutions without padding (a constant channel is not constant at a border), ReLU or
            tanh, max pooling, and a flatten between them.
    """
    layers, constants = _with_constant_inputs(network)
    kept = [constants[0].new_ones(len(layers[-1].weight), dtype=torch.bool)]
    for i in range(len(layers) - 1, 0, -1):
        read = (_by_input(layers[i])[kept[0]] != 0).any(2).any(0) & constants[i].isnan()
        wanted = read.view(len(layers[i - 1].weight), -1).any(1)
        wanted[0] |= not wanted.any()
        kept.insert(0, wanted)
    parts = map(_part, layers, constants, [None, *kept[:-1]], kept)
    return PrunedNetwork(
        *(next(parts) if isinstance(module, _WEIGHTED) else module for module in network)
    )


def n_hidden(network: PrunedNetwork) -> list[int]:
    """Hidden units, or channels, of each layer in order."""
    return [len(module.weight) for module in network if isinstance(module, _WEIGHTED)][:-1]


def _by_input(layer: nn.Linear | nn.Conv2d) -> Tensor:
    """The weights as ``(L, K, k * k)``, or ``(L, K, 1)``."""
    return layer.weight.reshape(*layer.weight.shape[:2], -1)


def _with_constant_inputs(network: PrunedNetwork) -> tuple[list[nn.Module], list[Tensor]]:
    """The weighted layers, and of each the values of its inputs ``(K,)``, NaN where they vary."""
    layers, constants, values = [], [], torch.tensor([torch.nan])
    for module in network:
        if isinstance(module, _WEIGHTED):
            weights = _by_input(module)
            values = values.to(weights)
            values = values.repeat_interleave(weights.shape[1] // len(values))  # after a flatten
            layers.append(module)
            constants.append(values)
            varies = (weights != 0).any(2) & values.isnan()
            values = _bias(module, values).masked_fill(varies.any(1), torch.nan)
        elif isinstance(module, nn.ReLU | nn.Tanh):
            values = module(values)
    return layers, constants


def _bias(layer: nn.Linear | nn.Conv2d, constant: Tensor) -> Tensor:
    """The bias with what the constant inputs contribute."""
    return layer.bias + _by_input(layer).sum(2) @ constant.nan_to_num(0.0)


def _part(
    layer: nn.Linear | nn.Conv2d, constant: Tensor, units: Tensor | None, outputs: Tensor
) -> nn.Linear | nn.Conv2d:
    """The layer from the kept ``units`` before it (``None``: all) to the kept ``outputs``."""
    weight = layer.weight.clone()
    weight[:, ~constant.isnan()] = 0  # what is constant is in the bias
    if units is not None:
        weight = weight[:, units.repeat_interleave(weight.shape[1] // len(units))]
    weight = weight[outputs]
    n_out, n_in = weight.shape[:2]
    how = (layer.kernel_size, layer.stride) if isinstance(layer, nn.Conv2d) else ()
    part = type(layer)(n_in, n_out, *how).to(weight)
    part.weight.copy_(weight)
    part.bias.copy_(_bias(layer, constant)[outputs])
    return part
