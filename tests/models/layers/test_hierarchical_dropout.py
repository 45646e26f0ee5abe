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
    expected_cov = layer.noise_cov().detach()
    deviation = xi - 1
    error_of_mean = (expected_cov.diagonal() / len(xi)).sqrt()
    assert (deviation.mean(0).abs() < 5 * error_of_mean).all()
    products = deviation[:, :, None] * deviation[:, None, :]
    error_of_cov = products.std(0) / len(xi) ** 0.5
    assert ((products.mean(0) - expected_cov).abs() < 5 * error_of_cov).all()


def test_rows_are_correlated_by_the_scale_alone(layer):
    xi = draws(layer, 200_000, 2)
    cov_of_rows = torch.stack([torch.cov(xi[..., i].T)[0, 1] for i in range(K)])
    var_of_scale = layer.log_sigma2.detach().exp().expm1()
    torch.testing.assert_close(cov_of_rows, var_of_scale, rtol=0.1, atol=0.01)


def test_kl_is_that_of_the_scales_plus_that_of_the_base(layer):
    alone = models.StructuredDropout.kl(layer)
    scales = models.lognormal_scale_kl(layer.log_sigma2)
    torch.testing.assert_close(layer.kl(), alone + scales)
    learned = [layer.log_sigma2, layer.raw_log_alpha, layer.vectors]
    for gradient in torch.autograd.grad(layer.kl(), learned):
        assert gradient.ne(0).all()


@pytest.mark.parametrize("log_sigma2", [-3.0, 0.0, 0.7])
def test_the_kl_to_a_prior_of_scales_is_the_smallest_over_locations(log_sigma2):
    log_sigma2 = torch.tensor([log_sigma2], dtype=torch.float64)

    def smallest(kl_at):
        return minimize_scalar(lambda mu: kl_at(torch.full_like(log_sigma2, mu)).item()).fun

    lognormal = smallest(lambda mu: lognormal_kl(mu, log_sigma2, 0.4, 2 * math.log(0.7)))
    assert models.lognormal_scale_kl(log_sigma2, std=0.7).item() == pytest.approx(lognormal)
    for rate in (0.5, 3.0):
        gamma = smallest(lambda mu, rate=rate: lognormal_gamma_kl(mu, log_sigma2, 2.5, rate))
        assert models.gamma_scale_kl(log_sigma2, shape=2.5).item() == pytest.approx(gamma)
