"""The solutions against the package; the shared tests run every listed mistake."""

import torch

from bdl_lessons.lessons.exercises.lesson09 import dropout_var, line_qkl, partition_kl
from bdl_lessons.probability import dropout_moments, gaussian_cells, quantised_kl


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_partition_kl_is_that_of_the_package():
    width = 0.5
    index, q = gaussian_cells(0.7, 0.4, width)
    p = torch.distributions.Normal(torch.zeros(1).double(), 1.0).cdf(
        torch.cat([index[:, 0], index[-1] + 1]).double() * width
    )
    expected = quantised_kl((index, q), width)
    torch.testing.assert_close(partition_kl(q, p.diff()), expected)


def test_line_qkl_is_the_limit_of_the_kl_of_blurred_lines():
    u, cov = torch.tensor([0.6, -0.8]).double(), torch.tensor([[3.0, 1.0], [1.0, 2.0]]).double()
    s = 1e-5
    blurred = torch.distributions.MultivariateNormal(
        torch.zeros(2).double(), 0.7 * torch.outer(u, u) + s**2 * torch.eye(2).double()
    )
    target = torch.distributions.MultivariateNormal(torch.zeros(2).double(), cov)
    kl = torch.distributions.kl_divergence(blurred, target)
    missing = -0.5 * torch.log(torch.tensor(2 * torch.pi * torch.e * s**2).double())
    torch.testing.assert_close(line_qkl(u, 0.7, cov), kl - missing, atol=1e-5, rtol=0)


def test_dropout_var_is_that_of_the_package():
    x, W, b, v = normal(5, 2), normal(7, 2, seed=1), normal(7, seed=2), normal(7, seed=3)
    expected = dropout_moments(torch.relu(x @ W.T + b), v, 0.2)[1]
    torch.testing.assert_close(dropout_var(x, W, b, v, 0.2), expected)
