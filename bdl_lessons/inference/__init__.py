"""Training, prediction, batched networks and pruning.

Imports: models.
"""

from bdl_lessons.inference.batched_networks import BatchedNetworks, fit_batched, predict_batched
from bdl_lessons.inference.prediction import predict
from bdl_lessons.inference.prune import (
    PrunedNetwork,
    compression,
    layer_log_alpha,
    sparsity,
    to_sparse,
    zero_pruned,
)
from bdl_lessons.inference.train import OptimizerFactory, Run, adam, fit, sgd

__all__ = [
    "BatchedNetworks",
    "OptimizerFactory",
    "PrunedNetwork",
    "Run",
    "adam",
    "compression",
    "fit",
    "fit_batched",
    "layer_log_alpha",
    "predict",
    "predict_batched",
    "sgd",
    "sparsity",
    "to_sparse",
    "zero_pruned",
]
