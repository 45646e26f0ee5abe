import numpy as np
import pytest

from bdl_lessons.panels import arrays
from reproductions.panel_arrays import dropout_rate


@pytest.fixture(scope="module")
def stored():
    return arrays.load("dropout_rate")


@pytest.mark.slow
def test_the_committed_arrays_are_what_training_gives(stored):
    made = dropout_rate.make_arrays()
    assert made.keys() == stored.keys()
    for name, values in made.items():
        assert np.allclose(values, stored[name], atol=1e-3), name
