"""The solutions against brute force, and wrong answers that the checks must tell apart."""

import math
from itertools import product

import pytest
import torch

from bdl_lessons.exercises.grader import grade, of_lesson
from bdl_lessons.exercises.lesson02 import (
    _elbo_with_bugs,
    best_block,
    predicted_gaps,
    repaired_elbo,
    weighted_posterior,
)
from bdl_lessons.probability import gaussian_kl, gaussian_kl_full
from bdl_lessons.reference import BayesLinear

GAPS, BLOCK, BUGS, WEIGHT = of_lesson("02")


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def data():
    """Inputs ``(6, 3)`` and targets ``(6,)``."""
    return normal(6, 3), normal(6, seed=1)


def test_predicted_gaps_are_those_of_the_elbo():
    X = torch.tensor([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]], dtype=torch.float64)
    line = BayesLinear(X, torch.tensor([2.0, 3.0, 5.0]).double(), noise_var=1.0, prior_var=1.0)
    moved = line.mean + line.cov[0, 0].sqrt() * torch.tensor([1, 0])
    q = [(line.mean, line.cov / 2), (line.mean, line.cov * 2), (moved, line.cov)]
    many = torch.ones(1000, dtype=torch.float64)
    gaps = [line.log_evidence() - line.elbo(*one) for one in q] + [gaussian_kl(0 * many, many / 2)]
    torch.testing.assert_close(predicted_gaps().double(), torch.stack(gaps), rtol=1e-5, atol=0)


def test_a_prediction_to_two_decimals_is_enough_and_one_decimal_is_not():
    assert grade(GAPS, lambda: [0.19, 0.31, 1.25, 97]).solved
    assert not grade(GAPS, lambda: [0.2, 0.3, 1.25, 97]).solved


@pytest.mark.parametrize("block", [[2], [0, 3], [4, 1, 2]])
def test_the_best_block_is_a_minimum_of_the_divergence(block):
    factor = normal(5, 5)
    cov = factor @ factor.mT + 0.1 * torch.eye(5, dtype=torch.float64)
    rest = [i for i in range(5) if i not in block]
    root = torch.linalg.cholesky(best_block(cov, block)).requires_grad_()
    q = torch.zeros(5, 5, dtype=torch.float64)
    q[rest, rest] = 1.0
    q = q.index_put(tuple(torch.tensor(list(product(block, block))).T), (root @ root.mT).flatten())
    zero = torch.zeros(5, dtype=torch.float64)
    (slope,) = torch.autograd.grad(gaussian_kl_full(zero, q, zero, cov), root)
    assert slope.abs().max() < 1e-8


def test_the_repaired_elbo_is_exact_for_draws_with_the_moments_of_the_noise(data):
    X, y = data
    m, var = normal(3, seed=2), normal(3, seed=3).exp()
    eye = torch.eye(3, dtype=torch.float64)
    eps = math.sqrt(3) * torch.cat([eye, -eye])  # mean 0 and covariance I
    exact = BayesLinear(X, y, noise_var=0.5, prior_var=4.0).elbo(m, var.diag())
    torch.testing.assert_close(repaired_elbo(X, y, 2.0, 0.25, m, var, eps), exact)


def test_each_check_of_the_bug_hunt_sees_its_own_error_alone():
    for repaired in product([True, False], repeat=3):
        report = grade(BUGS, _elbo_with_bugs(*repaired))
        holds = [line.startswith("ok") for line in report.lines]
        assert holds == [*repaired, all(repaired)]


def test_the_weighted_posterior_maximises_its_objective(data):
    X, y = data
    mean, cov = weighted_posterior(X, y, 2.0, 0.25, 0.3)
    mean, root = mean.requires_grad_(), torch.linalg.cholesky(cov).requires_grad_()
    linear = BayesLinear(X, y, noise_var=0.5, prior_var=4.0)
    prior = torch.zeros(3, dtype=torch.float64), 4.0 * torch.eye(3, dtype=torch.float64)
    cov = root @ root.mT
    objective = linear.data_term(mean, cov) - 0.3 * gaussian_kl_full(mean, cov, *prior)
    slopes = torch.autograd.grad(objective, (mean, root))
    assert max(slope.abs().max() for slope in slopes) < 1e-8


@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_answers_that_are_one_percent_off_are_refused(factor):
    assert not grade(BLOCK, lambda *args: factor * best_block(*args)).solved
    assert not grade(BUGS, lambda *args: factor * repaired_elbo(*args)).solved
    wrong = grade(WEIGHT, lambda *args: (weighted_posterior(*args)[0], factor * right_cov(*args)))
    assert not wrong.solved


def right_cov(*args):
    return weighted_posterior(*args)[1]
