"""Pruning: which weights are noise, the network without them, and its sparse storage.

A weight with ``log_alpha > 3`` has a variance of more than 20 times its squared mean. As
multiplicative noise that is dropout at a rate above 0.95; Molchanov et al. (2017) cut there.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear

from bdl_lessons.models import (
    AdditiveNoise,
    Network,
    StochasticLayer,
    WeightNoiseConv2d,
    WeightNoiseLinear,
    log_relative_variance,
)
from bdl_lessons.models.layers.weight_noise import WeightNoiseLayer

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


def layer_log_alpha(layer: WeightNoiseLayer) -> Tensor:
    """``log_alpha`` of each weight of a layer, in the shape of its weights, without gradient.

    Raises:
        TypeError: if the layer has no free ``log_sigma2`` for each weight.
        ValueError: if a weight is NaN or infinite.
    """
    if not (isinstance(layer, WeightNoiseLayer) and isinstance(layer.noise, AdditiveNoise)):
        raise TypeError(
            "pruning needs layers with mu and log_sigma2 for each weight, such as those of "
            f"SparseVD or ARD; got {type(layer).__name__}"
        )
    if not (layer.mu.isfinite().all() and layer.noise.log_sigma2.isfinite().all()):
        raise ValueError("the weights have a NaN or an infinity: there is nothing to prune")
    return log_relative_variance(layer.mu.detach(), layer.noise.log_sigma2.detach())


def sparsity(model: Network, threshold: float = THRESHOLD) -> list[LayerSparsity]:
    """Weights and kept weights of each layer, in order. Errors as in :func:`prune`."""
    kept = {n: _kept(layer, threshold) for n, layer in _noisy_layers(model, threshold).items()}
    return [LayerSparsity(name, keep.numel(), int(keep.sum())) for name, keep in kept.items()]


def compression(layers: list[LayerSparsity]) -> float:
    """All weights over kept weights, as the papers count: no biases, no storage of positions."""
    return sum(layer.n_weights for layer in layers) / max(1, sum(layer.n_kept for layer in layers))


def masked(model: Network, threshold: float = THRESHOLD) -> PrunedNetwork:
    """A network of plain layers with the mean weights, those at or above the threshold set to 0.

    Same shapes and same storage as before: what :func:`compress` must agree with. Errors as there.
    """
    layers = _noisy_layers(model, threshold)
    return PrunedNetwork(
        *(
            _plain(layers[name], threshold) if name in layers else deepcopy(module)
            for name, module in model._modules.items()
        )
    )


def compress(model: Network, threshold: float = THRESHOLD) -> PrunedNetwork:
    """The network without its pruned weights: the kept ones and their positions, and the biases.

    Args:
        model: a network of :class:`~bdl_lessons.models.SparseVD` or ``ARD`` layers. Layers without
            noise of their own (activations, pooling) are copied.
        threshold: a weight is kept if its ``log_alpha`` is below.

    Raises:
        TypeError: if ``model`` is no Network, or one of its stochastic layers has no ``log_alpha``.
        ValueError: if ``threshold`` is NaN, there is nothing to prune, or a weight is NaN.
    """
    layers = _noisy_layers(model, threshold)
    return PrunedNetwork(
        *(
            _sparse(layers[name], threshold) if name in layers else deepcopy(module)
            for name, module in model._modules.items()
        )
    )


class SparseLayer(nn.Module):
    """A linear or convolutional layer that stores its non-zero weights and where they are.

    Attributes:
        values: ``(n_kept,)``. index: ``(n_kept,)``, positions in the flattened weights, rising.
        shape: of the full weights, ``(L, K)`` or ``(L, C, k, k)``.
    """

    def __init__(
        self,
        values: Tensor,
        index: Tensor,
        shape: tuple[int, ...],
        bias: Tensor | None,
        stride: int = 1,
        padding: int = 0,
    ) -> None:
        super().__init__()
        self.shape, self.stride, self.padding = tuple(shape), stride, padding
        self.register_buffer("values", values)
        self.register_buffer("index", index)
        self.register_buffer("bias", bias)

    def weight(self) -> Tensor:
        """The full weights, zeros put back: made for one product and forgotten after it."""
        full = self.values.new_zeros(self.shape)
        full.view(-1)[self.index] = self.values
        return full

    def forward(self, x: Tensor) -> Tensor:
        if len(self.shape) == 2:
            return linear(x, self.weight(), self.bias)
        return conv2d(x, self.weight(), self.bias, self.stride, self.padding)


class PrunedNetwork(Network):
    """What :func:`compress` and :func:`masked` return: ``network(x)``, nothing random left.

    The posterior is gone, and training would bring the removed weights back. So it cannot be
    trained, drawn from or charged a KL; trying to raises RuntimeError.
    """

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__(*modules)
        self.eval()

    def forward(self, x: Tensor, sampling: str = "mean", generator=None) -> Tensor:
        if sampling != "mean":
            self._refuse(f"drawn from (sampling={sampling!r})")
        return super().forward(x, "mean")

    def kl(self) -> Tensor:
        self._refuse("charged a KL")

    def train(self, mode: bool = True) -> PrunedNetwork:
        if mode:
            self._refuse("trained")
        return super().train(False)

    def parameters(self, recurse: bool = True):
        self._refuse("trained")

    @staticmethod
    def _refuse(what: str) -> NoReturn:
        raise RuntimeError(
            f"a pruned network cannot be {what}: its variances are gone, and its removed weights "
            "must stay removed. Go on from the network that was given to compress()"
        )


def _noisy_layers(model: Network, threshold: float) -> dict[str, WeightNoiseLayer]:
    if not isinstance(model, Network):
        raise TypeError(f"model must be a Network, got {type(model).__name__}")
    if threshold != threshold:
        raise ValueError("threshold must be a number, got NaN")
    found = {n: m for n, m in model._modules.items() if isinstance(m, StochasticLayer)}
    if not found:
        raise ValueError("model has no layer with log_alpha: there is nothing to prune")
    return found


def _kept(layer: WeightNoiseLayer, threshold: float) -> Tensor:
    return layer_log_alpha(layer) < threshold


def _plain(layer: WeightNoiseLayer, threshold: float) -> nn.Linear | nn.Conv2d:
    keep = _kept(layer, threshold)
    weight = layer.noise.mean(layer.mu).detach() * keep
    if isinstance(layer, WeightNoiseLinear):
        plain = nn.Linear(layer.in_features, layer.out_features, layer.bias is not None)
    else:
        plain = nn.Conv2d(
            layer.in_channels,
            layer.out_channels,
            layer.kernel_size,
            layer.stride,
            layer.padding,
            bias=layer.bias is not None,
        )
    plain = plain.to(weight).requires_grad_(False)
    with torch.no_grad():
        plain.weight.copy_(weight)
        if layer.bias is not None:
            plain.bias.copy_(layer.bias)
    return plain


def _sparse(layer: WeightNoiseLayer, threshold: float) -> SparseLayer:
    index = _kept(layer, threshold).flatten().nonzero().squeeze(1)
    bias = None if layer.bias is None else layer.bias.detach().clone()
    steps = ()
    if isinstance(layer, WeightNoiseConv2d):
        steps = (layer.stride[0], layer.padding[0])
    values = layer.noise.mean(layer.mu).detach().flatten()[index]
    return SparseLayer(values, index, layer.mu.shape, bias, *steps)
