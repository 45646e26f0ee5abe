"""The penalty that noise puts on each layer of a network: what lesson 12 compares by method."""

from collections.abc import Sequence

import torch
from torch import Tensor, func

from bdl_lessons.evaluation import gauss_newton, penalty, softmax_root
from bdl_lessons.models import Network, StochasticLayer


def layer_penalties(network: Network, x: Tensor, noise_covs: Sequence[Tensor]) -> Tensor:
    """R of each stochastic layer of a classifier, averaged over examples: ``(n_layers,)`` in nats.

    Gauss-Newton form at the mean weights, for softmax outputs. ``x`` is ``(B, K)``: layers and
    activations must act on vectors. ``noise_covs`` are ``C`` for each stochastic layer, in order,
    else ValueError.

    >>> from bdl_lessons.models import Deterministic, mlp
    >>> network = mlp((2, 4, 3), Deterministic)
    >>> layer_penalties(network, torch.ones(5, 2), [torch.eye(2), torch.eye(4)]).shape
    torch.Size([2])
    """
    positions = [i for i, module in enumerate(network) if isinstance(module, StochasticLayer)]
    if len(noise_covs) != len(positions):
        raise ValueError(f"noise_covs must hold {len(positions)} matrices, got {len(noise_covs)}")
    penalties = []
    for position, noise_cov in zip(positions, noise_covs, strict=True):
        h = network[:position](x, "mean")
        tail = network[position:]
        hessian = gauss_newton(_jacobian(tail, h), softmax_root(tail(h, "mean")))
        penalties.append(penalty(hessian, h, noise_cov).mean())
    return torch.stack(penalties)


def _jacobian(network: Network, x: Tensor) -> Tensor:
    """Of the outputs by the inputs, example by example: ``(B, n_outputs, K)``."""

    def outputs(row: Tensor) -> Tensor:
        return network(row[None], "mean")[0]

    return func.vmap(func.jacrev(outputs))(x)
