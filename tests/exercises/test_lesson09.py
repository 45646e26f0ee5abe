"""The solutions against the package; the shared tests run every listed mistake."""

import math

import pytest
import torch

from bdl_lessons.exercises.grader import grade
from bdl_lessons.exercises.lesson09 import (
    EXERCISES,
    PHI,
    _search,
    _with_noise,
    hat_cov,
    line_qkl,
    partition_kl,
    smallest_ratio,
)
from bdl_lessons.probability import gaussian_cells, quantised_kl


def test_partition_kl_is_that_of_the_package():
    width = 0.5
    index, q = gaussian_cells(0.7, 0.4, width)
    p = torch.distributions.Normal(torch.zeros(1).double(), 1.0).cdf(
        torch.cat([index[:, 0], index[-1] + 1]).double() * width
    )
    expected = quantised_kl((index, q), width)
    torch.testing.assert_close(partition_kl(q, p.diff()), expected)


@pytest.mark.parametrize("K", [1, 2, 5])
def test_line_qkl_is_the_limit_of_lines_with_noise(K):
    generator = torch.Generator().manual_seed(K)
    root = torch.randn(K, K, generator=generator, dtype=torch.float64)
    cov = root @ root.T + torch.eye(K, dtype=torch.float64)
    u = torch.nn.functional.normalize(root[0], dim=0)
    expected = _with_noise(u, 0.7, cov, noise_var=1e-10)
    assert float(line_qkl(u, 0.7, cov)) == pytest.approx(expected, abs=1e-5)


def test_the_hat_is_a_draw_of_its_covariance():
    knots = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
    slopes = torch.tensor([1.0, -2.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(hat_cov(knots), torch.outer(slopes, slopes))


@pytest.mark.parametrize("name", PHI)
def test_no_network_beats_the_smallest_ratio_and_some_come_near(name):
    assert smallest_ratio(name) - 1e-6 <= _search(name) <= smallest_ratio(name) + 0.02


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda q, p: (q * (q / p).log2()).nansum(), "base 2"),
        (lambda q, p: (q * (q / p).log()).nanmean(), "mean over cells"),
        (lambda q, p: torch.xlogy(q, q / p).mean(), "mean over cells"),
        (lambda q, p: torch.xlogy(q, q / p).mean() / math.log(2), "two things are left"),
    ],
)
def test_bits_and_means_are_told_as_that(answer, told):
    report = grade(EXERCISES[0], answer)
    assert not report.solved
    assert told in report.diagnosis
