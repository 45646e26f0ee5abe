"""The networks on two clusters, against sums over masks, drawn weights and a linear regression."""

import numpy as np
import pytest
import torch

from bdl_lessons.panels import arrays
from bdl_lessons.probability import all_masks, gaussian_kl, mask_probs
from bdl_lessons.reference import BayesLinear
from reproductions.panel_arrays import in_between_uncertainty as in_between
from reproductions.panel_arrays.in_between_uncertainty import NOISE_VAR, MeanField
from tests.draws import normal, seeded


@pytest.mark.parametrize("p_drop", [0.1, 0.5])
def test_moments_and_loss_are_those_over_all_masks(p_drop, monkeypatch):
    x, y, _ = in_between.clusters()
    monkeypatch.setattr(in_between, "WIDTH", 6)
    layers = in_between.dropout_networks(depth=1, n_rates=1, seeds=[0])
    (W, b), (v, c) = layers
    masks = all_masks(6)
    probs = mask_probs(masks, p_drop)
    hidden = torch.relu(x @ W + b)[0, 0]
    kept = hidden * masks[:, None] / (1 - p_drop)
    f = (kept @ v[0, 0] + c[0, 0]).squeeze(-1)  # (masks, N)
    expected_mean = probs @ f
    expected_variance = probs @ (f - expected_mean) ** 2

    keep = torch.tensor(1 - p_drop).double().view(1, 1, 1, 1)
    mean, variance = in_between.moments(layers, x, keep)
    torch.testing.assert_close(mean[0, 0], expected_mean)
    torch.testing.assert_close(variance[0, 0], expected_variance)

    misfit = probs @ ((y - f) ** 2).sum(1) / (2 * NOISE_VAR)
    of_first_layer = (W**2).sum() / (2 * 8)
    of_last_layer = (v**2).sum() / (2 * 16 / 6 * (1 - p_drop))
    of_biases = ((b**2).sum() + (c**2).sum()) / 2
    expected_loss = misfit + of_first_layer + of_last_layer + of_biases
    loss = in_between.dropout_loss(layers, x, y, keep, masks=[])
    torch.testing.assert_close(loss, expected_loss)


@pytest.fixture
def mean_field():
    """Weights with means of many sizes, and noise of about their size."""
    hidden_mean = normal(3, 50)
    output_mean = normal(50, seed=1)
    return MeanField(
        hidden_mean=hidden_mean,
        hidden_log_var=hidden_mean.abs() - 1,
        output_mean=output_mean,
        output_log_var=output_mean - 2,
        bias=torch.ones(1).double(),
    )


def test_mean_field_moments_are_those_of_drawn_weights(mean_field):
    """A weight of the prior N(0, 8) times 8 ** -0.5 is a bias of the prior N(0, 1)."""
    x = torch.tensor([[0.0, 0.0], [1.0, -0.5]]).double()
    mean, variance = in_between.mean_field_moments(mean_field, x)

    n_draws = 100_000
    hidden_std = (mean_field.hidden_log_var / 2).exp()
    output_std = (mean_field.output_log_var / 2).exp()
    W = mean_field.hidden_mean + hidden_std * normal(n_draws, 3, 50, seed=2)
    V = mean_field.output_mean + output_std * normal(n_draws, 50, seed=3)
    hidden = torch.relu(x @ W[:, :2] + 8**-0.5 * W[:, 2:])
    f = (hidden @ V[..., None]).squeeze(-1) + 1
    torch.testing.assert_close(mean, f.mean(0), atol=0.1, rtol=0)
    torch.testing.assert_close(variance, f.var(0), atol=0, rtol=0.03)


def test_the_mean_field_loss_is_the_negative_elbo_by_its_moments(mean_field):
    x = torch.tensor([[0.0, 0.0], [1.0, -0.5]]).double()
    y = torch.tensor([1.0, 2.0]).double()
    mean, variance = in_between.mean_field_moments(mean_field, x)
    misfit = (((y - mean) ** 2 + variance) / (2 * NOISE_VAR)).sum()
    kl_hidden = gaussian_kl(mean_field.hidden_mean, mean_field.hidden_log_var.exp(), 0.0, 8.0)
    kl_output = gaussian_kl(mean_field.output_mean, mean_field.output_log_var.exp(), 0.0, 16 / 50)
    of_bias = 1 / 2
    loss = in_between.mean_field_loss(mean_field, x, y)
    torch.testing.assert_close(loss, misfit + kl_hidden + kl_output + of_bias)


@pytest.mark.parametrize("depth", [1, 2])
def test_training_starts_as_stored_and_the_draws_have_the_moments(depth):
    functions = in_between.train(depth, rates=(0.2, 0.5), seeds=(0, 1), stops=(1, 3), n_draws=50)
    assert functions.mean.shape == (2, 2, 113)
    assert functions.stds.shape == (2, 2, 2, 113)
    assert functions.draws.shape == (2, 2, in_between.N_SHOWN, 113)
    spread = functions.draws.std(2) / functions.stds[:, :, -1]
    assert 0.4 < float(spread.mean()) < 1.6


def test_given_the_hidden_layer_the_posterior_is_that_of_a_linear_regression():
    x, y, line = in_between.clusters()
    offsets = []
    for seed in range(3):
        hidden = normal(3, 50, seed=seed)
        regression = BayesLinear(in_between.features(hidden, x), y, NOISE_VAR, 1.0)
        expected = hidden.square().sum() / 2 - regression.log_evidence()
        potential, _ = in_between.minus_log_posterior(hidden, x, y)
        offsets.append(float(potential - expected))
        mean, root = in_between.output(hidden, x, y, line)
        expected_mean, variance = regression.predict(in_between.features(hidden, line))
        torch.testing.assert_close(mean, expected_mean)
        torch.testing.assert_close(root.square().sum(0), variance - NOISE_VAR, atol=1e-9, rtol=1e-6)
    assert np.ptp(offsets) < 1e-6  # equal up to one constant


def test_hidden_units_have_the_variance_of_the_prior():
    x, _, _ = in_between.clusters()
    hidden = torch.randn(2000, 3, 50, generator=seeded()).double()
    units = in_between.features(hidden, x[:1])
    prior_var = 1 + 16 * (8 * x[0].square().sum() + 1) / 2
    assert units.square().sum(-1).mean().item() == pytest.approx(prior_var.item(), rel=0.05)


@pytest.mark.slow
def test_training_again_gives_what_is_stored():
    stored = arrays.load("in_between_uncertainty")
    functions = in_between.train(1, rates=(0.05,), seeds=(0,), stops=stored["steps_1"][:3])
    ends = [16, 96]
    again = functions.stds[0, 0][:, ends].numpy()
    assert np.allclose(again, stored["history_1"][1, 0, :3][:, ends], rtol=0.25)
    # Networks that start apart by a last bit differ by 11 % here: four errors of a mean of six.
    stop = stored["mf_steps"][:1]
    stds = [float(in_between.train_mean_field(seed, stop).mean()) for seed in range(6)]
    assert np.mean(stds) == pytest.approx(stored["mf_history"][:, 0].mean(), rel=0.18)
