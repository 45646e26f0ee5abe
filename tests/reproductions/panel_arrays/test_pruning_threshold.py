import numpy as np
import pytest

from bdl_lessons.datasets import digits
from bdl_lessons.panels import arrays
from bdl_lessons.panels.pruning_threshold import threshold_curves
from reproductions.panel_arrays import pruning_threshold


@pytest.fixture(scope="module")
def stored():
    return arrays.load("pruning_threshold")


@pytest.mark.slow
def test_the_committed_arrays_are_what_training_gives(stored):
    made = pruning_threshold.make_arrays()
    assert made.keys() == stored.keys()
    data = digits(seed=0)
    x, y = data.x_test.numpy(), data.y_test.numpy()
    for name in pruning_threshold.NETWORKS:
        ours, theirs = (threshold_curves(a, name, x, y) for a in (made, stored))
        assert np.allclose(ours, theirs, atol=0.05), name
