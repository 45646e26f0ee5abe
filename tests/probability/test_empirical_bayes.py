"""The empirical-Bayes KL against explicit Gaussian divergences."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bdl_lessons.probability import (
    best_precision,
    column_marginal_kl,
    empirical_bayes_kl,
    gaussian_kl,
    gaussian_kl_full,
    orthogonal_matrix,
    rotated_variance,
)

cases = given(st.integers(0, 5), st.integers(1, 7), st.integers(1, 4), st.integers(0, 2**31))


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def distribution(n_reflections, n_units, seed):
    """``log_alpha``, the variances after the rotation and the covariance of the noise."""
    log_alpha, vectors = draw(n_units, seed=seed), draw(n_reflections, n_units, seed=seed + 1)
    U = orthogonal_matrix(vectors)
    cov = U @ log_alpha.exp().diag() @ U.T
    return log_alpha, rotated_variance(log_alpha.exp(), vectors), cov


def weights(n_units, n_columns, seed=0):
    theta = draw(n_units, n_columns, seed=seed)
    return theta + theta.sign() * 0.01


@cases
@settings(max_examples=40)
def test_it_is_the_sum_of_the_gaussian_divergences_at_the_best_precision(T, K, Q, seed):
    log_alpha, s, cov = distribution(T, K, seed)
    theta = weights(K, Q, seed)
    precision = best_precision(theta, s)
    columns = sum(
        gaussian_kl_full(t, t[:, None] * cov * t, torch.zeros_like(t), (1 / b).diag())
        for t, b in zip(theta.T, precision.T, strict=True)
    )
    found = empirical_bayes_kl(log_alpha, s, Q)
    torch.testing.assert_close(found, columns, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(found, column_marginal_kl(theta, cov, precision), rtol=1e-9, atol=0)


@cases
@settings(max_examples=40)
def test_any_other_precision_has_a_larger_divergence(T, K, Q, seed):
    log_alpha, s, cov = distribution(T, K, seed)
    theta = weights(K, Q, seed)
    factor = (0.5 * draw(K, Q, seed=seed + 2)).exp()
    other = column_marginal_kl(theta, cov, factor * best_precision(theta, s))
    # the minimum is separable: a precision that is wrong by a factor f adds (f - 1 - log f) / 2
    excess = (factor - 1 - factor.log()).sum() / 2
    torch.testing.assert_close(other - empirical_bayes_kl(log_alpha, s, Q), excess)
    assert excess > 0


def test_the_written_out_form_holds_for_any_precision():
    _, _, cov = distribution(2, 3, 5)
    theta, precision = weights(3, 2), draw(3, 2, seed=9).exp()
    columns = [
        gaussian_kl_full(t, t[:, None] * cov * t, torch.zeros_like(t), (1 / b).diag())
        for t, b in zip(theta.T, precision.T, strict=True)
    ]
    torch.testing.assert_close(column_marginal_kl(theta, cov, precision), sum(columns))


@cases
@settings(max_examples=40)
def test_a_rotation_never_lowers_it(T, K, Q, seed):
    log_alpha, s, _ = distribution(T, K, seed)
    unrotated = empirical_bayes_kl(log_alpha, log_alpha.exp(), Q)
    assert empirical_bayes_kl(log_alpha, s, Q) >= unrotated - 1e-9
    torch.testing.assert_close(unrotated, Q / 2 * torch.log1p((-log_alpha).exp()).sum())


@cases
@settings(max_examples=40)
def test_it_is_the_divergence_of_each_row_and_the_total_correlation(T, K, Q, seed):
    log_alpha, s, cov = distribution(T, K, seed)
    ones = torch.ones(K, dtype=torch.float64)
    correlation = gaussian_kl_full(ones, cov, ones, s.diag())
    each = gaussian_kl(ones, s, 0.0, 1 + s)  # N(theta, s theta^2) from N(0, (1 + s) theta^2)
    torch.testing.assert_close(
        empirical_bayes_kl(log_alpha, s, Q), Q * (each + correlation), rtol=1e-6, atol=1e-6
    )


def test_it_does_not_depend_on_theta():
    log_alpha, s, cov = distribution(2, 4, 0)
    theta = weights(4, 3).requires_grad_()
    column_marginal_kl(theta, cov, best_precision(theta, s)).backward()
    torch.testing.assert_close(theta.grad, torch.zeros_like(theta), atol=1e-12, rtol=0)
    fixed = best_precision(theta.detach(), s)
    shaken = theta.detach() * 1.1
    assert column_marginal_kl(shaken, cov, fixed) > empirical_bayes_kl(log_alpha, s, 3)


def test_noise_lowers_it_without_end():
    log_alpha = torch.linspace(-8, 8, 50, dtype=torch.float64)
    kl = torch.stack([empirical_bayes_kl(a[None], a.exp()[None], 1) for a in log_alpha])
    assert (kl.diff() < 0).all()
    assert kl[-1] < 1e-3


def test_its_size_per_image():
    """vsd: nats for one of 60 000 images in a 784 -> 400 layer, in the docstring of the factory."""
    for alpha, nats in [(0.05, 8.0), (0.25, 4.2), (1.0, 1.8)]:
        log_alpha = torch.full((784,), math.log(alpha))
        kl = empirical_bayes_kl(log_alpha, log_alpha.exp(), 400)
        assert kl.item() / 60_000 == pytest.approx(nats, abs=0.05)


COLUMN = torch.ones(3, 1, dtype=torch.float64)


@pytest.mark.parametrize(
    "call",
    [
        lambda: empirical_bayes_kl(torch.zeros(3), torch.zeros(()), 2),
        lambda: empirical_bayes_kl(torch.zeros(3), torch.zeros(3, 1), 2),
        lambda: best_precision(weights(3, 2), COLUMN),
        lambda: best_precision(weights(3, 2), COLUMN[0]),
        lambda: best_precision(weights(3, 2), torch.ones(2, dtype=torch.float64)),
    ],
)
def test_one_variance_for_each_row(call):
    with pytest.raises(ValueError, match="noise_var"):
        call()


@pytest.mark.parametrize("precision", [COLUMN, COLUMN[0], torch.ones(2, dtype=torch.float64)])
def test_one_precision_for_each_weight(precision):
    with pytest.raises(ValueError, match="precision has shape"):
        column_marginal_kl(weights(3, 2), torch.eye(3, dtype=torch.float64), precision)


def test_the_noise_has_a_covariance():
    theta = weights(3, 2)
    for cov in (-torch.eye(3), torch.ones(3, 3), torch.ones(3, 1)):
        with pytest.raises(ValueError, match="noise_cov must"):
            column_marginal_kl(theta, cov.double(), torch.ones_like(theta))


def test_a_column_with_a_zero_has_no_density():
    theta, one = weights(3, 2), torch.ones(3, 2, dtype=torch.float64)
    theta[1, 0] = 0
    assert column_marginal_kl(theta, torch.eye(3, dtype=torch.float64), one) == math.inf


def test_theta_must_be_a_matrix():
    for call in (
        lambda: best_precision(torch.ones(3), torch.ones(3)),
        lambda: column_marginal_kl(torch.ones(3), torch.eye(3), torch.ones(3)),
    ):
        with pytest.raises(ValueError, match=r"theta must have shape \(K, Q\), got \(3,\)"):
            call()
