import numpy as np
import pytest
import torch

from bdl_lessons.datasets import origin_clusters
from bdl_lessons.experiments.panel_arrays import in_between_uncertainty
from bdl_lessons.experiments.panel_arrays.in_between_uncertainty import RATES
from bdl_lessons.lessons.panels import arrays
from bdl_lessons.probability import dropout_moments


@pytest.fixture(scope="module")
def stored():
    return arrays.load("in_between_uncertainty")


def test_the_draws_have_the_moments_of_one_layer():
    data = origin_clusters()
    x, y = data.x.double(), data.y.double()
    layers = in_between_uncertainty.train(x, y, depth=1, n_steps=5)
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack(
        [in_between_uncertainty._network(layers, x[:4], generator, rows=1) for _ in range(1500)]
    )
    (w, b), (v, c) = layers
    for rate, p_drop in list(enumerate(RATES))[2:]:  # rarer drops need more draws
        hidden = torch.relu(x[:4] @ w[rate] + b[rate])
        mean, variance = dropout_moments(hidden, v[rate, :, 0], p_drop)
        assert torch.allclose(draws[:, rate].mean(0), mean + c[rate, 0], atol=0.15)
        assert torch.allclose(draws[:, rate].var(0), variance, rtol=0.2)


@pytest.mark.slow
def test_the_committed_arrays_are_what_training_gives(stored):
    made = in_between_uncertainty.make_arrays()
    assert made.keys() == stored.keys()
    for name, values in made.items():
        assert np.allclose(values, stored[name], atol=0.02), name
