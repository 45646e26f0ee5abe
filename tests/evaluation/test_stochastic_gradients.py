from functools import partial

import pytest
import torch

from bdl_lessons.evaluation import gradient_variance, noisy_outputs
from bdl_lessons.models import BayesByBackprop, initialise, mlp
from tests.draws import normal, seeded

ESTIMATORS = ("local", "per example", "per minibatch")


def test_gradient_variance_averages_parameters_and_its_standard_error_is_the_jackknife():
    gradients = normal(6, 4, seed=10)
    assert gradient_variance(gradients).value == pytest.approx(gradients.var(0).mean().item())
    others = [[j for j in range(6) if j != i] for i in range(6)]
    left_out = torch.stack([gradients[rows].var(0).mean() for rows in others])
    jackknife = (5 / 6 * (left_out - left_out.mean()).square().sum()).sqrt()
    assert gradient_variance(gradients).std_err == pytest.approx(jackknife.item(), rel=1e-12)


def test_the_four_estimators_of_a_network():
    method = partial(BayesByBackprop, init_log_sigma2=-1.0)
    model = initialise(mlp((4, 6, 2), method), seeded()).double()
    x = normal(1, 4, seed=11).expand(50, 4)
    outputs = {e: noisy_outputs(model, x, e, seeded(1)) for e in (*ESTIMATORS, "no noise")}
    for name, output in outputs.items():
        alike = torch.allclose(output, output[:1].expand_as(output))
        assert alike == (name in ("per minibatch", "no noise"))
    torch.testing.assert_close(outputs["no noise"], model(x, "mean"))
