import math

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from bdl_lessons.panels import kl_partition
from bdl_lessons.panels.kl_partition import ALPHA, DISTRIBUTIONS, THETA, _cells, kl_at


@pytest.mark.parametrize("noise", DISTRIBUTIONS)
def test_all_laws_have_the_same_means_and_variances(noise):
    index, probs = _cells(noise, 6)
    centres = (index.double() + 0.5) / 2**6
    mean = probs @ centres
    assert torch.allclose(mean, THETA, atol=0.02)
    assert torch.allclose(probs @ (centres - mean) ** 2, ALPHA * THETA**2, atol=0.03)


def test_the_kl_of_independent_noise_is_that_of_its_density():
    exact = sum(kl_divergence(Normal(m, m.abs() * ALPHA**0.5), Normal(0.0, 1.0)) for m in THETA)
    assert kl_at(DISTRIBUTIONS[0], 6) == pytest.approx(exact.item(), abs=1e-3)


@pytest.mark.parametrize(("noise", "missing"), list(zip(DISTRIBUTIONS, (0, 1, 2), strict=True)))
def test_the_readout_states_the_slope(panel, noise, missing):
    readout = panel.render(halvings=6, noise=noise).readout
    assert f"Missing dimensions: {missing}" in readout
    rise = kl_at(noise, 6) - kl_at(noise, 5)
    assert f"The last halving added {rise:.3f}" in readout
    assert rise == pytest.approx(missing * math.log(2), abs=0.03)


def test_the_picture_puts_the_mass_where_it_is():
    picture = kl_partition._picture(*_cells(DISTRIBUTIONS[2], 1), 1)
    rows, columns = np.nonzero(picture)
    corners = {(c / 2 - 2, r / 2 - 3) for r, c in zip(rows, columns, strict=True)}
    assert corners == {(0.0, 0.0), (1.5, -1.5)}  # cells of 0 and of theta / keep = (1.8, -1.05)
