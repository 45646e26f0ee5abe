"""Divergences against torch.distributions, Monte Carlo and what the definition implies."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from torch.distributions import Gamma, LogNormal, MultivariateNormal, Normal, kl_divergence

from bdl_lessons.probability import (
    dropout_mixture,
    gaussian_kl,
    gaussian_kl_full,
    gaussian_kl_to_prior,
    kl,
    kl_fast,
    lognormal_gamma_kl,
    lognormal_kl,
    mixture_kl,
    mixture_kl_monte_carlo,
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def covariance(L):
    return L @ L.mT + 0.5 * torch.eye(len(L), dtype=L.dtype)


def close(actual, expected, atol=1e-12):
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=atol)


# Diagonal Gaussians


def test_gaussian_kl_is_the_sum_of_the_elementwise_divergences():
    mean_q, mean_p = randn(4, 3, seed=1), randn(4, 3, seed=2)
    var_q, var_p = randn(4, 3, seed=3).exp(), randn(4, 3, seed=4).exp()
    expected = kl_divergence(Normal(mean_q, var_q.sqrt()), Normal(mean_p, var_p.sqrt())).sum()
    close(gaussian_kl(mean_q, var_q, mean_p, var_p), expected)


def test_gaussian_kl_measures_q_from_p_and_not_p_from_q():
    zero = torch.zeros(1, dtype=torch.float64)
    close(gaussian_kl(zero, 4.0, zero, 1.0), torch.tensor(1.5 - math.log(2), dtype=torch.float64))
    close(gaussian_kl(zero, 1.0, zero, 4.0), torch.tensor(math.log(2) - 0.375, dtype=torch.float64))


def test_gaussian_kl_counts_every_weight_once_with_scalar_parameters():
    per_weight = gaussian_kl(torch.ones(1), 0.5)
    torch.testing.assert_close(gaussian_kl(torch.ones(7, 11), 0.5), 77 * per_weight)


@pytest.mark.parametrize("shape", [(3, 1), (2, 3), (4,)])
def test_gaussian_kl_refuses_a_shape_that_would_count_weights_twice(shape):
    with pytest.raises(ValueError, match="var_q has shape"):
        gaussian_kl(torch.zeros(3), torch.ones(shape))


def test_integer_weights_are_a_type_error():
    with pytest.raises(TypeError, match="mean_q"):
        gaussian_kl(torch.zeros(2, dtype=torch.long), 1.0)
    with pytest.raises(TypeError, match="float"):
        gaussian_kl(0.0, 1.0)


@settings(max_examples=50)
@given(st.floats(-5, 5), st.floats(-8, 8), st.floats(1e-3, 1e3))
def test_the_log_variance_form_agrees_and_is_never_negative(mean, log_sigma2, prior_var):
    mean = torch.tensor([[mean, -mean]], dtype=torch.float64)
    log_sigma2 = torch.full_like(mean, log_sigma2)
    kl = gaussian_kl_to_prior(mean, log_sigma2, prior_var)
    assert kl >= 0
    assert kl.dim() == 0
    torch.testing.assert_close(
        kl, gaussian_kl(mean, log_sigma2.exp(), 0.0, prior_var), rtol=1e-9, atol=1e-9
    )


def test_the_log_variance_form_is_zero_at_the_prior_even_in_float32():
    prior_var = 0.037
    log_sigma2 = torch.full((1_000_000,), math.log(prior_var))
    assert gaussian_kl_to_prior(torch.zeros(1_000_000), log_sigma2, prior_var).abs() < 1e-6


def test_the_log_variance_form_needs_one_shape():
    for shape in [(3, 1), (1,), ()]:
        with pytest.raises(ValueError, match="log_sigma2 has"):
            gaussian_kl_to_prior(torch.zeros(3), torch.zeros(shape))


@pytest.mark.parametrize("prior_var", [1.0, 0.3])
def test_the_fast_form_has_the_value_and_gradient_of_the_formula(prior_var):
    found, expected = [], []
    for module, results in ((kl_fast, found), (kl, expected)):
        mean, log_sigma2 = randn(4, 3).requires_grad_(), (3 * randn(4, 3, seed=1)).requires_grad_()
        value = module.gaussian_kl_to_prior(mean, log_sigma2, prior_var)
        results += [value, *torch.autograd.grad(2 * value, (mean, log_sigma2))]
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_what_is_not_a_number_stays_so():
    nan = torch.tensor([0.0, math.nan])
    for value in (
        gaussian_kl(nan, 1.0),
        gaussian_kl(torch.zeros(2), -1.0),
        gaussian_kl_to_prior(torch.zeros(2), nan),
        lognormal_kl(nan, torch.zeros(2)),
        lognormal_gamma_kl(torch.zeros(2), nan, 1.0, 1.0),
    ):
        assert value.isnan()
    assert gaussian_kl(torch.zeros(2), 0.0) == math.inf


# Full covariance


def test_full_covariance_against_torch_distributions():
    mean_q, mean_p = randn(5, seed=1), randn(5, seed=2)
    cov_q, cov_p = covariance(randn(5, 5, seed=3)), covariance(randn(5, 5, seed=4))
    expected = kl_divergence(MultivariateNormal(mean_q, cov_q), MultivariateNormal(mean_p, cov_p))
    close(gaussian_kl_full(mean_q, cov_q, mean_p, cov_p), expected, atol=1e-11)


def test_full_covariance_reduces_to_the_diagonal_form():
    mean_q, mean_p = randn(4, seed=1), randn(4, seed=2)
    var_q, var_p = randn(4, seed=3).exp(), randn(4, seed=4).exp()
    close(
        gaussian_kl_full(mean_q, var_q.diag(), mean_p, var_p.diag()),
        gaussian_kl(mean_q, var_q, mean_p, var_p),
    )


def test_full_covariance_does_not_change_when_the_weights_are_mixed_linearly():
    mean_q, mean_p, A = randn(3, seed=1), randn(3, seed=2), randn(3, 3, seed=5) + 2 * torch.eye(3)
    cov_q, cov_p = covariance(randn(3, 3, seed=3)), covariance(randn(3, 3, seed=4))
    mixed = gaussian_kl_full(A @ mean_q, A @ cov_q @ A.mT, A @ mean_p, A @ cov_p @ A.mT)
    close(mixed, gaussian_kl_full(mean_q, cov_q, mean_p, cov_p), atol=1e-9)


def test_full_covariance_checks_what_it_is_given():
    m, eye = torch.zeros(2), torch.eye(2)
    for shape in [(3,), (1,), (2, 1), ()]:
        with pytest.raises(ValueError, match="mean_p must have shape"):
            gaussian_kl_full(m, eye, torch.zeros(shape), eye)
    with pytest.raises(ValueError, match="mean_q must have shape"):
        gaussian_kl_full(m[:, None], eye, m, eye)
    with pytest.raises(ValueError, match="cov_q must have shape"):
        gaussian_kl_full(m, torch.eye(3), m, eye)
    with pytest.raises(ValueError, match="cov_p must be symmetric"):
        gaussian_kl_full(m, eye, m, torch.tensor([[1.0, 0.5], [0.0, 1.0]]))
    with pytest.raises(ValueError, match="cov_q must be positive definite"):
        gaussian_kl_full(m, torch.tensor([[1.0, 2.0], [2.0, 1.0]]), m, eye)


def test_gradients():
    leaf = [randn(3, seed=s).requires_grad_() for s in range(4)]
    assert torch.autograd.gradcheck(lambda m, s, n, t: gaussian_kl(m, s.exp(), n, t.exp()), leaf)
    assert torch.autograd.gradcheck(lambda m, s: gaussian_kl_to_prior(m, s, 0.3), leaf[:2])
    factors = [randn(3, 3, seed=s).requires_grad_() for s in (5, 6)]
    assert torch.autograd.gradcheck(
        lambda m, L, n, T: gaussian_kl_full(m, covariance(L), n, covariance(T)),
        (leaf[0], factors[0], leaf[1], factors[1]),
    )
    probs = torch.tensor([0.7, 0.3], dtype=torch.float64)
    means = randn(2, 3, seed=7).requires_grad_()
    assert torch.autograd.gradcheck(lambda m, s: mixture_kl(probs, m, s.exp()), (means, leaf[0]))


# The mixture of dropout


def column(length, norm, p_drop):
    """A column of that length and Euclidean norm, as the mixture that dropout makes of it."""
    M = torch.full((length, 1), norm / math.sqrt(length), dtype=torch.float64)
    probs, means = dropout_mixture(M, p_drop)
    return probs, means[0]


@pytest.mark.parametrize(
    ("prior_var", "n_samples"),
    [(1.0, 20_000), (100.0, 20_000)],
    ids=["unit prior", "length scale 0.1"],
)
def test_separated_components_agree_with_monte_carlo(prior_var, n_samples):
    probs, means = column(length=50, norm=5.0, p_drop=0.1)
    kl, error = mixture_kl_monte_carlo(
        probs, means, 0.01, prior_var, n_samples=n_samples, generator=seeded()
    )
    assert error < 0.06
    assert (kl - mixture_kl(probs, means, 0.01, prior_var)).abs() < 4 * error


def test_separated_components_term_by_term():
    """The formula written out for one column: K = 50, |m| = 5, s = 0.1, keep = 0.9, l = 1."""
    probs, means = column(length=50, norm=5.0, p_drop=0.1)
    entropy = -0.9 * math.log(0.9) - 0.1 * math.log(0.1)
    noise = 0.5 * (50 * 0.01 - 50 - 50 * math.log(0.01))
    expected = 0.9 / 2 * 25 + noise - entropy
    assert mixture_kl(probs, means, 0.01).item() == pytest.approx(expected, abs=1e-12)
    assert expected == pytest.approx(101.304, abs=5e-4)


def test_overlapping_components_lose_the_entropy_of_the_choice():
    """|m| = 0.02 against s = 0.1: one Gaussian, and H(p) is subtracted for nothing."""
    probs, means = column(length=50, norm=0.02, p_drop=0.1)
    kl, error = mixture_kl_monte_carlo(probs, means, 0.01, n_samples=20_000, generator=seeded())
    formula = mixture_kl(probs, means, 0.01)
    entropy = -torch.xlogy(probs, probs).sum()
    assert kl - formula > 0.9 * entropy
    assert kl - formula < entropy + 4 * error


@pytest.mark.parametrize("norm", [0.0, 0.1, 0.2, 0.4, 1.0])
def test_the_exact_divergence_lies_between_the_formula_and_the_formula_plus_the_entropy(norm):
    probs, means = column(length=5, norm=norm, p_drop=0.5)
    kl, error = mixture_kl_monte_carlo(probs, means, 0.01, n_samples=4000, generator=seeded())
    low = mixture_kl(probs, means, 0.01)
    assert low - 4 * error < kl < low + math.log(2) + 4 * error


def test_monte_carlo_of_a_single_component_is_the_gaussian_divergence():
    mean = randn(1, 4)
    kl, error = mixture_kl_monte_carlo(
        torch.ones(1, dtype=torch.float64), mean, 0.5, 2.0, n_samples=20_000, generator=seeded()
    )
    assert (kl - gaussian_kl(mean, 0.5, 0.0, 2.0)).abs() < 4 * error


def test_monte_carlo_standard_error_is_the_spread_over_repetitions():
    probs, means = column(length=3, norm=0.3, p_drop=0.5)
    runs = [
        mixture_kl_monte_carlo(probs, means, 0.01, n_samples=200, generator=seeded(s))
        for s in range(200)
    ]
    values, errors = (torch.stack(column) for column in zip(*runs, strict=True))
    assert values.std() / errors.mean() == pytest.approx(1.0, abs=0.2)


def test_columns_of_a_matrix_add_up():
    M = randn(3, 4)
    probs, means = dropout_mixture(M, 0.2)
    assert means.shape == (4, 2, 3)
    close(means[:, 0].mT, M)
    close(means[:, 1], torch.zeros(4, 3, dtype=torch.float64))
    close(mixture_kl(probs, means, 0.01), sum(mixture_kl(probs, column, 0.01) for column in means))


def test_what_depends_on_the_means_is_keep_times_l2():
    """The part that becomes weight decay: keep l^2 / 2 ||M||^2, with a plus sign."""
    M, p_drop, prior_var = randn(3, 4), 0.3, 0.25
    full = mixture_kl(*dropout_mixture(M, p_drop), 0.01, prior_var)
    none = mixture_kl(*dropout_mixture(0 * M, p_drop), 0.01, prior_var)
    close(full - none, 0.7 / prior_var / 2 * M.square().sum(), atol=1e-10)


@pytest.mark.parametrize("p_drop", [0.0, 1.0])
def test_without_a_choice_the_mixture_is_one_gaussian(p_drop):
    M = randn(3, 4)
    kl = mixture_kl(*dropout_mixture(M, p_drop), 0.01)
    close(kl, gaussian_kl((1 - p_drop) * M, 0.01), atol=1e-10)
    _, error = mixture_kl_monte_carlo(
        *column(3, 1.0, p_drop), 0.01, n_samples=10, generator=seeded()
    )
    assert error.isfinite()


def test_the_divergence_grows_without_limit_as_the_components_narrow():
    probs, means = column(length=10, norm=1.0, p_drop=0.5)
    steps = [mixture_kl(probs, means, 10.0**-k).item() for k in range(2, 9)]
    growth = [b - a for a, b in itertools.pairwise(steps)]
    assert growth[-1] == pytest.approx(10 / 2 * math.log(10), rel=1e-5)


def test_mixtures_check_what_they_are_given():
    probs, means = torch.tensor([0.5, 0.5]), torch.zeros(2, 3)
    cases = [
        ((torch.ones(3) / 3, means, 1.0), "one row per entry"),
        ((probs[:, None], means, 1.0), "one row per entry"),
        ((probs[:1], means, 1.0), "one row per entry"),
        ((probs, means, torch.ones(3, 1)), "var has shape"),
        ((probs, means, 1.0, torch.ones(3)), "prior_var has shape"),
    ]
    for arguments, message in cases:
        with pytest.raises(ValueError, match=message):
            mixture_kl(*arguments)
    with pytest.raises(ValueError, match="n_samples"):
        mixture_kl_monte_carlo(probs, means, 1.0, n_samples=1, generator=seeded())
    with pytest.raises(ValueError, match="one mixture"):
        mixture_kl_monte_carlo(probs, means[None], 1.0, n_samples=9, generator=seeded())
    with pytest.raises(ValueError, match="matrix"):
        dropout_mixture(torch.zeros(2), 0.5)


def test_a_ratio_of_variances_that_underflows_has_a_logarithm():
    mean, var_q, var_p = torch.zeros(1), torch.tensor([1e-25]), torch.tensor([1e25])
    expected = 0.5 * (math.log(1e25) - math.log(1e-25) - 1)
    var_q.requires_grad_()
    kl = gaussian_kl(mean, var_q, mean, var_p)
    kl.backward()
    assert kl.item() == pytest.approx(expected, rel=1e-6)
    assert var_q.grad.item() == pytest.approx(-0.5e25, rel=1e-6)


# Log-normal scales

reals = st.floats(-2, 2)
log_variances = st.floats(-4, 1)


def scalar(value):
    return torch.tensor([value], dtype=torch.float64)


def by_quadrature(mu, log_sigma2, prior):
    """The definition, integrated over u = log z."""
    q = LogNormal(scalar(mu), scalar(math.exp(log_sigma2 / 2)))

    def integrand(u):
        z = scalar(math.exp(u))
        log_q = q.log_prob(z)
        return ((log_q - prior.log_prob(z)) * (log_q + u).exp()).item()

    std = math.exp(log_sigma2 / 2)
    return quad(integrand, mu - 12 * std, mu + 12 * std, limit=200)[0]


@settings(max_examples=15)
@given(mu=reals, log_sigma2=log_variances, prior_mu=reals, prior_log_sigma2=log_variances)
def test_lognormal_prior_by_quadrature(mu, log_sigma2, prior_mu, prior_log_sigma2):
    prior = LogNormal(scalar(prior_mu), scalar(math.exp(prior_log_sigma2 / 2)))
    kl = lognormal_kl(scalar(mu), scalar(log_sigma2), prior_mu, prior_log_sigma2)
    assert kl.item() == pytest.approx(by_quadrature(mu, log_sigma2, prior), abs=1e-7, rel=1e-7)


@settings(max_examples=15)
@given(mu=reals, log_sigma2=log_variances, shape=st.floats(0.2, 9), rate=st.floats(0.2, 9))
def test_gamma_prior_by_quadrature(mu, log_sigma2, shape, rate):
    prior = Gamma(scalar(shape), scalar(rate))
    kl = lognormal_gamma_kl(scalar(mu), scalar(log_sigma2), shape, rate)
    assert kl.item() == pytest.approx(by_quadrature(mu, log_sigma2, prior), abs=1e-7, rel=1e-7)


@pytest.mark.parametrize("kl", [lognormal_kl, lambda m, s: lognormal_gamma_kl(m, s, 2.0, 3.0)])
class TestEither:
    def test_it_is_a_sum_over_scales(self, kl):
        g = torch.Generator().manual_seed(0)
        mu, log_sigma2 = torch.randn(2, 3, 4, generator=g, dtype=torch.float64)
        each = [kl(m, s) for m, s in zip(mu.view(-1, 1), log_sigma2.view(-1, 1), strict=True)]
        torch.testing.assert_close(kl(mu, log_sigma2), sum(each))
        assert kl(mu, log_sigma2).dim() == 0

    def test_gradients(self, kl):
        g = torch.Generator().manual_seed(1)
        mu, log_sigma2 = torch.randn(2, 5, generator=g, dtype=torch.float64)
        arguments = mu.requires_grad_(), log_sigma2.requires_grad_()
        assert torch.autograd.gradcheck(kl, arguments)

    @pytest.mark.parametrize("shape", [(3,), (1,), (2, 1), ()])
    def test_one_mean_and_one_variance_for_each_scale(self, kl, shape):
        with pytest.raises(ValueError, match="log_sigma2 has"):
            kl(torch.ones(2), torch.ones(shape))


def test_integer_scales_are_a_type_error():
    with pytest.raises(TypeError, match="mu must be a floating-point tensor"):
        lognormal_kl(torch.ones(2, dtype=torch.int), torch.ones(2))


def test_the_divergence_from_itself_is_zero():
    mu, log_sigma2 = scalar(0.7), scalar(-1.3)
    assert lognormal_kl(mu, log_sigma2, mu, log_sigma2).item() == pytest.approx(0, abs=1e-14)


def test_many_draws_agree_with_the_closed_form():
    mu, log_sigma2 = torch.tensor([0.3, -1.0]).double(), torch.tensor([-0.5, 0.4]).double()
    rng = np.random.default_rng(0)
    std = (log_sigma2 / 2).exp()
    z = torch.from_numpy(rng.standard_normal((200_000, 2))).mul(std).add(mu).exp()
    log_ratio = LogNormal(mu, std).log_prob(z)
    log_ratio -= Gamma(torch.tensor(1.5).double(), torch.tensor(0.5).double()).log_prob(z)
    draws = log_ratio.sum(1)
    error = 4 * draws.std() / len(draws) ** 0.5
    assert abs(draws.mean() - lognormal_gamma_kl(mu, log_sigma2, 1.5, 0.5)) < error


@pytest.mark.parametrize(("shape", "rate"), [(2.0, 3.0), (0.5, 1.0)])
def test_the_best_mean_is_that_of_the_gamma_prior(shape, rate):
    mu = scalar(0.0).requires_grad_()
    best = math.log(shape / rate) - 0.3 / 2
    for offset, sign in ((0.0, 0), (0.1, 1), (-0.1, -1)):
        kl = lognormal_gamma_kl(mu + best + offset, scalar(math.log(0.3)), shape, rate)
        (slope,) = torch.autograd.grad(kl, mu)
        assert np.sign(round(slope.item(), 12)) == sign


@pytest.mark.parametrize(("shape", "rate", "name"), [(0.0, 1.0, "shape"), (1.0, math.nan, "rate")])
def test_a_gamma_distribution_needs_positive_numbers(shape, rate, name):
    with pytest.raises(ValueError, match=f"{name} must be positive and finite"):
        lognormal_gamma_kl(scalar(0.0), scalar(0.0), shape, rate)
