import pytest
import torch
from torch import nn
from torch.distributions import MultivariateNormal, kl_divergence

from bdl_lessons.models import Network, StructuredDropout, initialise
from reproductions.posteriors.full_covariance import FullCovarianceDropout
from tests.draws import normal, seeded

N_DRAWS = 40_000


def correlated_layer():
    """From 4 units to 3, with correlations and alphas that differ."""
    layer = initialise(Network(FullCovarianceDropout(nn.Linear(4, 3))), seeded(1))[0].double()
    with torch.no_grad():
        layer.lower.copy_(normal(4, 4, seed=2))
        layer.raw_log_alpha.copy_(torch.tensor([-3.0, -1.0, -0.5, -2.0]))
    return layer


def test_without_correlations_it_is_structured_dropout_without_reflections():
    inner = nn.Linear(4, 3)
    x = torch.randn(50, 4, generator=seeded(3))
    full = initialise(Network(FullCovarianceDropout(inner)), seeded(1))[0]
    independent = StructuredDropout(inner, n_reflections=0, kl_per="weight")
    with torch.no_grad():
        independent.raw_log_alpha.copy_(full.raw_log_alpha)
    draws = [layer(x, "per_example", seeded(4)) for layer in (full, independent)]
    torch.testing.assert_close(*draws)
    torch.testing.assert_close(full.kl(), independent.kl())
    torch.testing.assert_close(full.noise_cov(), independent.noise_cov())


def test_factors_have_the_mean_1_and_the_covariance_of_the_noise():
    layer = correlated_layer()
    with torch.no_grad():
        xi = layer.draw_xi((N_DRAWS, 4), seeded(5))
        cov = layer.noise_cov()
    var = cov.diagonal()
    errors = (var[:, None] * var + cov.square()).sqrt() / N_DRAWS**0.5
    assert ((torch.cov(xi.T) - cov).abs() < 5 * errors).all()
    assert ((xi.mean(0) - 1).abs() < 5 * (var / N_DRAWS).sqrt()).all()
    off_diagonal = cov - torch.diag(var)
    assert off_diagonal.abs().max() > 0.1


def test_the_kl_is_that_of_dense_columns_to_the_best_prior():
    """The best prior is found by descent, column by column, on the KL between two Gaussians."""
    layer = correlated_layer()
    theta = layer.weight.detach()
    cov = layer.noise_cov().detach()
    total = 0.0
    for column in theta:
        q = MultivariateNormal(column, torch.diag(column) @ cov @ torch.diag(column))
        log_var = torch.zeros(4, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([log_var], max_iter=200, line_search_fn="strong_wolfe")

        def closure(q=q, log_var=log_var, optimizer=optimizer):
            optimizer.zero_grad()
            prior = MultivariateNormal(torch.zeros(4).double(), torch.diag(log_var.exp()))
            loss = kl_divergence(q, prior)
            loss.backward()
            return loss

        optimizer.step(closure)
        total += closure().item()
    assert layer.kl().item() == pytest.approx(total, rel=1e-5)


def test_settings_out_of_range_are_refused():
    with pytest.raises(ValueError, match="alpha_spread must"):
        FullCovarianceDropout(nn.Linear(4, 3), alpha_spread=-1.0)
    with pytest.raises(ValueError, match="must hold, got"):
        FullCovarianceDropout(nn.Linear(4, 3), init_p_drop=0.6)
