import math

import pytest
import torch

from bdl_lessons.panels.minibatch_variance import (
    ESTIMATORS,
    QUANTITIES,
    VarianceParts,
    regression_parts,
)
from tests.draws import normal, seeded

N, K, TAU = 7, 3, 1.7
VAR = torch.tensor([0.3, 0.05, 0.6], dtype=torch.float64)
REGRESSION = normal(N, K, seed=1), normal(N, seed=2), normal(K, seed=3), VAR, TAU


def sampled_terms(quantity, estimator, n_draws):
    """``(S, N, P)`` terms by autograd, each draw shared by all rows only for per minibatch."""
    x, y, mu, var, tau = REGRESSION
    mu = mu.expand(n_draws, N, K).clone().requires_grad_()
    log_sigma2 = var.log().expand(n_draws, N, K).clone().requires_grad_()
    sigma2 = log_sigma2.exp()
    if estimator == "local":
        zeta = normal(n_draws, N, seed=4)
        b = (x * mu).sum(-1) + (x**2 * sigma2).sum(-1).sqrt() * zeta
    else:
        eps = normal(n_draws, 1 if estimator == "per minibatch" else N, K, seed=5)
        b = (x * (mu + sigma2.sqrt() * eps)).sum(-1)
    loss = tau / 2 * (y - b) ** 2
    if quantity == "loss":
        return loss.detach()[..., None]
    return torch.autograd.grad(loss.sum(), {"mu": mu, "log_sigma2": log_sigma2}[quantity])[0]


def parts_from_draws(values):
    """Data, noise and shared part of ``values[s, i]``, the term of example i under draw s."""
    noise = values.var(0).mean()
    shared = values.mean(1).var(0).mean()
    data = values.mean(0).var(0, correction=0).mean() - (noise - shared) / len(values)
    return VarianceParts(data.item(), noise.item(), shared.item())


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("quantity", QUANTITIES.values())
def test_closed_form_parts_are_those_of_autograd_draws(quantity, estimator):
    terms = sampled_terms(quantity, estimator, 60_000)
    measured = parts_from_draws(terms)
    exact = regression_parts(*REGRESSION, quantity, estimator)
    assert measured.data == pytest.approx(exact.data, rel=0.05, abs=1e-4)
    assert measured.noise == pytest.approx(exact.noise, rel=0.04)
    if estimator == "per minibatch":
        assert measured.shared == pytest.approx(exact.shared, rel=0.05)
    else:
        assert exact.shared == 0


@pytest.mark.parametrize("batch_size", [1, 3, 20])
def test_the_parts_add_up_to_the_variance_of_the_minibatch_estimator(batch_size):
    x, y, mu, var, tau = REGRESSION
    n_batches = 60_000
    rows = torch.randint(N, (n_batches, batch_size), generator=seeded(6))
    w = mu + var.sqrt() * normal(n_batches, K, seed=7)
    b = torch.einsum("smk,sk->sm", x[rows], w)
    estimate = N * (tau / 2 * (y[rows] - b) ** 2).mean(1)
    parts = regression_parts(*REGRESSION, "loss", "per minibatch").at(batch_size, N)
    assert estimate.var().item() == pytest.approx(sum(parts), rel=0.05)


def test_a_row_of_zeros_has_no_noise():
    x = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.float64)
    y = torch.ones(2).double()
    mu = torch.ones(2).double()
    var = torch.ones(2).double()
    parts = regression_parts(x, y, mu, var, 1.0, "log_sigma2", "local")
    assert all(map(math.isfinite, parts))
