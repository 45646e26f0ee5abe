"""The conjugate model against brute-force Gaussians, and the bound against its definition."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import MultivariateNormal

from bdl_lessons.probability import gaussian_kl_full
from bdl_lessons.reference import BayesLinear
from tests.draws import normal


def close(actual, expected, atol=1e-10):
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=atol)


def small(**change):
    settings = {"Phi": normal(7, 3, seed=1), "y": normal(7, seed=2)}
    return BayesLinear(**settings | {"noise_var": 0.3, "prior_var": 2.0} | change)


@pytest.fixture
def model():
    return small()


def random_q(seed, K=3):
    A = normal(K, K, seed=seed)
    return normal(K, seed=seed + 1), A @ A.mT + 0.1 * torch.eye(K)


def marginal(model, Phi=None):
    """The covariance of y with the weights integrated out: the N × N way."""
    Phi = model.Phi if Phi is None else Phi
    return model.noise_var * torch.eye(len(Phi), dtype=Phi.dtype) + model.prior_var * Phi @ Phi.mT


@pytest.mark.parametrize(("n_examples", "n_weights"), [(7, 3), (3, 8)])
def test_log_evidence_is_the_density_of_y_under_the_marginal(n_examples, n_weights):
    model = small(Phi=normal(n_examples, n_weights, seed=1), y=normal(n_examples, seed=2))
    density = MultivariateNormal(torch.zeros_like(model.y), marginal(model))
    close(model.log_evidence(), density.log_prob(model.y))
    close(model.elbo(model.mean, model.cov), model.log_evidence())


def test_prediction_is_the_conditional_of_the_joint_gaussian(model):
    Phi_new = normal(4, 3, seed=9)
    cross = model.prior_var * Phi_new @ model.Phi.mT
    weights = torch.linalg.solve(marginal(model), cross.mT).mT
    mean, var = model.predict(Phi_new)
    close(mean, weights @ model.y)
    close(var, (marginal(model, Phi_new) - weights @ cross.mT).diagonal())
    _, var = model.predict(Phi_new, torch.zeros(3, 3).double())
    close(var, model.noise_var.expand(4))


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_evidence_is_bound_plus_divergence_for_any_q(seed):
    model = small()
    (mean, cov) = random_q(seed)
    kl = gaussian_kl_full(mean, cov, model.mean, model.cov)
    close(model.elbo(mean, cov) + kl, model.log_evidence(), atol=1e-9)
    assert model.elbo(mean, cov) < model.log_evidence()


def test_mean_field_is_the_best_factorised_gaussian(model):
    mean, var = model.mean_field()
    best = model.elbo(mean, var.diag())
    gap = 0.5 * (model.precision.diagonal().log().sum() - torch.logdet(model.precision))
    close(model.log_evidence() - best, gap)
    for seed in range(20):
        shift = 0.1 * normal(3, seed=seed)
        log_scale = 0.1 * normal(3, seed=seed + 50)
        assert model.elbo(mean + shift, (var * log_scale.exp()).diag()) < best
    assert (var <= model.cov.diagonal()).all()
