"""The solutions against the package, simulation and brute force; answers that are nearly right."""

import math

import pytest
import torch

from bdl_lessons.exercises.grader import find, grade
from bdl_lessons.exercises.lesson03 import ahead, last_layer, step_kernel, wide_enough
from bdl_lessons.reference import gp_posterior


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_outputs_of_random_networks_are_as_wide_as_predicted():
    K, n = 10, 200_000
    phi = torch.relu(normal(n, K)) / math.sqrt(K)
    f = (phi * normal(n, K, seed=1)).sum(1)
    deviation, kurtosis = wide_enough(K)
    s = phi.square().sum(1)
    assert (s.std() / s.mean()).item() == pytest.approx(deviation, rel=0.02)
    measured = (f**4).mean() / f.square().mean() ** 2 - 3
    assert measured.item() == pytest.approx(kurtosis, rel=0.2)


def test_step_kernel_is_the_share_of_common_units():
    x, z = normal(3), normal(3, seed=1)
    w = normal(200_000, 3, seed=2)
    share = ((w @ x > 0) & (w @ z > 0)).double().mean()
    assert share.item() == pytest.approx(step_kernel(x, z).item(), abs=0.005)


def test_last_layer_is_the_posterior_of_the_package():
    x, y, x_test, w, b = normal(6, 2), normal(6, seed=1), normal(4, 2, seed=2), normal(9, 2), 0.3
    phi, phi_test = (torch.relu(v @ w.T + b) / 3 for v in (x, x_test))
    mean, cov = gp_posterior(
        phi @ phi.T / 0.4, phi @ phi_test.T / 0.4, phi_test @ phi_test.T / 0.4, y, 1 / 2.0
    )
    again, var = last_layer(x, y, x_test, w, torch.full((9,), b).double(), 0.4, 2.0)
    torch.testing.assert_close(again, mean)
    torch.testing.assert_close(var, cov.diagonal())


def test_one_step_ahead_the_forecasts_add_up_to_the_evidence():
    root, y = normal(8, 8), normal(8, seed=1)
    targets = torch.distributions.MultivariateNormal(
        torch.zeros(8).double(), root @ root.T + torch.eye(8) / 3.0
    )
    total = ahead(root @ root.T, y, 3.0, 1).sum()
    torch.testing.assert_close(total, targets.log_prob(y))


def test_three_steps_ahead_is_the_posterior_of_one_target():
    root, y = normal(8, 8), normal(8, seed=1)
    C, past = root @ root.T, slice(0, 5)
    mean, cov = gp_posterior(C[past, past], C[past, 7:], C[7:, 7:], y[past], 1 / 3.0)
    expected = torch.distributions.Normal(mean, (cov[0] + 1 / 3.0).sqrt()).log_prob(y[7])
    torch.testing.assert_close(ahead(C, y, 3.0, 3)[7:], expected)


def cosine(x, z):
    return x @ z / (x.norm() * z.norm())


def test_a_clamped_arc_cosine_is_right():
    def answer(x, z):
        return (math.pi - torch.acos(cosine(x, z).clamp(-1, 1))) / (2 * math.pi)

    assert grade(find("03.2"), answer).solved


def test_without_the_clamp_it_is_told_of_the_nan():
    """It gave NaN where x = z, and was sent to look at the angle π."""
    report = grade(find("03.2"), lambda x, z: (math.pi - torch.acos(cosine(x, z))) / (2 * math.pi))
    assert not report.solved
    assert report.lines[0].startswith("no")
    assert "arccos out of its range" in report.lines[0]
    assert all(line.startswith("ok") for line in report.lines[2:])


@pytest.mark.parametrize(
    ("number", "answer"),
    [
        ("03.1", lambda K: (math.sqrt(5 / K) * 1.06, 15 / K)),
        ("03.1", lambda K: (math.sqrt(5 / (K + 1)), 15 / K)),
        ("03.1", lambda K: (math.sqrt(5 / K), 15 / (K + 1))),
        ("03.2", lambda x, z: step_kernel(x, z).clamp(max=0.49)),
        ("03.3", lambda *a: tuple(v * 1.0001 for v in last_layer(*a))),
        ("03.4", lambda C, y, tau, h: ahead(C, y, tau, h).sum()),
        ("03.4", lambda C, y, tau, h: ahead(C, y, tau, 1)),
        ("03.4", lambda C, y, tau, h: ahead(C + 1e-4, y, tau, h)),
    ],
)
def test_an_answer_that_is_nearly_right_is_refused(number, answer):
    assert not grade(find(number), answer).solved
