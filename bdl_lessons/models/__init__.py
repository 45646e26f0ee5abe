"""The taught posteriors, one layer a file, and the networks that are built from them.

Imports: probability.
"""

from bdl_lessons.models.layers.base import Sampling, StochasticLayer
from bdl_lessons.models.layers.bayes_by_backprop import BayesByBackprop
from bdl_lessons.models.layers.binary_dropout import BernoulliNoise, BinaryDropout
from bdl_lessons.models.layers.gaussian_dropout import GaussianDropout, matched_log_alpha
from bdl_lessons.models.layers.gaussian_noise import (
    GaussianUnitNoise,
    GaussianWeightNoise,
    LogAlpha,
    LogUniformPrior,
)
from bdl_lessons.models.layers.hierarchical_dropout import (
    GammaScale,
    HierarchicalDropout,
    LogNormalScale,
    scaled_cov,
)
from bdl_lessons.models.layers.sparse_vd import ARD, SparseVD, ard_kl, log_alpha
from bdl_lessons.models.layers.structured_dropout import StructuredDropout
from bdl_lessons.models.layers.structured_noise import EmpiricalBayesPrior, StructuredUnitNoise
from bdl_lessons.models.layers.unit_noise import UnitNoise, UnitNoiseConv2d, UnitNoiseLinear
from bdl_lessons.models.layers.variational_dropout import VariationalDropout
from bdl_lessons.models.layers.weight_noise import (
    AdditiveNoise,
    WeightNoise,
    WeightNoiseConv2d,
    WeightNoiseLinear,
)
from bdl_lessons.models.networks import (
    LayerFactory,
    Network,
    alexnet,
    initialise,
    lenet5,
    lenet5_classic,
    mlp,
    plain,
)
