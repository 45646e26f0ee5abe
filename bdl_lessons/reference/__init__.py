"""Models whose posterior is known exactly, or nearly: what an approximation is compared with.

Imports: probability.
"""

from bdl_lessons.reference.gaussian_vi import fit_gaussian, gauss_hermite, gaussian_elbo
from bdl_lessons.reference.gp import GaussianProcess
from bdl_lessons.reference.grid_posterior import GridPosterior
from bdl_lessons.reference.kernels import (
    CosKernel,
    ErfKernel,
    NNGPKernel,
    ReLUKernel,
    cos_expectation,
    erf_expectation,
    relu_expectation,
)
from bdl_lessons.reference.linear_regression import BayesLinear
from bdl_lessons.reference.logistic_regression import BayesLogistic
from bdl_lessons.reference.mcmc import hmc
from bdl_lessons.reference.random_features import RandomFeatures

__all__ = [
    "BayesLinear",
    "BayesLogistic",
    "CosKernel",
    "ErfKernel",
    "GaussianProcess",
    "GridPosterior",
    "NNGPKernel",
    "RandomFeatures",
    "ReLUKernel",
    "cos_expectation",
    "erf_expectation",
    "fit_gaussian",
    "gauss_hermite",
    "gaussian_elbo",
    "hmc",
    "relu_expectation",
]
