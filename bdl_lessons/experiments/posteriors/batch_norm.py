"""Batch norm under weights that were not trained: its statistics are collected anew."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bdl_lessons.models import Network


def has_batch_norm(model: object) -> bool:
    """Whether ``model`` is a module with batch norm in it."""
    return bool(_batch_norms(model))


@torch.no_grad()
def refresh_batch_norm(network: Network, x: Tensor, chunk_rows: int = 500) -> None:
    """Set the statistics of every batch norm to the averages over ``x``, in chunks of rows."""
    layers = _batch_norms(network)
    before = [(layer.momentum, layer.training) for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.train()
    n_seen = 0
    for rows in x.split(chunk_rows):
        n_seen += len(rows)
        for layer in layers:
            layer.momentum = len(rows) / n_seen
        network(rows, "mean")
    for layer, (momentum, training) in zip(layers, before, strict=True):
        layer.momentum = momentum
        layer.train(training)


def _batch_norms(model: object) -> list[_BatchNorm]:
    modules = model.modules() if isinstance(model, nn.Module) else []
    return [module for module in modules if isinstance(module, _BatchNorm)]
