"""The paired networks of lesson 11: they differ in their noise alone, and some learn more of it."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import MultivariateNormal, kl_divergence

from bdl_lessons.models import StructuredDropout
from bdl_lessons.panels import arrays
from bdl_lessons.probability import best_precision
from reproductions.panel_arrays import paired_starts
from reproductions.posteriors.full_covariance import FullCovarianceDropout
from tests.draws import seeded

METHODS = [*paired_starts.METHODS]


@pytest.mark.parametrize("method", METHODS)
def test_all_networks_of_a_split_start_alike(method):
    network = paired_starts.start(method, seed=3)
    other = paired_starts.start("T = 0", seed=3)
    for layer, independent in zip(network[::2], other[::2], strict=True):
        torch.testing.assert_close(layer.weight, independent.weight)
        torch.testing.assert_close(layer.log_alpha, independent.log_alpha)
    rows = torch.rand(5, 64, generator=seeded(0))
    if "T = 2" not in method:  # vectors turn the noise from the start on
        outputs = [each(rows, "per_example", seeded(1)) for each in (network, other)]
        torch.testing.assert_close(*outputs)


def test_frozen_vectors_are_the_first_ones_of_learned_vectors_and_stay():
    splits = [paired_starts.digits_split(0)]
    frozen = paired_starts.start("T = 2, frozen", seed=0)
    learned = paired_starts.start("T = 2, learned", seed=0)
    assert not torch.allclose(frozen[0].vectors, paired_starts.start("T = 2, frozen", 1)[0].vectors)
    torch.testing.assert_close(frozen[0].vectors, learned[0].vectors)
    assert [network[0].vectors.requires_grad for network in (frozen, learned)] == [False, True]
    scores = [paired_starts.run(method, splits, n_steps=2) for method in METHODS[1:3]]
    assert not np.allclose(scores[0]["correlation"], scores[1]["correlation"], rtol=1e-4)


def free_layer():
    layer = FullCovarianceDropout(nn.Linear(4, 3, bias=False)).double()
    with torch.no_grad():
        layer.raw_log_alpha.copy_(torch.tensor([-2.0, -0.5, -1.0, -3.0]))
        layer.lower.copy_(torch.randn(4, 4, generator=seeded(2)).double())
    return layer


def test_the_noise_of_a_free_covariance_has_it():
    layer = free_layer()
    xi = layer.draw_xi((200_000, 4), seeded(0)).detach()
    torch.testing.assert_close(xi.mean(0), torch.ones(4).double(), atol=0.02, rtol=0)
    torch.testing.assert_close(xi.T.cov(), layer.noise_cov().detach(), atol=0.03, rtol=0)
    assert layer.noise_cov()[0, 3].abs() > 0.05


def test_the_kl_of_a_free_covariance_is_that_of_the_columns_to_their_best_prior():
    layer = free_layer()
    theta = layer.weight.detach().T
    cov = layer.noise_cov().detach()
    precision = best_precision(theta, cov.diagonal())
    total = 0.0
    for column, beta in zip(theta.T, precision.T, strict=True):
        q = MultivariateNormal(column, column[:, None] * cov * column)
        prior = MultivariateNormal(torch.zeros(4).double(), torch.diag(1 / beta))
        total += float(kl_divergence(q, prior))
    assert float(layer.kl()) == pytest.approx(total, rel=1e-5)


def test_reflections_are_among_the_free_covariances():
    """The triangle of any covariance has alphas between its least and largest eigenvalue."""
    layer = StructuredDropout(nn.Linear(6, 2), n_reflections=3, alpha_spread=1.0)
    cov = layer.noise_cov().detach().double()
    alphas = torch.linalg.cholesky(cov).diagonal().square()
    low, high = layer.alpha.aminmax()
    assert (alphas > low * 0.999).all()
    assert (alphas < high * 1.001).all()


def test_the_correlation_is_that_of_the_layer_in_which_it_is_larger():
    network = paired_starts.start("full covariance", seed=0)
    assert paired_starts.largest_correlation(network) == 0
    with torch.no_grad():
        network[2].lower[1, 0] = 1.0
    alpha = network[2].alpha.detach()
    correlation = float((alpha[0] / (alpha[0] + alpha[1])).sqrt())
    expected = correlation * (2 / (50 * 49)) ** 0.5
    assert paired_starts.largest_correlation(network) == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
def test_the_committed_arrays_are_what_training_gives():
    stored = arrays.load("paired_starts")
    splits = [paired_starts.digits_split(seed) for seed in range(paired_starts.N_SPLITS)]
    scores = paired_starts.run("full covariance", splits)
    row = METHODS.index("full covariance")
    assert stored["methods"].tolist() == METHODS
    assert np.allclose(scores["nll"].mean(1), stored["nll"][row].mean(1), rtol=0.1)
