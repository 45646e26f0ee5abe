import numpy as np
import pytest
import torch

from bdl_lessons.datasets import origin_clusters
from bdl_lessons.lessons.panels import arrays, in_between_uncertainty
from bdl_lessons.lessons.panels.in_between_uncertainty import (
    POSITION,
    RATES,
    WEIGHT_STDS,
    gap_ratio,
)
from bdl_lessons.probability import dropout_moments


@pytest.fixture(scope="module")
def stored():
    return arrays.load("in_between_uncertainty")


@pytest.fixture(scope="module")
def panel():
    return in_between_uncertainty.panel()


def test_every_setting_gives_a_picture_of_its_own(panel):
    pictures = {panel.render(depth=d, p_drop=p).png for d in WEIGHT_STDS for p in RATES}
    assert len(pictures) == len(WEIGHT_STDS) * len(RATES)


def test_the_readout_compares_the_gap_with_the_clusters(panel, stored):
    readout = panel.render(depth=2, p_drop=0.1).readout
    assert f"MC dropout <b>{gap_ratio(stored['std_2'][2]):.2f}</b>" in readout
    assert f"Gaussian process <b>{gap_ratio(stored['gp_std_2']):.1f}</b>" in readout


def test_gap_ratio_takes_the_larger_cluster():
    std = np.interp(POSITION, [-1.4, -1.0, 0.0, 1.0, 1.4], [9.0, 2.0, 6.0, 3.0, 9.0])
    assert gap_ratio(std) == pytest.approx(2.0)


def test_one_layer_is_convex_and_surest_in_the_gap(stored):
    for std in stored["std_1"]:
        variance = std**2
        assert np.diff(variance, 2).min() > -0.01 * variance.max()  # sampled: 2000 draws
        assert gap_ratio(std) < 0.1


def test_the_processes_are_unsure_in_the_gap(stored):
    assert all(gap_ratio(stored[f"gp_std_{depth}"]) > 20 for depth in WEIGHT_STDS)


def test_the_nets_fit_the_clusters(stored):
    for depth in WEIGHT_STDS:
        for mean in stored[f"mean_{depth}"]:
            assert abs(np.interp(stored["x"], POSITION, mean) - stored["y"]).mean() < 0.3


def test_the_draws_have_the_moments_of_one_layer():
    data = origin_clusters()
    x, y = data.x.double(), data.y.double()
    layers = in_between_uncertainty.train(x, y, depth=1, n_steps=5)
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack(
        [in_between_uncertainty._network(layers, x[:4], generator, rows=1) for _ in range(1500)]
    )
    (w, b), (v, c) = layers
    for rate, p_drop in list(enumerate(RATES))[2:]:  # rarer drops need more draws
        hidden = torch.relu(x[:4] @ w[rate] + b[rate])
        mean, variance = dropout_moments(hidden, v[rate, :, 0], p_drop)
        assert torch.allclose(draws[:, rate].mean(0), mean + c[rate, 0], atol=0.15)
        assert torch.allclose(draws[:, rate].var(0), variance, rtol=0.2)


@pytest.mark.slow
def test_the_committed_arrays_are_what_training_gives(stored):
    made = in_between_uncertainty.make_arrays()
    assert made.keys() == stored.keys()
    for name, values in made.items():
        assert np.allclose(values, stored[name], atol=0.02), name
