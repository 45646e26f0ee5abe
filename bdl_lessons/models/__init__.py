"""The taught posteriors, one method a file, and the networks that are built from them.

Imports: probability.
"""

from bdl_lessons.models.layers.base import (
    LayerFactory,
    Sampling,
    StochasticLayer,
    UnitNoise,
    UnitNoiseConv2d,
    UnitNoiseLinear,
    apply_batched,
)
from bdl_lessons.models.layers.bayes_by_backprop import BayesByBackprop
from bdl_lessons.models.layers.binary_dropout import BernoulliNoise, BinaryDropout, Deterministic
from bdl_lessons.models.layers.concrete_dropout import ConcreteDropout
from bdl_lessons.models.layers.sparse_vd import ARD, SparseVD, ard_kl
from bdl_lessons.models.layers.structured_dropout import (
    GammaScale,
    HierarchicalDropout,
    LogNormalScale,
    StructuredDropout,
    StructuredUnitNoise,
    scaled_cov,
)
from bdl_lessons.models.layers.variational_dropout import (
    GaussianDropout,
    GaussianUnitNoise,
    GaussianWeightNoise,
    VariationalDropout,
    matched_log_alpha,
)
from bdl_lessons.models.layers.weight_noise import (
    AdditiveNoise,
    WeightNoise,
    WeightNoiseConv2d,
    WeightNoiseLinear,
    log_relative_variance,
)
from bdl_lessons.models.networks import Network, initialise, lenet5, mlp

__all__ = [
    "ARD",
    "AdditiveNoise",
    "BayesByBackprop",
    "BernoulliNoise",
    "BinaryDropout",
    "ConcreteDropout",
    "Deterministic",
    "GammaScale",
    "GaussianDropout",
    "GaussianUnitNoise",
    "GaussianWeightNoise",
    "HierarchicalDropout",
    "LayerFactory",
    "LogNormalScale",
    "Network",
    "Sampling",
    "SparseVD",
    "StochasticLayer",
    "StructuredDropout",
    "StructuredUnitNoise",
    "UnitNoise",
    "UnitNoiseConv2d",
    "UnitNoiseLinear",
    "VariationalDropout",
    "WeightNoise",
    "WeightNoiseConv2d",
    "WeightNoiseLinear",
    "apply_batched",
    "ard_kl",
    "initialise",
    "lenet5",
    "log_relative_variance",
    "matched_log_alpha",
    "mlp",
    "scaled_cov",
]
