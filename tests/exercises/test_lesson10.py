"""What the model answers of lesson 10 claim."""

import torch

from bdl_lessons.exercises.lesson10 import mirror, unit_variances, weight_covariance
from bdl_lessons.householder import rotated_variance
from bdl_lessons.kl_loguniform import loguniform_kl


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


def test_solutions_agree_with_each_other():
    generator = torch.Generator().manual_seed(0)
    v, alpha = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    alpha = alpha.exp()
    H = mirror(torch.eye(6, dtype=torch.float64), v)
    cov = (H * alpha) @ H.T
    assert torch.allclose(cov.diagonal(), unit_variances(alpha, v))
    ones = torch.ones(6, 1, dtype=torch.float64)
    assert torch.allclose(weight_covariance(ones, cov), cov)
