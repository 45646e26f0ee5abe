"""The taught posteriors, one method a class in a file of its own, and networks of their layers.

Imports: probability.
"""

from bdl_lessons.models.layers.base import (
    Method,
    Sampling,
    StochasticLayer,
    UnitNoise,
    WeightNoise,
    log_relative_variance,
    matched_log_alpha,
)
from bdl_lessons.models.layers.bayes_by_backprop import BayesByBackprop
from bdl_lessons.models.layers.binary_dropout import BinaryDropout, Deterministic
from bdl_lessons.models.layers.concrete_dropout import ConcreteDropout
from bdl_lessons.models.layers.gaussian_dropout import GaussianDropout, GaussianDropoutB
from bdl_lessons.models.layers.hierarchical_dropout import (
    HierarchicalDropout,
    gamma_scale_kl,
    lognormal_scale_kl,
    scaled_cov,
)
from bdl_lessons.models.layers.sparse_vd import ARD, SparseVD, ard_kl
from bdl_lessons.models.layers.structured_dropout import StructuredDropout
from bdl_lessons.models.layers.variational_dropout import VariationalDropout, VariationalDropoutB
from bdl_lessons.models.networks import Network, initialise, mlp, wrap

__all__ = [
    "ARD",
    "BayesByBackprop",
    "BinaryDropout",
    "ConcreteDropout",
    "Deterministic",
    "GaussianDropout",
    "GaussianDropoutB",
    "HierarchicalDropout",
    "Method",
    "Network",
    "Sampling",
    "SparseVD",
    "StochasticLayer",
    "StructuredDropout",
    "UnitNoise",
    "VariationalDropout",
    "VariationalDropoutB",
    "WeightNoise",
    "ard_kl",
    "gamma_scale_kl",
    "initialise",
    "log_relative_variance",
    "lognormal_scale_kl",
    "matched_log_alpha",
    "mlp",
    "scaled_cov",
    "wrap",
]
