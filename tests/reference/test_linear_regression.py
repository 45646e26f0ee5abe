"""The conjugate model against brute-force Gaussians, and the bound against its definition."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import MultivariateNormal

from bdl_lessons.probability import gaussian_kl_full
from bdl_lessons.reference import BayesLinear


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def close(actual, expected, atol=1e-10):
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=atol)


@pytest.fixture
def model():
    return BayesLinear(randn(7, 3, seed=1), randn(7, seed=2), noise_var=0.3, prior_var=2.0)


def random_q(seed, K=3):
    A = randn(K, K, seed=seed)
    return randn(K, seed=seed + 1), A @ A.mT + 0.1 * torch.eye(K)


def marginal(model, Phi=None):
    """The covariance of y with the weights integrated out: the N × N way."""
    Phi = model.Phi if Phi is None else Phi
    return model.noise_var * torch.eye(len(Phi), dtype=Phi.dtype) + model.prior_var * Phi @ Phi.mT


def test_log_evidence_is_the_density_of_y_under_the_marginal(model):
    zero = torch.zeros(7, dtype=torch.float64)
    close(model.log_evidence(), MultivariateNormal(zero, marginal(model)).log_prob(model.y))


def test_three_points_by_hand():
    """x = 1, 2, 3 and y = 2, 3, 5 with unit variances: |Λ| = 24, mean (1/2, 4/3)."""
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    Phi = torch.stack([torch.ones_like(x), x], dim=1)
    model = BayesLinear(Phi, torch.tensor([2.0, 3.0, 5.0]).double(), 1.0, 1.0)
    close(model.precision, torch.tensor([[4.0, 6.0], [6.0, 15.0]]).double())
    close(model.mean, torch.tensor([1 / 2, 4 / 3], dtype=torch.float64))
    close(model.cov, torch.tensor([[15.0, -6.0], [-6.0, 4.0]]).double() / 24)
    expected = -0.5 * (3 * math.log(2 * math.pi) + math.log(24) + 7 / 3)
    assert model.log_evidence().item() == pytest.approx(expected, abs=1e-12)
    mean, var = model.predict(torch.tensor([[1.0, 4.0]]).double())
    assert (mean.item(), var.item()) == pytest.approx((35 / 6, 55 / 24), abs=1e-12)
    _, var = model.mean_field()
    close(var / model.cov.diagonal(), torch.full((2,), 0.4, dtype=torch.float64))


def test_prediction_is_the_conditional_of_the_joint_gaussian(model):
    Phi_new = randn(4, 3, seed=9)
    cross = model.prior_var * Phi_new @ model.Phi.mT
    weights = torch.linalg.solve(marginal(model), cross.mT).mT
    mean, var = model.predict(Phi_new)
    close(mean, weights @ model.y)
    close(var, (marginal(model, Phi_new) - weights @ cross.mT).diagonal())


def test_prediction_with_another_covariance_keeps_the_noise(model):
    Phi_new = randn(4, 3, seed=9)
    mean, var = model.predict(Phi_new, torch.zeros(3, 3).double())
    close(mean, Phi_new @ model.mean)
    close(var, model.noise_var.expand(4))


def test_the_mean_is_the_ridge_solution_with_noise_over_prior_variance(model):
    ridge = model.noise_var / model.prior_var * torch.eye(3, dtype=torch.float64)
    close(model.mean, torch.linalg.solve(model.Phi.mT @ model.Phi + ridge, model.Phi.mT @ model.y))


def test_the_data_term_is_the_expected_log_likelihood(model):
    mean, cov = random_q(seed=4)
    at_mean = torch.distributions.Normal(model.Phi @ mean, model.noise_var.sqrt()).log_prob(model.y)
    spread = torch.einsum("nk,kl,nl->", model.Phi, cov, model.Phi) / (2 * model.noise_var)
    close(model.data_term(mean, cov), at_mean.sum() - spread)
    draws = mean + randn(20_000, 3, seed=5) @ torch.linalg.cholesky(cov).mT
    values = torch.distributions.Normal(draws @ model.Phi.mT, model.noise_var.sqrt())
    values = values.log_prob(model.y).sum(-1)
    error = values.std() / math.sqrt(len(values))
    assert (values.mean() - model.data_term(mean, cov)).abs() < 4 * error


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_evidence_is_bound_plus_divergence_for_any_q(seed):
    model = BayesLinear(randn(7, 3, seed=1), randn(7, seed=2), noise_var=0.3, prior_var=2.0)
    mean, cov = random_q(seed)
    kl = gaussian_kl_full(mean, cov, model.mean, model.cov)
    close(model.elbo(mean, cov) + kl, model.log_evidence(), atol=1e-9)
    assert model.elbo(mean, cov) < model.log_evidence()


def test_the_bound_is_tight_at_the_posterior(model):
    close(model.elbo(model.mean, model.cov), model.log_evidence())


def test_mean_field_is_the_best_factorised_gaussian(model):
    mean, var = model.mean_field()
    best = model.elbo(mean, var.diag())
    gap = 0.5 * (model.precision.diagonal().log().sum() - torch.logdet(model.precision))
    close(model.log_evidence() - best, gap)
    for seed in range(20):
        shift, log_scale = 0.1 * randn(3, seed=seed), 0.1 * randn(3, seed=seed + 50)
        assert model.elbo(mean + shift, (var * log_scale.exp()).diag()) < best
    assert (var <= model.cov.diagonal()).all()


def test_the_evidence_has_a_gradient_in_both_variances(model):
    variances = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.3, 2.0)]
    assert torch.autograd.gradcheck(
        lambda noise, prior: BayesLinear(model.Phi, model.y, noise, prior).log_evidence(), variances
    )


def test_more_weights_than_observations():
    model = BayesLinear(randn(3, 8, seed=1), randn(3, seed=2), noise_var=0.1, prior_var=1.0)
    zero = torch.zeros(3, dtype=torch.float64)
    close(model.log_evidence(), MultivariateNormal(zero, marginal(model)).log_prob(model.y))


def test_bad_input_is_named():
    Phi, y = torch.zeros(4, 2), torch.zeros(4)
    cases = [
        ((Phi, torch.zeros(3), 1.0, 1.0), ValueError, "Phi must be"),
        ((Phi[0], y, 1.0, 1.0), ValueError, "Phi must be"),
        ((Phi * math.nan, y, 1.0, 1.0), ValueError, "Phi must be finite"),
        ((Phi, y.long(), 1.0, 1.0), TypeError, "y must be"),
        ((Phi, y.double(), 1.0, 1.0), TypeError, "y must have the dtype .* Phi"),
        ((Phi, y, -1.0, 1.0), ValueError, "noise_var"),
        ((Phi, y, 1.0, 0.0), ValueError, "prior_var"),
        ((Phi, y, torch.ones(4), 1.0), ValueError, "noise_var"),
    ]
    for arguments, error, message in cases:
        with pytest.raises(error, match=message):
            BayesLinear(*arguments)


def test_columns_are_refused(model):
    mean, cov = random_q(seed=4)
    for call, name in [
        (lambda: model.data_term(mean[:, None], cov), "mean_q"),
        (lambda: model.data_term(mean[:1], cov), "mean_q"),
        (lambda: model.data_term(mean, cov[:, :1]), "cov_q"),
        (lambda: model.data_term(mean, cov[:1]), "cov_q"),
        (lambda: model.elbo(mean[:, None], cov), "mean_q|mean"),
        (lambda: model.predict(randn(4, 3), cov[:, :1]), "cov"),
        (lambda: model.predict(randn(4, 1)), "Phi_new"),
        (lambda: model.predict(randn(4, 3).float()), "Phi_new must have the dtype"),
        (lambda: model.data_term(mean.float(), cov), "mean_q must have the dtype"),
        (lambda: model.data_term(mean, cov.float()), "cov_q must have the dtype"),
        (lambda: BayesLinear(model.Phi, model.y[:, None], 1.0, 1.0), "Phi must be"),
        (lambda: BayesLinear(model.Phi, model.y, torch.ones(1), 1.0), "noise_var"),
        (lambda: BayesLinear(model.Phi[:0], model.y[:0], 1.0, 1.0), "Phi must be"),
    ]:
        with pytest.raises((TypeError, ValueError), match=name):
            call()
