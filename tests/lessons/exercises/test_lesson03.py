"""The solutions against the package and brute force; the known mistakes against their diagnoses."""

import pytest
import torch

from bdl_lessons.lessons.exercises.grader import grade, of_lesson
from bdl_lessons.lessons.exercises.lesson03 import deep_relu, gp_predict, relu_features, relu_kernel
from bdl_lessons.reference import RandomFeatures, ReLUKernel, gp_posterior, relu_expectation

TASKS = of_lesson("03")


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.number)
def test_the_solution_solves_it(task):
    report = grade(task, task.solution)
    assert report.solved, report.lines


@pytest.mark.parametrize(
    ("task", "mistake"),
    [(task, mistake) for task in TASKS for mistake in task.known_errors],
    ids=lambda value: getattr(value, "number", ""),
)
def test_each_known_mistake_fails_and_is_named(task, mistake):
    report = grade(task, mistake.answer)
    assert not report.solved
    assert report.diagnosis == mistake.diagnosis


def test_every_property_can_fail():
    for task in TASKS:
        reports = [grade(task, mistake.answer) for mistake in task.known_errors]
        for index, (claim, check) in enumerate(task.checks.items()):
            caught = any(report.lines[index].startswith("no") for report in reports)
            caught = caught or not _holds(check, lambda *args: torch.full((2, 3), -7.5))
            assert caught, (task.number, claim)


def test_features_are_those_of_the_package():
    features = RandomFeatures(2, 9, "relu", torch.Generator().manual_seed(0), weight_var=2.0)
    x = normal(4, 2)
    (weight,), (shift,) = features.weights, features.shifts
    torch.testing.assert_close(relu_features(x, weight, shift), features(x))


def test_kernel_of_two_vectors_is_the_expectation():
    x, y = normal(3), normal(3, seed=1)
    torch.testing.assert_close(relu_kernel(x, y), relu_expectation(x @ x, y @ y, x @ y))


def test_prediction_is_that_of_the_package():
    root = normal(7, 7)
    k, y = root @ root.mT, normal(5, seed=1)
    mean, cov = gp_posterior(k[:5, :5], k[:5, 5:], k[5:, 5:], y, 1 / 3.0)
    mean_again, var_again = gp_predict(k[:5, :5], k[:5, 5:], k[5:, 5:], y, 3.0)
    torch.testing.assert_close(mean_again, mean)
    torch.testing.assert_close(var_again, cov.diagonal())


def test_recursion_is_the_kernel():
    x = normal(2, 3)
    k0 = 0.4 + 1.5 * x @ x.mT / 3
    k = ReLUKernel(4, weight_var=1.5, bias_var=0.4)(x).to_dense()[0, 1]
    torch.testing.assert_close(deep_relu(k0[0, 0], k0[1, 1], k0[0, 1], 4, 1.5, 0.4), k.detach())


def _holds(check, answer) -> bool:
    try:
        return check.holds(answer)
    except Exception:
        return False
