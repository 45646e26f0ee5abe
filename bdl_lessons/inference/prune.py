"""Pruning: which weights are noise, the network without them, and its sparse storage. Lesson 08.

A weight with ``log_alpha >= 3`` has a variance of at least 20 times its squared mean. As
multiplicative noise that is dropout at a rate of 0.95 or more; Molchanov et al. (2017) cut there.
"""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear

from bdl_lessons.core.validation import typechecked
from bdl_lessons.models import (
    Network,
    Sampling,
    StochasticLayer,
    WeightNoise,
    log_relative_variance,
)

THRESHOLD = 3.0


@dataclass(frozen=True)
class LayerSparsity:
    """How many weights one layer has and keeps; biases are not counted."""

    name: str
    n_weights: int
    n_kept: int

    @property
    def sparsity(self) -> float:
        """Share of removed weights, in [0, 1]."""
        return 1 - self.n_kept / self.n_weights


def layer_log_alpha(layer: WeightNoise) -> Tensor:
    """``log_alpha`` of each weight of a layer, in the shape of its weights, without gradient.

    Raises TypeError if the layer has no free ``log_sigma2`` for each weight; ValueError if a weight
    is NaN or infinite.

    >>> from bdl_lessons.models import SparseVD
    >>> layer_log_alpha(SparseVD(nn.Linear(3, 2))).shape
    torch.Size([2, 3])
    """
    if not (isinstance(layer, WeightNoise) and hasattr(layer, "log_sigma2")):
        wanted = "mu and log_sigma2 for each weight, such as those of SparseVD or ARD"
        raise TypeError(f"pruning needs layers with {wanted}; got {type(layer).__name__}")
    if not (layer.mu.isfinite().all() and layer.log_sigma2.isfinite().all()):
        raise ValueError("the weights have a NaN or an infinity: there is nothing to prune")
    return log_relative_variance(layer.mu.detach(), layer.log_sigma2.detach())


@typechecked
def sparsity(model: Network, threshold: float = THRESHOLD) -> list[LayerSparsity]:
    """Weights and kept weights of each layer, in order. Errors as in :func:`to_sparse`.

    >>> from bdl_lessons.models import SparseVD, mlp
    >>> from functools import partial
    >>> sparsity(mlp((4, 3), partial(SparseVD, init_log_sigma2=-100.0)))
    [LayerSparsity(name='0', n_weights=12, n_kept=12)]
    """
    log_alphas = {n: layer_log_alpha(m) for n, m in _noisy_layers(model, threshold).items()}
    return [LayerSparsity(n, a.numel(), int((a < threshold).sum())) for n, a in log_alphas.items()]


@typechecked
def compression(layers: list[LayerSparsity]) -> float:
    """All weights over kept weights, as the papers count: no biases, no storage of positions.

    >>> compression([LayerSparsity("0", n_weights=900, n_kept=90), LayerSparsity("2", 100, 10)])
    10.0

    Raises ValueError if there is no layer.
    """
    if not layers:
        raise ValueError("layers must hold one at least, as sparsity(model) gives them, got []")
    return sum(layer.n_weights for layer in layers) / max(1, sum(layer.n_kept for layer in layers))


@typechecked
def zero_pruned(model: Network, threshold: float = THRESHOLD) -> "PrunedNetwork":
    """A network of plain layers with the mean weights, those at or above the threshold set to 0.

    Same shapes and same storage as before: what :func:`to_sparse` must agree with. Errors as there.

    >>> from bdl_lessons.models import SparseVD, mlp
    >>> zero_pruned(mlp((4, 5, 3), SparseVD), threshold=-100.0)[0].weight.count_nonzero().item()
    0
    """
    return _pruned(model, threshold, to_dense_layer)


