"""Divergences as a table of cases: torch.distributions, quadrature, Monte Carlo, definitions."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Gamma, LogNormal, MultivariateNormal, Normal, kl_divergence

from bdl_lessons.probability import (
    dropout_mixture,
    gaussian_kl,
    gaussian_kl_full,
    gaussian_kl_to_prior,
    lognormal_gamma_kl,
    lognormal_kl,
    mixture_kl,
    mixture_kl_monte_carlo,
)
from tests.draws import normal, seeded
from tests.tables import refused


def covariance(L):
    return L @ L.mT + 0.5 * torch.eye(len(L), dtype=L.dtype)


def column(length, norm, p_drop):
    """A column of that length and Euclidean norm, as the mixture that dropout makes of it."""
    M = torch.full((length, 1), norm / math.sqrt(length), dtype=torch.float64)
    probs, means = dropout_mixture(M, p_drop)
    return probs, means[0]


def torch_kl(mean_q, var_q, mean_p, var_p):
    q = Normal(mean_q, var_q.sqrt())
    p = Normal(mean_p, var_p.sqrt())
    return kl_divergence(q, p).sum()


def mixture_kl_of(M, p_drop, var, prior_var=1.0):
    """The formula for the mixture that dropout makes of the columns of M."""
    probs, means = dropout_mixture(M, p_drop)
    return mixture_kl(probs, means, var, prior_var)


A = normal(4, 3, seed=1)
B = normal(4, 3, seed=2)
C = normal(4, 3, seed=3)
D = normal(4, 3, seed=4)
M = normal(3, 4)
ZERO = torch.zeros(1, dtype=torch.float64)
LONG_COLUMN = torch.full((50, 1), 5.0 / math.sqrt(50), dtype=torch.float64)
V = normal(5, seed=1)
W = normal(5, seed=2)
COV_V = covariance(normal(5, 5, seed=3))
COV_W = covariance(normal(5, 5, seed=4))
ENTROPY = -0.9 * math.log(0.9) - 0.1 * math.log(0.1)
EQUAL = {
    "Gaussian: torch's": (
        gaussian_kl(A, C.exp(), B, D.exp()),
        torch_kl(A, C.exp(), B, D.exp()),
    ),
    "Gaussian: each weight once": (
        gaussian_kl(torch.ones_like(M), 0.5),
        12 * gaussian_kl(ZERO + 1, 0.5),
    ),
    "Gaussian: a variance of 0": (gaussian_kl(ZERO, 0.0), math.inf),
    "to the prior: torch's": (
        gaussian_kl_to_prior(A, C, 0.3),
        torch_kl(A, C.exp(), torch.zeros_like(A), torch.full_like(A, 0.3)),
    ),
    "full: torch's": (
        gaussian_kl_full(V, COV_V, W, COV_W),
        kl_divergence(MultivariateNormal(V, COV_V), MultivariateNormal(W, COV_W)),
    ),
    "log-normal: a sum": (
        lognormal_kl(A, C),
        sum(lognormal_kl(a, c) for a, c in zip(A, C, strict=True)),
    ),
    "Gamma: a sum": (
        lognormal_gamma_kl(A, C, 2.0, 3.0),
        sum(lognormal_gamma_kl(a, c, 2.0, 3.0) for a, c in zip(A, C, strict=True)),
    ),
    "mixture: term by term": (
        mixture_kl_of(LONG_COLUMN, p_drop=0.1, var=0.01),
        0.9 / 2 * 25 + 0.5 * (50 * 0.01 - 50 - 50 * math.log(0.01)) - ENTROPY,
    ),
    "mixture: columns add up": (
        mixture_kl_of(M, p_drop=0.2, var=0.01),
        sum(mixture_kl_of(m[:, None], p_drop=0.2, var=0.01) for m in M.mT),
    ),
    "mixture: weight decay keep l² / 2": (
        mixture_kl_of(M, p_drop=0.3, var=0.01, prior_var=0.25)
        - mixture_kl_of(0 * M, p_drop=0.3, var=0.01, prior_var=0.25),
        0.7 / 0.25 / 2 * M.square().sum(),
    ),
    "mixture: nothing dropped": (
        mixture_kl_of(M, p_drop=0.0, var=0.01),
        gaussian_kl(M, 0.01),
    ),
}


@pytest.mark.parametrize("name", EQUAL)
def test_it_is(name):
    value, expected = EQUAL[name]
    assert value.shape == ()
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-9)


ONE_COMPONENT = (torch.ones(1).double(), normal(1, 4))


@pytest.mark.parametrize(
    ("mixture", "var", "prior_var", "least", "most"),
    [
        (column(50, 5.0, 0.1), 0.01, 1.0, 0.0, 0.0),
        (column(50, 0.02, 0.1), 0.01, 1.0, 0.9 * ENTROPY, ENTROPY),
        (ONE_COMPONENT, 0.5, 2.0, 0.0, 0.0),
        (column(5, 0.0, 0.5), 0.01, 1.0, 0.0, math.log(2)),
        (column(5, 0.2, 0.5), 0.01, 1.0, 0.0, math.log(2)),
    ],
    ids=["separated", "overlapping", "one component", "a coin, norm 0", "a coin, norm 0.2"],
)
def test_the_exact_divergence_is_the_formula_and_at_most_the_entropy_more(
    mixture, var, prior_var, least, most
):
    probs, means = mixture
    kl, error = mixture_kl_monte_carlo(
        probs, means, var, prior_var, n_samples=20_000, generator=seeded()
    )
    difference = kl - mixture_kl(probs, means, var, prior_var)
    assert error < 0.06
    assert least - 4 * error < difference < most + 4 * error


def test_monte_carlo_standard_error_is_the_spread_over_repetitions():
    probs, means = column(3, 0.3, 0.5)
    generator = seeded()
    values = []
    errors = []
    for _ in range(200):
        kl, error = mixture_kl_monte_carlo(probs, means, 0.01, n_samples=200, generator=generator)
        values.append(kl)
        errors.append(error)
    ratio = torch.stack(values).std() / torch.stack(errors).mean()
    assert ratio == pytest.approx(1.0, abs=0.2)


def test_the_standard_error_is_finite_where_nothing_is_dropped():
    probs, means = column(3, 1.0, 0.0)
    _, error = mixture_kl_monte_carlo(probs, means, 0.01, n_samples=10, generator=seeded())
    assert error.isfinite()


double = partial(torch.tensor, dtype=torch.float64)  # a number would be rounded to float32
reals = st.floats(-2, 2)
log_variances = st.floats(-4, 1)
positives = st.floats(0.2, 9)


@settings(max_examples=15)
@given(mu=reals, log_sigma2=log_variances, a=positives, b=positives)
def test_scales_by_quadrature_over_log_z(mu, log_sigma2, a, b):
    mu = double([mu])
    log_sigma2 = double([log_sigma2])
    std = (log_sigma2 / 2).exp()
    log_z = mu + std * torch.linspace(-12, 12, 2001, dtype=torch.float64)
    z = log_z.exp()
    log_q = LogNormal(mu, std).log_prob(z)

    def by_quadrature(prior):
        integrand = (log_q - prior.log_prob(z)) * (log_q + log_z).exp()
        return torch.trapezoid(integrand, log_z)

    kl = lognormal_kl(mu, log_sigma2, a - 4, math.log(b))
    expected = by_quadrature(LogNormal(double(a - 4), double(b**0.5)))
    torch.testing.assert_close(kl, expected, rtol=1e-7, atol=1e-7)

    kl = lognormal_gamma_kl(mu, log_sigma2, a, b)
    expected = by_quadrature(Gamma(double(a), double(b)))
    torch.testing.assert_close(kl, expected, rtol=1e-7, atol=1e-7)


def test_a_ratio_of_variances_that_underflows_has_a_logarithm():
    mean = torch.zeros(1)
    var_q = torch.tensor([1e-25])
    var_p = torch.tensor([1e25])
    var_q.requires_grad_()
    kl = gaussian_kl(mean, var_q, mean, var_p)
    kl.backward()
    assert kl.item() == pytest.approx(0.5 * (50 * math.log(10) - 1), rel=1e-6)
    assert var_q.grad.item() == pytest.approx(-0.5e25, rel=1e-6)


EYE = torch.eye(2)
ONES = torch.ones(2)
HALF = torch.tensor([0.5, 0.5])
MEANS = torch.zeros(2, 3)


def drawn(means=MEANS, n_samples=9):
    return mixture_kl_monte_carlo(HALF, means, 1.0, n_samples=n_samples, generator=seeded())


test_bad_arguments_are_named = refused(
    (lambda: gaussian_kl(ONES, ONES[:, None]), "var_q has shape"),
    (lambda: gaussian_kl_to_prior(ONES, ONES[:, None]), "log_sigma2 has"),
    (lambda: lognormal_kl(ONES, ONES[:1]), "log_sigma2 has"),
    (lambda: lognormal_gamma_kl(ONES, ONES[:1], 1.0, 1.0), "log_sigma2 has"),
    (lambda: lognormal_gamma_kl(ONES, ONES, 0.0, 1.0), "shape must be pos"),
    (lambda: gaussian_kl_full(ONES, EYE, ONES[:1], EYE), r"mean_p \(K,\), got"),
    (lambda: gaussian_kl_full(ONES, torch.eye(3), ONES, EYE), "cov_q must be"),
    (lambda: gaussian_kl_full(ONES, EYE - 2, ONES, EYE), "cov_q must be positive"),
    (lambda: mixture_kl(HALF[:1], MEANS, 1.0), r"means must be .*probs \(C,\), got"),
    (lambda: mixture_kl(HALF, MEANS, torch.ones(3, 1)), "var has shape"),
    (lambda: mixture_kl(HALF, MEANS, 1.0, torch.ones(3)), "prior_var has"),
    (lambda: drawn(n_samples=1), "n_samples"),
    (lambda: drawn(means=MEANS[None]), "one mixture"),
    (lambda: dropout_mixture(ONES, 0.5), r"must be \(L, K\), got"),
)
