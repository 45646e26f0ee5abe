"""What the model answers of lesson 10 claim."""

import torch
from torch.distributions import MultivariateNormal, kl_divergence

from bdl_lessons.lessons.exercises.lesson10 import mirror, unit_variances, weight_covariance
from bdl_lessons.probability import loguniform_kl, orthogonal_matrix, rotated_variance


def price_of_rotated_pair(alpha):
    """Log-uniform price of two factors: as they are, and perfectly mixed (45 degrees)."""
    mixed = rotated_variance(alpha, torch.tensor([[1.0, 1 - 2**0.5]], dtype=torch.float64))
    total_correlation = (mixed.log() - alpha.log()).sum() / 2
    return loguniform_kl(alpha.log()).sum(), loguniform_kl(mixed.log()).sum() + total_correlation


def test_the_loguniform_price_may_reward_a_rotation():
    before, after = price_of_rotated_pair(torch.tensor([0.3, 1.0], dtype=torch.float64))
    assert after < before - 0.05


def test_and_may_charge_for_one():
    before, after = price_of_rotated_pair(torch.tensor([0.05, 0.1], dtype=torch.float64))
    assert after > before + 0.001


def test_a_prior_with_correlations_may_reward_a_rotation():
    """The model answer to 10.5 (c): the price under the best B, and where it is smallest."""
    alpha = torch.tensor([0.8, 0.3, 0.1], dtype=torch.float64)
    ones, start = torch.ones(3, dtype=torch.float64), torch.eye(3, dtype=torch.float64)[0]
    together = ones / 3**0.5 - start  # the mirror that takes unit 1 to the diagonal
    prices = []
    for vectors in (torch.empty(0, 3, dtype=torch.float64), together[None]):
        U = orthogonal_matrix(vectors)
        C = (U * alpha) @ U.T
        q = MultivariateNormal(ones, C)
        best = kl_divergence(q, MultivariateNormal(0 * ones, C + torch.outer(ones, ones)))
        other = kl_divergence(q, MultivariateNormal(0 * ones, 1.1 * C + torch.outer(ones, ones)))
        assert best < other
        assert torch.allclose(best, torch.log1p(ones @ torch.linalg.solve(C, ones)) / 2)
        prices.append(best)
    assert torch.allclose(prices[1], torch.log1p(3 / alpha[0]) / 2)
    assert prices[1] < prices[0]


def test_solutions_agree_with_each_other():
    generator = torch.Generator().manual_seed(0)
    v, alpha = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    alpha = alpha.exp()
    H = mirror(torch.eye(6, dtype=torch.float64), v)
    cov = (H * alpha) @ H.T
    assert torch.allclose(cov.diagonal(), unit_variances(alpha, v))
    ones = torch.ones(6, 1, dtype=torch.float64)
    assert torch.allclose(weight_covariance(ones, cov), cov)
