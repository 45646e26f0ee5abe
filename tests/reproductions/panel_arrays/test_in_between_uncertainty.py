import numpy as np
import pytest
import torch

from bdl_lessons.datasets import origin_clusters
from bdl_lessons.panels import arrays
from bdl_lessons.probability import all_masks, gaussian_kl, mask_probs
from reproductions.panel_arrays import in_between_uncertainty as arrays_of
from reproductions.panel_arrays.in_between_uncertainty import (
    NOISE_VAR,
    dropout_loss,
    dropout_networks,
    moments,
)


@pytest.fixture(scope="module")
def clusters():
    data = origin_clusters()
    return data.x.double(), data.y.double()


def output(layers, x, mask):
    """Of networks of one hidden layer under one mask."""
    (W, b), (v, c) = layers
    return (torch.relu(x @ W + b) * mask @ v + c).squeeze(-1)


def keep_of(*rates):
    return 1 - torch.tensor(rates, dtype=torch.float64)[:, None, None, None]


def test_moments_are_those_over_all_masks(clusters, monkeypatch):
    x, _ = clusters
    monkeypatch.setattr(arrays_of, "WIDTH", 6)
    layers, masks = dropout_networks(1, 2, [0, 1]), all_masks(6)
    mean, variance = moments(layers, x, keep_of(0.1, 0.5))
    for rate, p_drop in enumerate((0.1, 0.5)):
        chances = mask_probs(masks, p_drop)
        f = torch.stack([output(layers, x, m / (1 - p_drop))[rate, 1] for m in masks])
        torch.testing.assert_close(mean[rate, 1], chances @ f)
        torch.testing.assert_close(variance[rate, 1], chances @ (f - chances @ f) ** 2)


def test_the_loss_is_the_mean_over_all_masks_plus_the_prior(clusters, monkeypatch):
    x, y = clusters
    monkeypatch.setattr(arrays_of, "WIDTH", 6)
    layers, keep = dropout_networks(1, 1, [0]), keep_of(0.3)
    masks = all_masks(6)
    chances = mask_probs(masks, 0.3)
    f = torch.stack([output(layers, x, m / 0.7)[0, 0] for m in masks])
    data = chances @ ((y - f) ** 2).sum(1) / (2 * NOISE_VAR)
    (W, b), (v, c) = layers
    prior = (W**2).sum() / (2 * 8) + (v**2).sum() / (2 * 16 / 6 * 0.7)
    prior = prior + ((b**2).sum() + (c**2).sum()) / 2
    torch.testing.assert_close(dropout_loss(layers, x, y, keep, []), data + prior)


def test_the_kl_of_a_mean_field_bias_is_that_of_a_standard_normal_prior():
    first, _ = arrays_of.mean_field_network(0)
    scale = float(arrays_of.with_bias(torch.zeros(1, 2, dtype=torch.float64))[0, 2])
    assert scale**2 * 8 == pytest.approx(1.0)
    with torch.no_grad():
        variances = first.noise.var(first.mu)
    expected = gaussian_kl(first.mu, variances, 0.0, 8.0)
    torch.testing.assert_close(first.kl(), expected)


def test_training_starts_as_stored_and_the_draws_have_the_moments(clusters):
    x, y = clusters
    line = torch.from_numpy(arrays_of.POSITION)[::28, None].expand(-1, 2)
    for depth in (1, 2):
        mean, std, draws = arrays_of.train(x, y, line, depth, (0.2, 0.5), (0, 1), (1, 3), 50)
        assert mean.shape == (2, 2, 5)
        assert std.shape == (2, 2, 2, 5)
        assert draws.shape == (2, 2, arrays_of.N_SHOWN, 5)
        spread = draws.std(2) / std[:, :, -1]
        assert 0.4 < float(spread.mean()) < 1.6


@pytest.mark.slow
def test_training_again_gives_what_is_stored(clusters):
    x, y = clusters
    stored = arrays.load("in_between_uncertainty")
    line = torch.from_numpy(arrays_of.POSITION)[:, None].expand(-1, 2)
    _, std, _ = arrays_of.train(x, y, line, 1, (0.05,), (0,), stored["steps_1"][:3])
    ends = [16, 96]
    for look in range(3):
        again = std[0, 0, look].numpy()[ends]
        assert np.allclose(again, stored["history_1"][1, 0, look, ends], rtol=0.25)
    # Networks that start apart by a last bit differ by 11 % here: four errors of a mean of six.
    first = [
        arrays_of.train_mean_field(x, y, line, seed, stored["mf_steps"][:1])[1].mean()
        for seed in range(6)
    ]
    assert float(sum(first)) / 6 == pytest.approx(stored["mf_history"][:, 0].mean(), rel=0.18)
