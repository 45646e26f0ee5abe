"""Divergences of log-normal scales against quadrature, Monte Carlo and torch.distributions."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from torch.distributions import Gamma, LogNormal

from bdl_lessons.probability import lognormal_gamma_kl, lognormal_kl

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


@settings(max_examples=15, deadline=None)
@given(mu=reals, log_sigma2=log_variances, prior_mu=reals, prior_log_sigma2=log_variances)
def test_lognormal_prior_by_quadrature(mu, log_sigma2, prior_mu, prior_log_sigma2):
    prior = LogNormal(scalar(prior_mu), scalar(math.exp(prior_log_sigma2 / 2)))
    kl = lognormal_kl(scalar(mu), scalar(log_sigma2), prior_mu, prior_log_sigma2)
    assert kl.item() == pytest.approx(by_quadrature(mu, log_sigma2, prior), abs=1e-7, rel=1e-7)


@settings(max_examples=15, deadline=None)
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

    @pytest.mark.parametrize(
        ("mu", "log_sigma2", "says"),
        [
            (torch.ones(2), torch.ones(3), "each scale needs one of each"),
            (torch.tensor([math.nan]), torch.ones(1), "mu must be finite"),
            (torch.ones(1), torch.tensor([math.nan]), "is a variance"),
            (torch.ones(1), torch.tensor([1e4]), "is a variance"),
        ],
    )
    def test_bad_input_is_named(self, kl, mu, log_sigma2, says):
        with pytest.raises(ValueError, match=says):
            kl(mu, log_sigma2)

    def test_integers_are_refused(self, kl):
        with pytest.raises(TypeError, match="mu must be a floating-point tensor"):
            kl(torch.ones(2, dtype=torch.int), torch.ones(2))


def test_the_divergence_from_itself_is_zero():
    mu, log_sigma2 = scalar(0.7), scalar(-1.3)
    assert lognormal_kl(mu, log_sigma2, mu, log_sigma2).item() == pytest.approx(0, abs=1e-12)


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
def test_a_gamma_law_needs_positive_numbers(shape, rate, name):
    with pytest.raises(ValueError, match=f"{name} must be positive and finite"):
        lognormal_gamma_kl(scalar(0.0), scalar(0.0), shape, rate)
