import pytest
import torch

from bdl_lessons.experiments.posteriors.low_rank_precision import LowRankPrecision
from bdl_lessons.probability import gaussian_kl_full


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=gen(seed), dtype=torch.float64)


@pytest.fixture(params=["rank 2", "columns that agree", "zero"])
def q(request):
    factor = randn(5, 2, seed=1)
    if request.param == "columns that agree":
        factor[:, 1] = factor[:, 0]
    if request.param == "zero":
        factor.zero_()
    return LowRankPrecision(randn(5, seed=2), factor, randn(5, seed=3).exp())


def dense_cov(q):
    return torch.linalg.inv(q.factor @ q.factor.T + q.diagonal.diag())


def test_draws_have_the_dense_covariance_whatever_the_rank(q):
    n = 10_000
    draws, cov = q.draw(n, gen(4)), dense_cov(q)
    var = cov.diagonal()
    assert ((draws.mean(0) - q.mean).abs() / (var / n).sqrt()).max() < 5
    error = ((var[:, None] * var + cov.square()) / n).sqrt()
    assert ((torch.cov(draws.T) - cov).abs() / error).max() < 5


def test_the_root_of_the_covariance_is_exact(q):
    """The draw is linear in its noise: feed it the unit vectors."""
    at_zero = LowRankPrecision(torch.zeros(5).double(), q.factor, q.diagonal)
    n = 5
    noise = torch.randn(n, 5, generator=gen(4), dtype=torch.float64)
    root = torch.linalg.solve(noise, at_zero.draw(n, gen(4)))  # noise @ root.T = draws
    torch.testing.assert_close(root.T @ root, dense_cov(q))


def test_solve_and_kl_are_the_dense_ones(q):
    b, cov = randn(5, seed=5), dense_cov(q)
    torch.testing.assert_close(q.solve(b), cov @ b)
    precision = randn(5, seed=6).exp()
    expected = gaussian_kl_full(q.mean, cov, torch.zeros_like(b), (1 / precision).diag())
    torch.testing.assert_close(q.kl(precision), expected)
