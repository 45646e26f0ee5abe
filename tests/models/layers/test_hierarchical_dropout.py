"""Hierarchical dropout: who shares a scale, moments, and the joint divergence."""

import math

import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import nn

from bdl_lessons import models
from bdl_lessons.probability import lognormal_gamma_kl, lognormal_kl
from tests.draws import normal, seeded

K, L = 3, 4


@pytest.fixture
def layer():
    layer = models.HierarchicalDropout(nn.Linear(K, L), init_p_drop=0.2).double()
    with torch.no_grad():  # scales with tails light enough for a sample covariance
        layer.log_sigma2.copy_(torch.tensor([-3.0, -2.0, -1.0]))
        layer.raw_log_alpha.copy_(normal(K, seed=1).sub(2))
        layer.weight.copy_(normal(L, K, seed=2))
    return layer


def draws(layer, *shape, seed=0):
    with torch.no_grad():
        return layer.draw_xi((*shape, K), seeded(seed))


def test_moments_of_the_factors(layer):
    """Rotated and scaled, within five standard errors: those of the products of deviations."""
    xi = draws(layer, 200_000, 1)[:, 0]
    expected = layer.noise_cov().detach()
    error = 5 * (expected.diagonal() / len(xi)).sqrt()
    assert ((xi.mean(0) - 1).abs() < error).all()
    products = (xi - 1)[:, :, None] * (xi - 1)[:, None, :]
    assert ((products.mean(0) - expected).abs() < 5 * products.std(0) / len(xi) ** 0.5).all()


def test_rows_are_correlated_by_the_scale_alone(layer):
    xi = draws(layer, 200_000, 2)
    across = torch.stack([torch.cov(xi[..., i].T)[0, 1] for i in range(K)])
    torch.testing.assert_close(across, layer.log_sigma2.detach().exp().expm1(), rtol=0.1, atol=0.01)


def test_kl_is_that_of_the_scales_plus_that_of_the_base(layer):
    alone = models.StructuredDropout.kl(layer)
    scales = models.lognormal_scale_kl(layer.log_sigma2)
    torch.testing.assert_close(layer.kl(), alone + scales)
    gradient = torch.autograd.grad(
        layer.kl(), [layer.log_sigma2, layer.raw_log_alpha, layer.vectors]
    )
    assert all(g.ne(0).all() for g in gradient)


@pytest.mark.parametrize("log_sigma2", [-3.0, 0.0, 0.7])
def test_scale_priors_charge_the_best_location(log_sigma2):
    at = torch.full((1,), log_sigma2, dtype=torch.float64)

    def best(kl, *prior):
        return minimize_scalar(lambda mu: kl(torch.full_like(at, mu), at, *prior).item()).fun

    lognormal = best(lognormal_kl, 0.4, 2 * math.log(0.7))
    assert models.lognormal_scale_kl(at, std=0.7).item() == pytest.approx(lognormal)
    for rate in (0.5, 3.0):
        gamma = best(lognormal_gamma_kl, 2.5, rate)
        assert models.gamma_scale_kl(at, shape=2.5).item() == pytest.approx(gamma)
