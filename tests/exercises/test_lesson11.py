"""The solutions against the package; the shared tests run every listed mistake."""

import torch

from bdl_lessons.evaluation import penalty_by_direction
from bdl_lessons.exercises.grader import find, grade
from bdl_lessons.exercises.lesson11 import hierarchical_factors, noisy_least_squares, penalty_range
from bdl_lessons.models import scaled_cov
from bdl_lessons.panels import penalty_ellipse


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_penalty_range_is_that_of_the_package_along_the_eigenvectors():
    root, alpha = normal(5, 5), normal(5, seed=2).exp().sort().values
    omega = root @ root.T
    U = torch.linalg.eigh(omega).eigenvectors
    ends = [penalty_by_direction(omega, alpha, basis).sum() for basis in (U.flip(1), U)]
    torch.testing.assert_close(penalty_range(omega, alpha), torch.stack(ends))


def test_hierarchical_factors_have_the_covariance_of_the_package():
    A, sigma = 0.5 * normal(3, 3), torch.tensor([0.2, 0.3, 0.4]).double()
    xi = 1 + normal(200_000, 1, 3, seed=1) @ A.T
    found = hierarchical_factors(xi, sigma, torch.Generator().manual_seed(2))[:, 0]
    expected = scaled_cov(A @ A.T, 2 * sigma.log())
    torch.testing.assert_close(torch.cov(found.T), expected, atol=0.02, rtol=0)


def test_a_scale_shared_by_all_samples_is_told_nothing_but_that():
    shared = find("11.2").known_errors[3]
    report = grade(find("11.2"), shared.answer)
    failed = [line for line in report.lines if line.startswith("no")]
    assert [line.partition(":")[0] for line in failed] == [
        "no   samples and units have scales of their own"
    ]
    assert report.diagnosis == shared.diagnosis


def test_noisy_least_squares_is_that_of_the_panel():
    X, y = map(torch.from_numpy, penalty_ellipse.examples())
    now = penalty_ellipse.setting(-0.5, 2, 4)
    found = noisy_least_squares(X, y, torch.from_numpy(now.C))
    torch.testing.assert_close(found, torch.from_numpy(now.w))
