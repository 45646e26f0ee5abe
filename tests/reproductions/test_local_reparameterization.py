from typing import get_args

import pytest
import torch
from torch.nn.functional import cross_entropy

from bdl_lessons.evaluation.stochastic_gradients import Estimator
from bdl_lessons.models import StochasticLayer
from reproductions import local_reparameterization
from tests.draws import seeded

CONFIG = {**local_reparameterization._QUICK, "width": 5}


def almost_still(log_alpha=-40.0):
    """A network whose noise is too small to see."""
    net = local_reparameterization.make_network(CONFIG, seeded())
    for name, parameter in net.named_parameters():
        if name.endswith("raw_log_alpha"):
            torch.nn.init.constant_(parameter, log_alpha)
    return net


@pytest.mark.parametrize("estimator", get_args(Estimator))
def test_the_gradient_is_that_of_the_scaled_sum_for_first_and_last_layer(estimator):
    net = almost_still()
    x = torch.rand(60, 784, generator=seeded(1))
    y = torch.arange(60) % 10
    got = local_reparameterization.gradient(net, x, y, estimator, 600, seeded(2))
    sum_ = 600 / 60 * cross_entropy(net(x, "mean"), y, reduction="sum")
    expected = torch.autograd.grad(sum_, (net[0].weight, net[-1].weight))
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)


def test_only_rows_with_weights_of_their_own_are_taken_apart(monkeypatch):
    parts = []

    def outputs(net, inputs, *_):
        parts.append(len(inputs))
        return net(inputs, "mean")

    monkeypatch.setattr(local_reparameterization, "noisy_outputs", outputs)
    rows = torch.rand(60, 784), torch.arange(60) % 10
    for estimator in get_args(Estimator):
        local_reparameterization.gradient(almost_still(), *rows, estimator, 600, seeded(2))
    assert sorted(parts) == [10, 25, 25, 60, 60, 60]


def test_alphas_start_at_the_rates_of_input_and_hidden_layers():
    net = local_reparameterization.make_network(CONFIG, seeded())
    alphas = [layer.alpha.item() for layer in net if isinstance(layer, StochasticLayer)]
    assert alphas == pytest.approx([0.25, 1, 1, 1])


def test_every_estimator_has_its_row_in_the_published_table():
    assert set(local_reparameterization.ROWS) == set(get_args(Estimator))
    printed = local_reparameterization.published()
    assert printed.shape == (4, 4)
    assert (printed[0, 0], printed[2, 0], printed[3, 3]) == pytest.approx((7800, 49000, 9))
