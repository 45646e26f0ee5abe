import math

import numpy as np
import pytest

from bdl_lessons.evaluation import paired_difference, ranks


def test_a_difference_by_hand():
    d = paired_difference(np.array([3.0, 5.0, 4.0]), np.array([1.0, 1.0, 1.0]), test_fraction=0.2)
    assert d.mean == 3
    assert d.std_error == pytest.approx(1 / math.sqrt(3))
    assert d.corrected_std_error == pytest.approx(math.sqrt(1 / 3 + 1 / 4))


def test_the_corrected_error_is_right_for_correlated_splits():
    """10 splits with the correlation that the correction assumes: its square is unbiased."""
    rng = np.random.default_rng(1)
    n = 10
    fraction = 0.1
    repeats = 40_000
    common = rng.standard_normal((repeats, 1)) * math.sqrt(fraction)
    samples = common + rng.standard_normal((repeats, n)) * math.sqrt(1 - fraction)
    means = samples.mean(1)
    var = samples.var(1, ddof=1)
    factor = paired_difference(samples[0], 0 * samples[0], fraction).corrected_std_error ** 2
    factor /= var[0]
    assert (factor * var).mean() == pytest.approx(means.var(), rel=0.03)
    assert (var / n).mean() < 0.6 * means.var()


def test_ranks_share_ties_and_leave_gaps():
    np.testing.assert_allclose(
        ranks([[0.3, 0.1, 0.3, np.nan]], higher_is_better=False), [[2.5, 1, 2.5, np.nan]]
    )
    np.testing.assert_allclose(ranks([3.0, 1.0, 2.0], higher_is_better=True), [1, 3, 2])
