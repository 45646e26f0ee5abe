from functools import partial

import pytest
import torch

from bdl_lessons.evaluation import gradient_variance, noisy_outputs
from bdl_lessons.models import BayesByBackprop, initialise, mlp
from tests.draws import normal, seeded


def test_gradient_variance_averages_parameters_and_its_standard_error_is_the_jackknife():
    gradients = normal(6, 4, seed=10)
    variance = gradient_variance(gradients)
    assert variance.value == pytest.approx(gradients.var(0).mean().item())
    without_one = []
    for i in range(6):
        others = torch.cat([gradients[:i], gradients[i + 1 :]])
        without_one.append(others.var(0).mean())
    values = torch.stack(without_one)
    jackknife = (5 / 6 * (values - values.mean()).square().sum()).sqrt()
    assert variance.std_err == pytest.approx(jackknife.item(), rel=1e-12)


def test_the_four_estimators_of_a_network():
    method = partial(BayesByBackprop, init_log_sigma2=-1.0)
    model = initialise(mlp((4, 6, 2), method), seeded()).double()
    x = normal(1, 4, seed=11).expand(50, 4)
    for estimator in ("local", "per example", "per minibatch", "no noise"):
        output = noisy_outputs(model, x, estimator, seeded(1))
        examples_are_alike = torch.allclose(output, output[:1].expand_as(output))
        assert examples_are_alike == (estimator in ("per minibatch", "no noise"))
    without_noise = noisy_outputs(model, x, "no noise", seeded(1))
    torch.testing.assert_close(without_noise, model(x, "mean"))
