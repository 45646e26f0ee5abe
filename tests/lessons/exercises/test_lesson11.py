"""The solutions against the package; the shared tests run every listed mistake."""

import torch

from bdl_lessons.evaluation import induced_regularization
from bdl_lessons.lessons.exercises.lesson11 import (
    gamma_price,
    hierarchical_factors,
    noisy_least_squares,
    penalty,
)
from bdl_lessons.lessons.panels import penalty_ellipse
from bdl_lessons.models import scaled_cov
from bdl_lessons.probability import lognormal_gamma_kl


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_gamma_price_is_that_of_the_package():
    mu, log_sigma2 = normal(2, 5)
    expected = lognormal_gamma_kl(mu, log_sigma2, 2.0, 0.7)
    torch.testing.assert_close(gamma_price(mu, log_sigma2.exp(), 2.0, 0.7), expected)


def test_hierarchical_factors_have_the_covariance_of_the_package():
    A, sigma = 0.5 * normal(3, 3), torch.tensor([0.2, 0.3, 0.4]).double()
    xi = 1 + normal(200_000, 1, 3, seed=1) @ A.T
    found = hierarchical_factors(xi, sigma, torch.Generator().manual_seed(2))[:, 0]
    expected = scaled_cov(A @ A.T, 2 * sigma.log())
    torch.testing.assert_close(torch.cov(found.T), expected, atol=0.02, rtol=0)


def test_penalty_is_that_of_the_package():
    root, h, alpha = normal(4, 4), normal(4, seed=1), normal(4, seed=2).exp()
    U = torch.linalg.qr(normal(4, 4, seed=3)).Q
    expected = induced_regularization.penalty(root @ root.T, h, (U * alpha) @ U.T)
    torch.testing.assert_close(penalty(root @ root.T, h, alpha, U), expected)


def test_noisy_least_squares_is_that_of_the_panel():
    X, y = map(torch.from_numpy, penalty_ellipse.examples())
    now = penalty_ellipse.setting(-0.5, 2, 4)
    found = noisy_least_squares(X, y, torch.from_numpy(now.C))
    torch.testing.assert_close(found, torch.from_numpy(now.w))
