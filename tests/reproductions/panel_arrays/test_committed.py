"""What training gives is laid out as the committed arrays are, and is what they are."""

import importlib

import numpy as np
import pytest

from bdl_lessons.datasets import digits
from bdl_lessons.panels import arrays
from bdl_lessons.panels.pruning_threshold import NETWORKS, threshold_curves
from reproductions.panel_arrays import dropout_rate, pruning_threshold

BRIEFLY = {
    "dropout_rate": {},
    "many_networks": {},
    "mc_dropout_co2": {"RATES": (0.05, 0.2)},
    "pruning_threshold": {},
    "rotated_digit": {"RATES": (0.5,), "MANY_SAMPLES": 200},
}
"""Name of the arrays -> what a short training changes."""


@pytest.mark.parametrize("name", BRIEFLY)
def test_arrays_have_the_layout_that_is_stored(name, monkeypatch):
    module, stored = (
        importlib.import_module(f"reproductions.panel_arrays.{name}"),
        arrays.load(name),
    )
    for constant, value in BRIEFLY[name].items():
        monkeypatch.setattr(module, constant, value)
    made = module.make_arrays(n_steps=2)
    assert made.keys() == stored.keys()
    for key, values in made.items():
        assert values.dtype == stored[key].dtype, key
        assert values.shape[1:] == stored[key].shape[1:], key
        assert np.isfinite(values).all(), key


@pytest.mark.slow
def test_a_network_for_each_rate_is_trained_again():
    made, stored = dropout_rate.make_arrays(), arrays.load("dropout_rate")
    for name, values in made.items():
        assert np.allclose(values, stored[name], atol=1e-3), name


@pytest.mark.slow
def test_networks_are_pruned_alike_when_they_are_trained_again():
    made, stored = pruning_threshold.make_arrays(), arrays.load("pruning_threshold")
    data = digits(seed=0)
    x, y = data.x_test.numpy(), data.y_test.numpy()
    for name in NETWORKS:
        ours, theirs = (threshold_curves(a, name, x, y) for a in (made, stored))
        assert np.allclose(ours, theirs, atol=0.05), name
