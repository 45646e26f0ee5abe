import numpy as np
import pytest

from bdl_lessons.panels.in_between_uncertainty import POSITION, gap_ratio


def test_the_readout_compares_the_gap_with_the_clusters(panel, stored):
    readout = panel.render(depth=2, p_drop=0.1).readout
    ratios = ", ".join(f"{gap_ratio(std):.2f}" for std in stored["std_2"][2])
    assert f"MC dropout <b>{ratios}</b>" in readout
    assert f"Gaussian process <b>{gap_ratio(stored['gp_std_2']):.1f}</b>" in readout


def test_gap_ratio_takes_the_larger_cluster():
    std = np.interp(POSITION, [-1.4, -1.0, 0.0, 1.0, 1.4], [9.0, 2.0, 6.0, 3.0, 9.0])
    assert gap_ratio(std) == pytest.approx(2.0)


def test_one_layer_is_convex_and_most_confident_in_the_gap(stored):
    for std in stored["std_1"].reshape(-1, len(POSITION)):
        variance = std.astype(float) ** 2
        assert np.diff(variance, 2).min() > -1e-5 * variance.max()  # stored in single precision
        assert gap_ratio(std) < 0.5
