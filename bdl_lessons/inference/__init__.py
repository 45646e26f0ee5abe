"""Training, prediction, batched networks and pruning.

Imports: models.
"""

from bdl_lessons.inference.batched_networks import BatchedNetworks, fit_batched, predict_members
from bdl_lessons.inference.predict import predict, predict_mean
from bdl_lessons.inference.prune import (
    PrunedNetwork,
    compress,
    compression,
    layer_log_alpha,
    masked,
    sparsity,
)
from bdl_lessons.inference.remove_dead_units import shrink
from bdl_lessons.inference.sparse_file import load, save
from bdl_lessons.inference.train import adam, fit, inverse_decay, optimize, sgd
