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

N = 7
K = 3
REGRESSION = {
    "x": normal(N, K, seed=1),
    "y": normal(N, seed=2),
    "mu": normal(K, seed=3),
    "var": torch.tensor([0.3, 0.05, 0.6], dtype=torch.float64),
    "tau": 1.7,
}


def sampled_terms(quantity, estimator, n_draws):
    """``(S, N, P)`` terms by autograd, each draw shared by all rows only for per minibatch."""
    x = REGRESSION["x"]
    mu = REGRESSION["mu"].expand(n_draws, N, K).clone().requires_grad_()
    log_sigma2 = REGRESSION["var"].log().expand(n_draws, N, K).clone().requires_grad_()
    sigma2 = log_sigma2.exp()
    if estimator == "local":
        zeta = normal(n_draws, N, seed=4)
        mean = (x * mu).sum(-1)
        std = (x**2 * sigma2).sum(-1).sqrt()
        outputs = mean + std * zeta
    else:
        n_rows = 1 if estimator == "per minibatch" else N
        eps = normal(n_draws, n_rows, K, seed=5)
        outputs = (x * (mu + sigma2.sqrt() * eps)).sum(-1)
    loss = REGRESSION["tau"] / 2 * (REGRESSION["y"] - outputs) ** 2
    if quantity == "loss":
        return loss.detach()[..., None]
    wanted = {"mu": mu, "log_sigma2": log_sigma2}[quantity]
    (gradient,) = torch.autograd.grad(loss.sum(), wanted)
    return gradient


def parts_from_draws(values):
    """Data, noise and shared part of ``values[s, i]``, the term of example i under draw s."""
    noise = values.var(0).mean()
    shared = values.mean(1).var(0).mean()
    error_of_means = (noise - shared) / len(values)
    data = values.mean(0).var(0, correction=0).mean() - error_of_means
    return VarianceParts(data=data.item(), noise=noise.item(), shared=shared.item())


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("quantity", QUANTITIES.values())
def test_closed_form_parts_are_those_of_autograd_draws(quantity, estimator):
    terms = sampled_terms(quantity, estimator, 60_000)
    measured = parts_from_draws(terms)
    exact = regression_parts(**REGRESSION, quantity=quantity, estimator=estimator)
    assert measured.data == pytest.approx(exact.data, rel=0.05, abs=1e-4)
    assert measured.noise == pytest.approx(exact.noise, rel=0.04)
    if estimator == "per minibatch":
        assert measured.shared == pytest.approx(exact.shared, rel=0.05)
    else:
        assert exact.shared == 0


@pytest.mark.parametrize("batch_size", [1, 3, 20])
def test_the_parts_add_up_to_the_variance_of_the_minibatch_estimator(batch_size):
    n_batches = 60_000
    rows = torch.randint(N, (n_batches, batch_size), generator=seeded(6))
    w = REGRESSION["mu"] + REGRESSION["var"].sqrt() * normal(n_batches, K, seed=7)
    outputs = torch.einsum("smk,sk->sm", REGRESSION["x"][rows], w)
    losses = REGRESSION["tau"] / 2 * (REGRESSION["y"][rows] - outputs) ** 2
    estimates = N * losses.mean(1)
    parts = regression_parts(**REGRESSION, quantity="loss", estimator="per minibatch")
    assert estimates.var().item() == pytest.approx(sum(parts.at(batch_size, N)), rel=0.05)


def test_a_row_of_zeros_has_no_noise():
    parts = regression_parts(
        x=torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.float64),
        y=torch.ones(2).double(),
        mu=torch.ones(2).double(),
        var=torch.ones(2).double(),
        tau=1.0,
        quantity="log_sigma2",
        estimator="local",
    )
    assert all(math.isfinite(part) for part in parts)
