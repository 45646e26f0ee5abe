"""Structured dropout: the distribution of its noise, its divergences, its limits."""

import math

import pytest
import torch
from torch import nn

from bdl_lessons import probability
from bdl_lessons.models import StructuredDropout, VariationalDropout, ard_kl
from tests.draws import seeded

K, L = 6, 4


def structured(T=2, seed=0, kl_per="weight", prior="empirical_bayes"):
    """A double-precision layer K -> L with alphas far apart."""
    layer = StructuredDropout(
        nn.Linear(K, L), n_reflections=T, alpha_spread=1.0, kl_per=kl_per, prior=prior
    )
    layer.reset_noise(seeded(seed))
    return layer.double()


def xi_of(layer, n_draws, seed=1):
    with torch.no_grad():
        return layer.draw_xi((n_draws, K), seeded(seed))


@pytest.mark.parametrize("T", [0, 1, 2, 9])
def test_the_noise_has_the_distribution_it_claims(T):
    layer = structured(T)
    assert layer.vectors.shape == (T, K)
    cov = layer.noise_cov().detach()
    U = probability.orthogonal_matrix(layer.vectors.detach())
    torch.testing.assert_close(cov, U @ layer.alpha.detach().diag() @ U.T)

    n_draws = 30_000
    xi = xi_of(layer, n_draws)
    std = cov.diagonal().sqrt()
    standard_error = n_draws**-0.5
    error_of_mean = (xi.mean(0) - 1) / std
    error_of_cov = (torch.cov(xi.T) - cov) / torch.outer(std, std)
    assert error_of_mean.abs().max() < 4.5 * standard_error
    assert error_of_cov.abs().max() < 7 * standard_error


def test_without_reflections_it_is_variational_dropout():
    layer = structured(0)
    plain = VariationalDropout(nn.Linear(K, L), alpha_per="unit", kl=ard_kl, kl_per="weight")
    plain = plain.double()
    plain.load_state_dict(layer.state_dict(), strict=False)
    x = torch.randn(5, K, dtype=torch.float64, generator=seeded())
    for sampling in ("per_example", "shared", "mean"):
        expected = plain(x, sampling, seeded(3))
        torch.testing.assert_close(layer(x, sampling, seeded(3)), expected)
    torch.testing.assert_close(layer.kl(), plain.kl())


@pytest.mark.parametrize("T", [1, 2])
def test_the_kl_is_the_divergence_of_the_columns_and_moves_the_noise_alone(T):
    layer = structured(T)
    theta = layer.weight.T.detach()
    cov = layer.noise_cov()
    prior_precision = probability.best_precision(theta, cov.diagonal())
    expected = probability.column_marginal_kl(theta, cov, prior_precision)
    torch.testing.assert_close(layer.kl(), expected)
    layer.kl().backward()
    assert layer.weight.grad is None
    assert (layer.raw_log_alpha.grad.sum()) < 0
    assert layer.vectors.grad.abs().max() > 1e-4


def test_the_kl_counts_the_weights_of_a_row():
    once = structured(2, kl_per="factor").kl()
    torch.testing.assert_close(structured(2).kl(), L * once)
    conv = StructuredDropout(nn.Conv2d(K, L, 3), n_reflections=2, kl_per="weight")
    with torch.no_grad():
        conv.raw_log_alpha.copy_(structured(2).raw_log_alpha)
        conv.vectors.copy_(structured(2).vectors)
    torch.testing.assert_close(conv.kl().double(), 9 * L * once, rtol=1e-5, atol=0)


def test_the_kl_of_a_rotation_has_its_total_correlation_under_the_log_uniform_prior():
    for kl_per, count in (("factor", 1), ("weight", L)):
        layer = structured(2, prior="log_uniform", kl_per=kl_per)
        cov = layer.noise_cov()
        log_var = cov.diagonal().log()
        of_factors = probability.loguniform_kl(log_var).sum()
        total_correlation = (log_var.sum() - cov.logdet()) / 2
        assert total_correlation > 0.01
        torch.testing.assert_close(layer.kl(), count * (of_factors + total_correlation))


def test_start_values_come_from_the_generator():
    def start(seed):
        layer = structured(seed=seed)
        return torch.cat([layer.raw_log_alpha, layer.vectors.flatten()])

    torch.testing.assert_close(start(1), start(1))
    assert not torch.allclose(start(1), start(2))


def test_start_values_have_their_spread_within_the_bounds():
    layer = StructuredDropout(nn.Linear(500, 1), alpha_spread=0.3)
    assert layer.log_alpha.mean().item() == pytest.approx(math.log(0.25), abs=0.06)
    assert layer.log_alpha.std().item() == pytest.approx(0.3, abs=0.04)
    layer = StructuredDropout(nn.Linear(50, 1), min_alpha=0.2, max_alpha=0.3, alpha_spread=1.0)
    raw = layer.raw_log_alpha.exp()
    assert 0.2 - 1e-6 <= raw.min() < raw.max() <= 0.3 + 1e-6


def test_bounds_hold_and_can_be_left():
    layer = StructuredDropout(nn.Linear(3, 2), min_alpha=math.exp(-2), max_alpha=1.0)
    raw = layer.raw_log_alpha
    with torch.no_grad():
        raw.copy_(torch.tensor([0.5, -0.5, -2.5]))
    torch.testing.assert_close(layer.log_alpha, torch.tensor([0.0, -0.5, -2.0]))
    for sign, expected in [(1.0, [1.0, 1.0, 0.0]), (-1.0, [0.0, -1.0, -1.0])]:
        raw.grad = None
        (sign * layer.log_alpha).sum().backward()
        assert raw.grad.tolist() == expected
