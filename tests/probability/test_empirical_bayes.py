"""The empirical-Bayes KL against explicit Gaussian divergences."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bdl_lessons.probability import (
    best_precision,
    column_marginal_kl,
    empirical_bayes_kl,
    gaussian_kl_full,
    orthogonal_matrix,
    rotated_variance,
)
from tests.draws import normal
from tests.tables import refused

cases = given(st.integers(0, 5), st.integers(1, 7), st.integers(1, 4), st.integers(0, 2**31))


def distribution(n_reflections, n_units, seed):
    """``log_alpha``, the variances after the rotation and the covariance of the noise."""
    log_alpha = normal(n_units, seed=seed)
    vectors = normal(n_reflections, n_units, seed=seed + 1)
    U = orthogonal_matrix(vectors)
    cov = U @ log_alpha.exp().diag() @ U.T
    return log_alpha, rotated_variance(log_alpha.exp(), vectors), cov


def weights(n_units, n_columns, seed=0):
    theta = normal(n_units, n_columns, seed=seed)
    return theta + theta.sign() * 0.01


@cases
@settings(max_examples=25)
def test_it_is_the_sum_of_the_gaussian_divergences_at_the_best_precision(T, K, Q, seed):
    log_alpha, noise_var, cov = distribution(T, K, seed)
    theta = weights(K, Q, seed)
    precision = best_precision(theta, noise_var)
    expected = 0.0
    for column, precision_of_column in zip(theta.T, precision.T, strict=True):
        cov_of_column = column[:, None] * cov * column
        prior_cov = (1 / precision_of_column).diag()
        prior_mean = torch.zeros_like(column)
        expected += gaussian_kl_full(column, cov_of_column, prior_mean, prior_cov)
    kl = empirical_bayes_kl(log_alpha, noise_var, Q)
    by_columns = column_marginal_kl(theta, cov, precision)
    torch.testing.assert_close(kl, expected, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(kl, by_columns, rtol=1e-9, atol=0)


@cases
@settings(max_examples=25)
def test_another_precision_has_a_larger_divergence_and_a_rotation_never_lowers_it(T, K, Q, seed):
    log_alpha, noise_var, cov = distribution(T, K, seed)
    theta = weights(K, Q, seed)
    kl = empirical_bayes_kl(log_alpha, noise_var, Q)
    factor = (0.5 * normal(K, Q, seed=seed + 2)).exp()
    with_other_precision = column_marginal_kl(theta, cov, factor * best_precision(theta, noise_var))
    # the minimum is separable: a precision that is wrong by a factor f adds (f - 1 - log f) / 2
    excess = (factor - 1 - factor.log()).sum() / 2
    torch.testing.assert_close(with_other_precision - kl, excess)

    unrotated = empirical_bayes_kl(log_alpha, log_alpha.exp(), Q)
    assert kl >= unrotated - 1e-9
    expected = Q / 2 * torch.log1p((-log_alpha).exp()).sum()
    torch.testing.assert_close(unrotated, expected)


COLUMN = torch.ones(3, 1, dtype=torch.float64)
EYE = torch.eye(3, dtype=torch.float64)


test_shapes_that_do_not_fit_are_named = refused(
    (lambda: empirical_bayes_kl(torch.zeros(3), torch.zeros(3, 1), 2), "noise_var"),
    (lambda: best_precision(weights(3, 2), COLUMN), "noise_var"),
    (lambda: column_marginal_kl(weights(3, 2), EYE, COLUMN), r"precision \(K, Q\), got"),
    (lambda: column_marginal_kl(weights(3, 2), -EYE, weights(3, 2)), "noise_cov must"),
)
