"""Removing the dead units of a pruned network: the smaller dense network that it contains.

Zeros in a dense product take as long as other numbers. What does save time is a unit, or a channel
of a convolution, that is gone altogether. Two kinds can go without changing the function:

- nothing reads it: all its outgoing weights are zero, or lead to units that nothing reads;
- it is constant: all its incoming weights are zero, or come from constant units. What it
  contributes to the next layer is a number, and moves into that layer's bias.
"""

from copy import deepcopy
from itertools import pairwise

import torch
from torch import nn

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
    small = deepcopy(network)
    layers = [module for module in small if isinstance(module, _WEIGHTED)]
    units = layers[0].bias.new_full((1,), torch.nan)  # values before a layer, NaN where they vary
    for module in small:
        if isinstance(module, _WEIGHTED):
            inputs = module.weight.reshape(len(module.weight), len(units), -1)
            module.bias += inputs.sum(2) @ units.nan_to_num(0.0)
            varying = inputs.masked_fill(~units.isnan()[:, None], 0.0)
            module.weight.copy_(varying.reshape(module.weight.shape))
            units = module.bias.masked_fill(varying.flatten(1).any(1), torch.nan)
        elif isinstance(module, nn.ReLU | nn.Tanh):
            units = module(units)
    for before, after in reversed([*pairwise(layers)]):
        inputs = after.weight.reshape(len(after.weight), len(before.weight), -1)
        read = inputs.any(2).any(0)
        read[0] |= ~read.any()
        kept = inputs[:, read].reshape(len(inputs), -1, *after.weight.shape[2:])
        after.weight = nn.Parameter(kept, requires_grad=False)
        before.weight = nn.Parameter(before.weight[read], requires_grad=False)
        before.bias = nn.Parameter(before.bias[read], requires_grad=False)
    return small


def n_hidden(network: PrunedNetwork) -> list[int]:
    """Hidden units, or channels, of each layer in order."""
    return [len(module.weight) for module in network if isinstance(module, _WEIGHTED)][:-1]
