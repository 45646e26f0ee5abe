"""What training gives is laid out as the committed arrays are, and is what they are."""

from functools import partial

import numpy as np
import pytest

from bdl_lessons.datasets import digits
from bdl_lessons.panels import arrays, rotated_digit
from bdl_lessons.panels.pruning_threshold import NETWORKS, threshold_curves
from reproductions.panel_arrays import mc_dropout_co2 as co2_arrays
from reproductions.panel_arrays import small

MAKERS = {
    "dropout_rate": small.make_dropout_rate,
    "many_networks": small.make_many_networks,
    "mc_dropout_co2": co2_arrays.make_arrays,
    "pruning_threshold": small.make_pruning_threshold,
    "rotated_digit": partial(small.make_rotated_digit, n_draws=200),
}


@pytest.mark.parametrize("name", MAKERS)
def test_arrays_have_the_layout_that_is_stored(name, monkeypatch):
    monkeypatch.setattr(co2_arrays, "N_DRAWS", 4)
    monkeypatch.setattr(rotated_digit, "RATES", (0.5,))
    trained = MAKERS[name](n_steps=2)
    stored = arrays.load(name)
    assert trained.keys() == stored.keys()
    for key, values in trained.items():
        assert values.dtype == stored[key].dtype, key
        assert values.shape[1:] == stored[key].shape[1:], key
        is_missing = np.isnan(stored[key]).any(axis=0)  # a start that is not there
        assert np.isfinite(values[:, ~is_missing]).all(), key


@pytest.mark.slow
def test_a_network_for_each_rate_is_trained_again():
    trained = small.make_dropout_rate()
    stored = arrays.load("dropout_rate")
    for name, values in trained.items():
        assert np.allclose(values, stored[name], atol=1e-3), name


@pytest.mark.slow
def test_networks_are_pruned_alike_when_they_are_trained_again():
    trained = small.make_pruning_threshold()
    stored = arrays.load("pruning_threshold")
    data = digits(seed=0)
    x = data.x_test.numpy()
    y = data.y_test.numpy()
    for name in NETWORKS:
        ours = threshold_curves(trained, name, x, y)
        committed = threshold_curves(stored, name, x, y)
        assert np.allclose(ours, committed, atol=0.05), name
