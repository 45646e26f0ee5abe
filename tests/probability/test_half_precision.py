"""Sums over weights and examples are in float32 at least, whatever the tensors are.

A sum in float16 overflows at 65,504, and one in bfloat16 stops growing at 256 ones.
"""

import pytest
import torch

from bdl_lessons import probability
from tests.draws import normal

K = 3000
MEAN = normal(K)
LOG_VAR = 0.3 * normal(K, seed=1)
VECTORS = normal(2, 40, seed=2)
COLUMNS = normal(40, 50, seed=3) + 3
FACTOR = 0.2 * normal(40, 40, seed=4)
COV = FACTOR @ FACTOR.T + torch.eye(40).double()

CASES = {
    "gaussian_nll": (
        lambda a, b: probability.gaussian_nll(a, b, tau=2.0),
        MEAN[None],
        LOG_VAR[None],
    ),
    "gaussian_kl": (lambda a, b: probability.gaussian_kl(a, b.exp()), MEAN, LOG_VAR),
    "gaussian_kl_to_prior": (probability.gaussian_kl_to_prior, MEAN, LOG_VAR),
    "gaussian_kl_full": (
        lambda a, b: probability.gaussian_kl_full(a, b, torch.zeros_like(a), torch.eye(40).to(a)),
        MEAN[:40],
        COV,
    ),
    "lognormal_kl": (probability.lognormal_kl, MEAN, LOG_VAR),
    "lognormal_gamma_kl": (
        lambda a, b: probability.lognormal_gamma_kl(a, b, shape=2.0, rate=2.0),
        MEAN,
        LOG_VAR,
    ),
    "mixture_kl": (
        lambda a, b: probability.mixture_kl(b, a, var=1.0),
        MEAN.view(2, -1),
        torch.tensor([0.25, 0.75]).double(),
    ),
    "empirical_bayes_kl": (
        lambda a, b: probability.empirical_bayes_kl(a, b, n_columns=500),
        LOG_VAR,
        LOG_VAR.exp(),
    ),
    "column_marginal_kl": (
        lambda a, b: probability.column_marginal_kl(a, b, torch.ones_like(a)),
        COLUMNS,
        COV,
    ),
    "rotated_variance": (
        lambda a, b: probability.rotated_variance(a.exp(), b),
        LOG_VAR[:40],
        VECTORS,
    ),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_what_is_given_in_half_precision_is_summed_in_single(name, dtype):
    function, *arguments = CASES[name]
    rounded = [argument.to(dtype) for argument in arguments]
    result = function(*rounded)
    assert result.dtype == torch.float32
    # An argument that the case derives by exp or a scale is rounded once more.
    expected = function(*(argument.double() for argument in rounded))
    relative = 2 * torch.finfo(dtype).eps
    torch.testing.assert_close(result.double(), expected, rtol=relative, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_reflection_of_half_precision_keeps_lengths_and_the_dtype(dtype):
    x = normal(5, 40, seed=7).to(dtype)
    reflected = probability.reflect(x, VECTORS.to(dtype))
    assert reflected.dtype == dtype
    lengths = reflected.double().norm(dim=1)
    torch.testing.assert_close(
        lengths, x.double().norm(dim=1), rtol=2 * torch.finfo(dtype).eps, atol=0
    )