@typechecked
def to_sparse(model: Network, threshold: float = THRESHOLD) -> "PrunedNetwork":
    """The network without its pruned weights: the kept ones and their positions, and the biases.

    Args:
        model: a network of :class:`~bdl_lessons.models.SparseVD` or ``ARD`` layers. Layers without
            noise of their own (activations, pooling) are copied.
        threshold: a weight is kept if its ``log_alpha`` is below.

    Raises:
        TypeError, ValueError: if a stochastic layer has no ``log_sigma2``, there is nothing to
            prune, or ``threshold`` or a weight is NaN.

    >>> from bdl_lessons.models import SparseVD, mlp
    >>> sparse = to_sparse(mlp((4, 5, 3), SparseVD), threshold=math.inf)
    >>> len(sparse[0].values), sparse(torch.ones(7, 4)).shape
    (20, torch.Size([7, 3]))
    """
    return _pruned(model, threshold, _sparse)


class SparseLayer(nn.Module):
    """A linear or convolutional layer that stores its non-zero weights and where they are.

    Attributes:
        values, index: ``(n_kept,)`` each, and rising positions in the flattened weights.
        shape: of the full weights, ``(L, K)`` or ``(L, C, k, k)``.
    """

    def __init__(self, plain: nn.Linear | nn.Conv2d, weight: Tensor, keep: Tensor) -> None:
        super().__init__()
        index = keep.flatten().nonzero().squeeze(1)
        self.shape = tuple(weight.shape)
        self.stride = getattr(plain, "stride", None)  # of a convolution
        self.padding = getattr(plain, "padding", None)
        self.dilation = getattr(plain, "dilation", None)
        self.register_buffer("values", weight.flatten()[index])
        self.register_buffer("index", index)
        self.register_buffer("bias", None if plain.bias is None else plain.bias.detach().clone())

    def weight(self) -> Tensor:
        """The full weights, zeros put back: made for one product."""
        full = self.values.new_zeros(self.shape)
        full.view(-1)[self.index] = self.values
        return full

    def forward(self, x: Tensor) -> Tensor:
        if self.stride is None:
            return linear(x, self.weight(), self.bias)
        return conv2d(x, self.weight(), self.bias, self.stride, self.padding, self.dilation)


class PrunedNetwork(Network):
    """What :func:`to_sparse` and :func:`zero_pruned` return: ``network(x)``, nothing random left.

    In evaluation mode, and no parameter requires a gradient: the variances are gone, and training
    would bring the removed weights back, so ``fit`` refuses it.

    >>> list(PrunedNetwork(nn.Linear(2, 1))(torch.ones(3, 2)).shape)
    [3, 1]
    """

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__(*modules)
        self.eval().requires_grad_(False)

    def forward(
        self, x: Tensor, sampling: Sampling = "mean", generator: torch.Generator | None = None
    ) -> Tensor:
        return super().forward(x, sampling, generator)

    def kl(self) -> Tensor:
        raise RuntimeError("a pruned network has no KL, its variances are gone: use it before")


def _noisy_layers(model: Network, threshold: float) -> dict[str, WeightNoise]:
    if math.isnan(threshold):
        raise ValueError("threshold must be a number, got NaN")
    layers = {n: m for n, m in model._modules.items() if isinstance(m, StochasticLayer)}
    if not layers:
        raise ValueError("model has no layer with log_alpha: there is nothing to prune")
    return layers


def _pruned(model: Network, threshold: float, prune: Callable) -> PrunedNetwork:
    layers = _noisy_layers(model, threshold)
    modules = model._modules.items()  # named_children() would leave out an activation used twice
    return PrunedNetwork(
        *(prune(layers[n], threshold) if n in layers else deepcopy(m) for n, m in modules)
    )


def to_dense_layer(layer: WeightNoise, threshold: float) -> nn.Linear | nn.Conv2d:
    keep = layer_log_alpha(layer) < threshold
    plain = deepcopy(layer.inner)
    with torch.no_grad():
        plain.weight.copy_(layer.weight_mean() * keep)
    return plain


def _sparse(layer: WeightNoise, threshold: float) -> SparseLayer:
    keep = layer_log_alpha(layer) < threshold
    return SparseLayer(layer.inner, layer.weight_mean().detach(), keep)
