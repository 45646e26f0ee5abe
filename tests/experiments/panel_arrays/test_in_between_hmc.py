import sys

import numpy as np
import pytest
import torch

from bdl_lessons.datasets import origin_clusters
from bdl_lessons.experiments.panel_arrays import in_between_hmc
from bdl_lessons.experiments.panel_arrays.in_between_hmc import (
    features,
    minus_log_posterior,
    output,
)
from bdl_lessons.experiments.panel_arrays.in_between_uncertainty import NOISE_VAR
from bdl_lessons.lessons.panels import arrays
from bdl_lessons.reference import BayesLinear


@pytest.fixture(scope="module")
def clusters():
    data = origin_clusters()
    return data.x.double(), data.y.double()


def hidden_layer(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(3, 50, generator=generator, dtype=torch.float64)


def test_the_potential_is_the_prior_plus_the_evidence_of_a_linear_regression(clusters):
    x, y = clusters
    off = []
    for seed in range(3):
        hidden = hidden_layer(seed)
        evidence = BayesLinear(features(hidden, x), y, NOISE_VAR, 1.0).log_evidence()
        expected = hidden.square().sum() / 2 - evidence
        off.append(float(minus_log_posterior(hidden, x, y) - expected))
    assert np.ptp(off) < 1e-6  # equal up to one constant


def test_the_output_has_the_moments_of_that_regression(clusters):
    x, y = clusters
    hidden = hidden_layer(0)
    mean, root = output(hidden, x, y, x[::20])
    regression = BayesLinear(features(hidden, x), y, NOISE_VAR, 1.0)
    expected, variance = regression.predict(features(hidden, x[::20]))
    torch.testing.assert_close(mean, expected)
    torch.testing.assert_close(root.square().sum(0), variance - NOISE_VAR, atol=1e-9, rtol=1e-6)


def test_a_network_from_the_prior_has_the_variance_of_the_process(clusters):
    x, _ = clusters
    squares = [features(hidden_layer(seed), x[:1]).square().sum() for seed in range(400)]
    stored_prior = 1 + 16 * (1 + 8 * float(x[0].square().sum())) / 2  # the ReLU kernel's diagonal
    assert float(torch.stack(squares).mean()) == pytest.approx(stored_prior, rel=0.05)


def test_without_pyro_the_command_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyro.ops.stats", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install pyro-ppl"):
        in_between_hmc.make_arrays()


@pytest.mark.slow
def test_short_chains_have_the_shapes_that_are_stored():
    pytest.importorskip("pyro")
    made = in_between_hmc.make_arrays(n_chains=2, n_warmup=15, n_draws=50, max_tree_depth=3)
    stored = arrays.load("in_between_hmc")
    assert made.keys() == stored.keys()
    for name, values in made.items():
        assert np.isfinite(values).all(), name
        assert values.shape[1:] == stored[name].shape[1:], name


def test_the_stored_chains_agree_and_are_uncertain_in_the_gap():
    stored = arrays.load("in_between_hmc")
    gap, ends = 56, [16, 96]
    assert stored["r_hat"].max() < 1.1
    assert np.abs(stored["chain_std"][:, gap] / stored["std"][gap] - 1).max() < 0.15
    assert stored["std"][gap] > 20 * stored["std"][ends].max()
    assert stored["draws"][:, gap].std() == pytest.approx(stored["std"][gap], rel=0.3)
    assert stored["divergences"] == 0


@pytest.mark.slow
def test_a_chain_from_a_stored_draw_stays_where_the_posterior_is(clusters):
    pytest.importorskip("pyro")
    x, y = clusters
    hidden, _ = in_between_hmc.sample_hidden(x, y, 7, n_warmup=60, n_draws=20, max_tree_depth=6)
    mean = torch.stack([output(h, x, y, x)[0] for h in hidden]).mean(0)
    assert float((mean - y).square().mean().sqrt()) < 0.15  # noise of 0.1
