import re

import numpy as np
import pytest

from bdl_lessons.panels import dropout_noise


@pytest.fixture(scope="module")
def shown():
    return dropout_noise.panel()


@pytest.mark.parametrize("p_drop", [0.0, 0.2, 0.9])
def test_the_readout_is_mean_and_variance_of_the_factor(shown, p_drop):
    readout = shown.render(p_drop=p_drop).readout
    mean, variance = (float(number) for number in re.findall("<b>(.+?)</b>", readout))
    factor, chance = np.array([0, 1 / (1 - p_drop)]), np.array([p_drop, 1 - p_drop])
    assert mean == pytest.approx(factor @ chance, abs=0.005)
    assert variance == pytest.approx((factor - mean) ** 2 @ chance, abs=0.005)
