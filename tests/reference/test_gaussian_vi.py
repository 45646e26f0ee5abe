import math

import pytest
import torch

from bdl_lessons.reference import BayesLinear, fit_gaussian, gauss_hermite, gaussian_elbo
from tests.tables import close, refused


@pytest.fixture
def model():
    Phi = torch.tensor([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]], dtype=torch.float64)
    y = torch.tensor([2.0, 3.0, 5.0], dtype=torch.float64)
    return BayesLinear(Phi, y, noise_var=1.0, prior_var=1.0)


@pytest.fixture
def log_joint(model):
    def log_joint(w):
        of_data = (model.y - w @ model.Phi.mT).square().sum(-1)
        of_weights = w.square().sum(-1)
        return -0.5 * (of_data + of_weights + 5 * math.log(2 * math.pi))

    return log_joint


MEAN = torch.zeros(2, dtype=torch.float64)
SCALE = torch.full((2,), 0.7, dtype=torch.float64)


def test_quadrature_integrates_normal_moments():
    nodes, weights = gauss_hermite(6, 2)
    assert nodes.shape == (36, 2)
    close(weights.sum(), 1.0)
    close(weights @ nodes, [0.0, 0.0])
    close(weights @ nodes[:, 0] ** 4, 3.0)
    close(weights @ (nodes[:, 0] ** 2 * nodes[:, 1] ** 4), 3.0)


@pytest.mark.parametrize("mean_field", [False, True])
def test_the_fit_finds_the_closed_form(model, log_joint, mean_field):
    mean, L = fit_gaussian(log_joint, MEAN, SCALE, mean_field=mean_field, n_nodes=4)
    _, independent_var = model.mean_field()
    expected_cov = independent_var.diag() if mean_field else model.cov
    close(mean, model.mean, atol=1e-6)
    close(L @ L.mT, expected_cov, atol=1e-6)
    assert not mean.requires_grad
    assert not L.requires_grad


def test_the_fit_is_a_maximum_for_a_skewed_posterior():
    """For log p = w - e^w the bound is m - e^(m + s²/2) + log(s) + ...: best at m = -1/2, s = 1."""

    def log_joint(w):
        return (w - w.exp()).sum(-1)

    mean, L = fit_gaussian(log_joint, MEAN, SCALE)
    nodes, weights = gauss_hermite(40, 2)
    best = gaussian_elbo(log_joint, mean, L, nodes, weights)
    close(mean, [-0.5, -0.5], atol=1e-6)
    close(L, torch.eye(2), atol=1e-6)
    close(best, 2 * (0.5 * math.log(2 * math.pi * math.e) - 1.5), atol=1e-9)
    for shift, factor in [(0.05, 1.0), (-0.05, 1.0), (0.0, 1.05), (0.0, 0.95)]:
        other = gaussian_elbo(log_joint, mean + shift, factor * L, nodes, weights)
        assert other < best


def bound(log_joint, mean, scale_tril):
    nodes, weights = gauss_hermite(3, 2)
    return gaussian_elbo(log_joint, mean, scale_tril, nodes, weights)


test_bad_input_is_refused = refused(
    (lambda: fit_gaussian(lambda w: -(w**2).sum(-1), MEAN + 100, SCALE, n_steps=1), "gradient"),
    (lambda: bound(lambda w: -w[:, 0], MEAN[:, None], SCALE.diag()), r"scale_tril \(K, K\), got"),
    (lambda: bound(lambda w: -w[:, 0], MEAN, torch.ones(2, 2).to(MEAN)), "lower triangular"),
    (lambda: bound(lambda w: -w[:, :1], MEAN, SCALE.diag()), "log_joint must give"),
    errors=(RuntimeError, ValueError),
)
