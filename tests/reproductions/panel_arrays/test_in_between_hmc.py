import numpy as np
import pytest
import torch

from bdl_lessons.datasets import origin_clusters
from bdl_lessons.reference import BayesLinear
from reproductions.panel_arrays.in_between_hmc import features, minus_log_posterior, output
from reproductions.panel_arrays.in_between_uncertainty import NOISE_VAR


@pytest.fixture(scope="module")
def clusters():
    data = origin_clusters()
    return data.x.double(), data.y.double()


def hidden_layer(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(3, 50, generator=generator, dtype=torch.float64)


def test_the_potential_is_the_prior_plus_the_evidence_of_a_linear_regression(clusters):
    x, y = clusters
    off = []
    for seed in range(3):
        hidden = hidden_layer(seed)
        evidence = BayesLinear(features(hidden, x), y, NOISE_VAR, 1.0).log_evidence()
        expected = hidden.square().sum() / 2 - evidence
        off.append(float(minus_log_posterior(hidden, x, y)[0] - expected))
    assert np.ptp(off) < 1e-6  # equal up to one constant


def test_the_output_has_the_moments_of_that_regression(clusters):
    x, y = clusters
    hidden = hidden_layer(0)
    mean, root = output(hidden, x, y, x[::20])
    regression = BayesLinear(features(hidden, x), y, NOISE_VAR, 1.0)
    expected, variance = regression.predict(features(hidden, x[::20]))
    torch.testing.assert_close(mean, expected)
    torch.testing.assert_close(root.square().sum(0), variance - NOISE_VAR, atol=1e-9, rtol=1e-6)


def test_the_gradient_is_that_of_the_potential(clusters):
    layers = torch.stack([hidden_layer(seed) for seed in range(2)]).requires_grad_()
    value, gradient = minus_log_posterior(layers, *clusters)
    (expected,) = torch.autograd.grad(value.sum(), layers)
    torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=1e-4)
