"""The taught posteriors, one layer a file, and the networks that are built from them.

Imports: probability.
"""

from bdl_lessons.models.layers.base import LayerFactory, Sampling, StochasticLayer, plain
from bdl_lessons.models.layers.bayes_by_backprop import BayesByBackprop
from bdl_lessons.models.layers.binary_dropout import BernoulliNoise, BinaryDropout, Deterministic
from bdl_lessons.models.layers.concrete_dropout import ConcreteDropout
from bdl_lessons.models.layers.gaussian_dropout import (
    GaussianDropout, GaussianUnitNoise, GaussianWeightNoise, matched_log_alpha,
)
from bdl_lessons.models.layers.hierarchical_dropout import (
    GammaScale, HierarchicalDropout, LogNormalScale, scaled_cov,
)
from bdl_lessons.models.layers.sparse_vd import ARD, SparseVD, ard_kl
from bdl_lessons.models.layers.structured_dropout import StructuredDropout, StructuredUnitNoise
from bdl_lessons.models.layers.unit_noise import UnitNoise, UnitNoiseConv2d, UnitNoiseLinear
from bdl_lessons.models.layers.variational_dropout import VariationalDropout
from bdl_lessons.models.layers.weight_noise import (
    AdditiveNoise, WeightNoise, WeightNoiseConv2d, WeightNoiseLinear, log_relative_variance,
)
from bdl_lessons.models.networks import Network, alexnet, initialise, lenet5, lenet5_classic, mlp
