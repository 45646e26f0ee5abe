"""What the model answers of lesson 10 claim."""

import math

import torch
from torch.distributions import MultivariateNormal, kl_divergence

from bdl_lessons.exercises.lesson10 import aimed_reflection, correlation_after
from bdl_lessons.probability import kingma_kl, loguniform_kl, orthogonal_matrix, rotated_variance


def kl_of_rotated_pair(alpha, kl=loguniform_kl):
    """Log-uniform KL of two factors: as they are, and perfectly mixed (45 degrees)."""
    mixed = rotated_variance(alpha, torch.tensor([[1.0, 1 - 2**0.5]], dtype=torch.float64))
    total_correlation = (mixed.log() - alpha.log()).sum() / 2
    return kl(alpha.log()).sum(), kl(mixed.log()).sum() + total_correlation


def test_the_loguniform_kl_may_reward_a_rotation():
    before, after = kl_of_rotated_pair(torch.tensor([0.3, 1.0], dtype=torch.float64))
    assert abs(before - after - 0.08) < 0.005


def test_and_may_be_larger_after_one():
    alpha = torch.tensor([0.05, 0.1], dtype=torch.float64)
    before, after = kl_of_rotated_pair(alpha)
    assert abs(after - before - 0.002) < 5e-4
    before, after = kl_of_rotated_pair(alpha, kingma_kl)  # the cubic of lesson 07 says the opposite
    assert after < before - 0.001


def test_a_prior_with_correlations_may_reward_a_rotation():
    """The model answer to 10.5 (c): the KL under the best covariance, and where it is smallest."""
    alpha = torch.tensor([0.8, 0.3, 0.1], dtype=torch.float64)
    ones, start = torch.ones(3, dtype=torch.float64), torch.eye(3, dtype=torch.float64)[0]
    together = ones / 3**0.5 - start  # the mirror that takes unit 1 to the diagonal
    kls = []
    for vectors in (torch.empty(0, 3, dtype=torch.float64), together[None]):
        U = orthogonal_matrix(vectors)
        C = (U * alpha) @ U.T
        q = MultivariateNormal(ones, C)
        best = kl_divergence(q, MultivariateNormal(0 * ones, C + torch.outer(ones, ones)))
        other = kl_divergence(q, MultivariateNormal(0 * ones, 1.1 * C + torch.outer(ones, ones)))
        assert best < other
        assert torch.allclose(best, torch.log1p(ones @ torch.linalg.solve(C, ones)) / 2)
        kls.append(best)
    assert torch.allclose(kls[1], torch.log1p(3 / alpha[0]) / 2)
    assert kls[1] < kls[0]


def test_solutions_agree_with_each_other():
    """A reflection by v at the angle psi turns the first unit vector to the angle 2 psi + pi."""
    alpha, psi = torch.tensor([0.7, 0.1], dtype=torch.float64), 0.6
    turned = torch.tensor([math.cos(2 * psi + math.pi), math.sin(2 * psi + math.pi)])
    U = aimed_reflection(0, turned.double())
    cov = (U * alpha) @ U.T
    correlation = cov[0, 1] / (cov[0, 0] * cov[1, 1]).sqrt()
    assert torch.allclose(correlation, correlation_after(alpha, psi), atol=1e-6)
