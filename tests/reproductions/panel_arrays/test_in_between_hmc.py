import numpy as np
import torch

from bdl_lessons.reference import BayesLinear
from reproductions.panel_arrays.in_between_hmc import features, minus_log_posterior, output
from reproductions.panel_arrays.in_between_uncertainty import NOISE_VAR, clusters


def test_given_the_hidden_layer_the_posterior_is_that_of_a_linear_regression():
    x, y, line = clusters()
    generator, off = torch.Generator().manual_seed(0), []
    for _ in range(3):
        hidden = torch.randn(3, 50, generator=generator, dtype=torch.float64)
        regression = BayesLinear(features(hidden, x), y, NOISE_VAR, 1.0)
        expected = hidden.square().sum() / 2 - regression.log_evidence()
        off.append(float(minus_log_posterior(hidden, x, y)[0] - expected))
        mean, root = output(hidden, x, y, line)
        expected, variance = regression.predict(features(hidden, line))
        torch.testing.assert_close(mean, expected)
        torch.testing.assert_close(root.square().sum(0), variance - NOISE_VAR, atol=1e-9, rtol=1e-6)
    assert np.ptp(off) < 1e-6  # equal up to one constant
