"""Layers whose weights have a law; one posterior per module."""

from bdl_lessons.layers.bayes_by_backprop import BayesByBackprop
from bdl_lessons.layers.binary_dropout import BernoulliNoise, BinaryDropout, binary_dropout_kl
from bdl_lessons.layers.elrg import ELRG, LowRankLaw
from bdl_lessons.layers.gaussian_dropout import GaussianDropout, matched_log_alpha
from bdl_lessons.layers.hierarchical_dropout import (
    GammaScale,
    HierarchicalDropout,
    HierarchicalKL,
    LogNormalScale,
    ScaledNoise,
    scaled_cov,
)
from bdl_lessons.layers.householder_vectors import ChainedVectors, FreeVectors
from bdl_lessons.layers.joint_weights import JointConv2d, JointLayer, JointLinear, WeightLaw
from bdl_lessons.layers.mnf import MNF, FlowLaw
from bdl_lessons.layers.multiplicative_noise import (
    GaussianUnitNoise,
    GaussianWeightNoise,
    LogAlpha,
    LogUniformPrior,
)
from bdl_lessons.layers.relevance import ARD, SparseVD, ard_kl, log_alpha
from bdl_lessons.layers.stochastic import Sampling, StochasticLayer, check_sampling
from bdl_lessons.layers.structured_dropout import StructuredDropout
from bdl_lessons.layers.structured_noise import (
    EmpiricalBayesPrior,
    StructuredLogUniformPrior,
    StructuredUnitNoise,
)
from bdl_lessons.layers.unit_noise import UnitNoise, UnitNoiseConv2d, UnitNoiseLinear
from bdl_lessons.layers.variational_dropout import VariationalDropout
from bdl_lessons.layers.vmg import VMG, MatrixGaussianLaw
from bdl_lessons.layers.weight_noise import (
    AdditiveNoise,
    WeightNoise,
    WeightNoiseConv2d,
    WeightNoiseLayer,
    WeightNoiseLinear,
)

__all__ = [
    "ARD",
    "ELRG",
    "MNF",
    "VMG",
    "AdditiveNoise",
    "BayesByBackprop",
    "BernoulliNoise",
    "BinaryDropout",
    "ChainedVectors",
    "EmpiricalBayesPrior",
    "FlowLaw",
    "FreeVectors",
    "GammaScale",
    "GaussianDropout",
    "GaussianUnitNoise",
    "GaussianWeightNoise",
    "HierarchicalDropout",
    "HierarchicalKL",
    "JointConv2d",
    "JointLayer",
    "JointLinear",
    "LogAlpha",
    "LogNormalScale",
    "LogUniformPrior",
    "LowRankLaw",
    "MatrixGaussianLaw",
    "Sampling",
    "ScaledNoise",
    "SparseVD",
    "StochasticLayer",
    "StructuredDropout",
    "StructuredLogUniformPrior",
    "StructuredUnitNoise",
    "UnitNoise",
    "UnitNoiseConv2d",
    "UnitNoiseLinear",
    "VariationalDropout",
    "WeightLaw",
    "WeightNoise",
    "WeightNoiseConv2d",
    "WeightNoiseLayer",
    "WeightNoiseLinear",
    "ard_kl",
    "binary_dropout_kl",
    "check_sampling",
    "log_alpha",
    "matched_log_alpha",
    "scaled_cov",
]
