import math

import pytest
import torch

from bdl_lessons.reference import BayesLinear, fit_gaussian, gauss_hermite, gaussian_elbo


def close(actual, expected, atol=1e-9):
    torch.testing.assert_close(
        actual, torch.as_tensor(expected, dtype=torch.float64), rtol=0, atol=atol
    )


@pytest.fixture
def model():
    Phi = torch.tensor([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]], dtype=torch.float64)
    return BayesLinear(Phi, torch.tensor([2.0, 3.0, 5.0]).double(), 1.0, 1.0)


@pytest.fixture
def log_joint(model):
    def log_joint(w):
        squares = (model.y - w @ model.Phi.mT).square().sum(-1) + w.square().sum(-1)
        return -0.5 * (squares + 5 * math.log(2 * math.pi))

    return log_joint


def start(scale=0.7):
    return torch.zeros(2, dtype=torch.float64), torch.full((2,), scale, dtype=torch.float64)


def test_quadrature_integrates_normal_moments():
    nodes, weights = gauss_hermite(6, 2)
    assert nodes.shape == (36, 2)
    close(weights.sum(), 1.0)
    close(weights @ nodes, [0.0, 0.0])
    close(weights @ nodes[:, 0] ** 4, 3.0)
    close(weights @ (nodes[:, 0] ** 2 * nodes[:, 1] ** 4), 3.0)
    close(gauss_hermite(3, 1)[1] @ gauss_hermite(3, 1)[0], [0.0])


def test_the_bound_is_that_of_the_closed_form(model, log_joint):
    L = torch.tensor([[0.5, 0.0], [-0.3, 0.2]], dtype=torch.float64)
    mean = torch.tensor([0.1, 0.9], dtype=torch.float64)
    bound = gaussian_elbo(log_joint, mean, L, *gauss_hermite(4, 2))
    close(bound, model.elbo(mean, L @ L.mT))


def test_draws_with_equal_weights_estimate_the_same_bound(model, log_joint):
    L = torch.tensor([[0.5, 0.0], [-0.3, 0.2]], dtype=torch.float64)
    mean = torch.tensor([0.1, 0.9], dtype=torch.float64)
    nodes = torch.randn(20_000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = torch.full((20_000,), 1 / 20_000, dtype=torch.float64)
    close(gaussian_elbo(log_joint, mean, L, nodes, weights), model.elbo(mean, L @ L.mT), atol=0.1)


def test_the_fit_finds_a_gaussian_posterior(model, log_joint):
    mean, L = fit_gaussian(log_joint, *start(), n_nodes=4)
    close(mean, model.mean, atol=1e-6)
    close(L @ L.mT, model.cov, atol=1e-6)
    assert not mean.requires_grad
    assert not L.requires_grad


def test_the_mean_field_fit_finds_the_closed_form(model, log_joint):
    mean, L = fit_gaussian(log_joint, *start(), mean_field=True, n_nodes=4)
    expected_mean, expected_var = model.mean_field()
    close(mean, expected_mean, atol=1e-6)
    close(L @ L.mT, expected_var.diag(), atol=1e-6)


def test_the_fit_is_a_maximum_for_a_skewed_posterior():
    """For log p = w - e^w the bound is m - e^(m + s²/2) + log(s) + ...: best at m = -1/2, s = 1."""

    def log_joint(w):
        return (w - w.exp()).sum(-1)

    mean, L = fit_gaussian(log_joint, *start())
    nodes, weights = gauss_hermite(40, 2)
    best = gaussian_elbo(log_joint, mean, L, nodes, weights)
    close(mean, [-0.5, -0.5], atol=1e-6)
    close(L, torch.eye(2), atol=1e-6)
    close(best, 2 * (0.5 * math.log(2 * math.pi * math.e) - 1.5), atol=1e-9)
    for shift, factor in [(0.05, 1.0), (-0.05, 1.0), (0.0, 1.05), (0.0, 0.95)]:
        assert gaussian_elbo(log_joint, mean + shift, factor * L, nodes, weights) < best


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="n_nodes"):
        gauss_hermite(0, 2)
    mean, scale = start()
    with pytest.raises(ValueError, match="scale positive"):
        fit_gaussian(lambda w: -w.square().sum(-1), mean, -scale)
    with pytest.raises(ValueError, match="one length"):
        fit_gaussian(lambda w: -w.square().sum(-1), mean, scale[:1])
    nodes, weights = (t.to(mean) for t in gauss_hermite(3, 2))
    for at, scale_tril in ((mean[:, None], scale.diag()), (mean, scale), (mean, scale[:, None])):
        with pytest.raises(ValueError, match="scale_tril must be"):
            gaussian_elbo(lambda w: -w.square().sum(-1), at, scale_tril, nodes, weights)
    with pytest.raises(ValueError, match="scale_tril must be lower triangular"):
        gaussian_elbo(
            lambda w: -w.square().sum(-1), mean, torch.ones(2, 2).to(mean), nodes, weights
        )
    with pytest.raises(ValueError, match="log_joint has shape"):
        gaussian_elbo(lambda w: -w[:, :1], mean, scale.diag(), nodes, weights)
    with pytest.raises(RuntimeError, match="gradient"):
        fit_gaussian(lambda w: -w.square().sum(-1), mean + 100, scale, n_steps=1)
