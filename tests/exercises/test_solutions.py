"""Solutions against brute force where no criterion does it."""

import math
from itertools import product

import pytest
import torch

from bdl_lessons.exercises import lesson02
from bdl_lessons.exercises.grader import find, grade
from bdl_lessons.exercises.lesson03 import ahead
from bdl_lessons.probability import gaussian_kl, gaussian_kl_full
from bdl_lessons.reference import BayesLinear
from tests.draws import normal

X = normal(6, 3)
Y = normal(6, seed=1)


class TestLesson02:
    def test_predicted_gaps_are_those_of_the_elbo(self):
        X = torch.tensor([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]], dtype=torch.float64)
        y = torch.tensor([2.0, 3.0, 5.0], dtype=torch.float64)
        line = BayesLinear(X, y, noise_var=1.0, prior_var=1.0)
        moved = line.mean + line.cov[0, 0].sqrt() * torch.tensor([1, 0])

        def gap(mean, cov):
            return line.log_evidence() - line.elbo(mean, cov)

        zeros = torch.zeros(1000, dtype=torch.float64)
        gaps = [
            gap(line.mean, line.cov / 2),
            gap(line.mean, line.cov * 2),
            gap(moved, line.cov),
            gaussian_kl(zeros, zeros + 0.5),
        ]
        predicted = lesson02.predicted_gaps().double()
        torch.testing.assert_close(predicted, torch.stack(gaps), rtol=1e-5, atol=0)

    @pytest.mark.parametrize("block", [[2], [0, 3], [4, 1, 2]])
    def test_the_best_block_is_a_minimum_of_the_divergence(self, block):
        factor = normal(5, 5)
        cov = factor @ factor.mT + 0.1 * torch.eye(5, dtype=torch.float64)
        rest = [i for i in range(5) if i not in block]
        root = torch.linalg.cholesky(lesson02.best_block(cov, block)).requires_grad_()
        rows, columns = torch.tensor(list(product(block, block))).T
        q = torch.zeros(5, 5, dtype=torch.float64)
        q[rest, rest] = 1.0
        q = q.index_put((rows, columns), (root @ root.mT).flatten())
        zero = torch.zeros(5, dtype=torch.float64)
        kl = gaussian_kl_full(zero, q, zero, cov)
        (slope,) = torch.autograd.grad(kl, root)
        assert slope.abs().max() < 1e-8

    def test_the_repaired_elbo_is_exact_for_draws_with_the_moments_of_the_noise(self):
        m = normal(3, seed=2)
        var = normal(3, seed=3).exp()
        eye = torch.eye(3, dtype=torch.float64)
        eps = math.sqrt(3) * torch.cat([eye, -eye])  # mean 0 and covariance I
        exact = BayesLinear(X, Y, noise_var=0.5, prior_var=4.0).elbo(m, var.diag())
        repaired = lesson02.repaired_elbo(X, Y, 2.0, 0.25, m, var, eps)
        torch.testing.assert_close(repaired, exact)

    def test_each_check_of_the_bug_hunt_sees_its_own_error_alone(self):
        for repaired in product([True, False], repeat=3):
            report = grade(find("02.3"), lesson02._elbo_with_bugs(*repaired))
            holds = [line.startswith("ok") for line in report.lines]
            assert holds == [*repaired, all(repaired)]

    def test_the_weighted_posterior_maximises_its_objective(self):
        mean, cov = lesson02.weighted_posterior(X, Y, 2.0, 0.25, 0.3)
        mean = mean.requires_grad_()
        root = torch.linalg.cholesky(cov).requires_grad_()
        linear = BayesLinear(X, Y, noise_var=0.5, prior_var=4.0)
        zero = torch.zeros(3, dtype=torch.float64)
        prior_cov = 4.0 * torch.eye(3, dtype=torch.float64)
        cov = root @ root.mT
        kl = gaussian_kl_full(mean, cov, zero, prior_cov)
        objective = linear.data_term(mean, cov) - 0.3 * kl
        for slope in torch.autograd.grad(objective, (mean, root)):
            assert slope.abs().max() < 1e-8


def test_three_steps_ahead_is_the_posterior_of_one_target():
    root = normal(8, 8)
    y = normal(8, seed=1)
    C = root @ root.T
    past = slice(0, 5)
    cov_of_past = C[past, past] + torch.eye(5).to(C) / 3.0
    gain = torch.linalg.solve(cov_of_past, C[past, 7])
    mean = gain @ y[past]
    var = C[7, 7] - C[past, 7] @ gain + 1 / 3.0
    expected = torch.distributions.Normal(mean, var.sqrt()).log_prob(y[7:])
    torch.testing.assert_close(ahead(C, y, 3.0, 3)[7:], expected)
