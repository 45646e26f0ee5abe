import numpy as np
import pytest
import torch

from bdl_lessons.panels import arrays
from reproductions.panel_arrays import dropout_by_width


@pytest.fixture(scope="module")
def stored():
    return arrays.load("dropout_by_width")


def test_the_arrays_have_one_entry_for_each_run(stored):
    assert stored["methods"].tolist() == list(dropout_by_width.METHODS)
    shape = (len(dropout_by_width.METHODS), len(dropout_by_width.SETTINGS))
    scores = (*shape, len(dropout_by_width.STEPS), dropout_by_width.SEEDS)
    assert stored["error"].shape == stored["nll"].shape == scores
    assert stored["alpha"].shape == (*shape, dropout_by_width.SEEDS, len(dropout_by_width.RATES))
    assert ((stored["error"] > 0) & (stored["error"] < 60)).all()


def test_alpha_is_stored_where_it_is_learned_and_within_its_bound(stored):
    for name, alpha in zip(dropout_by_width.METHODS, stored["alpha"], strict=True):
        if name in dropout_by_width.LEARNED:
            assert ((alpha > 0) & (alpha <= 1 + 1e-6)).all()
        else:
            assert np.isnan(alpha).all()


@pytest.mark.parametrize("name", [m for m in dropout_by_width.METHODS if "none" not in m])
def test_every_noise_starts_with_the_matched_variance(name):
    rates = [0.05] * 3 if "0.05" in name else dropout_by_width.RATES
    for p_drop, factory in zip(rates, dropout_by_width.METHODS[name], strict=True):
        layer = factory.linear(1, 1, bias=False).double()
        x = torch.ones(40_000, 1, dtype=torch.float64)
        y = layer(x, "per_example", torch.Generator().manual_seed(0)) / layer.weight
        tolerance = 0.15 if name == "concrete" else 0.04  # a relaxed mask has less variance
        assert y.var().item() == pytest.approx(p_drop / (1 - p_drop), rel=tolerance)


def test_label_noise_leaves_the_test_labels_alone():
    clean, noisy = (dropout_by_width.splits(rate) for rate in (0.0, 0.3))
    changed = (clean[1] != noisy[1]).double().mean(1)
    assert ((changed > 0.2) & (changed < 0.34)).all()  # a tenth of the new labels are the old ones
    for part in (0, 2, 3):
        torch.testing.assert_close(clean[part], noisy[part])


def test_a_short_training_classifies_the_test_digits():
    found = dropout_by_width.train("none", "16 units", steps=(200,))
    assert (found["error"] < 25).all()
    assert (found["nll"] < 1).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["none", "variational A", "none, prior"])
def test_the_committed_arrays_are_what_training_gives(stored, name):
    row = list(dropout_by_width.METHODS).index(name)
    found = dropout_by_width.train(name, "16 units", steps=(500,))
    committed = stored["error"][row, 0, 0]
    standard_error = committed.std(ddof=1) / dropout_by_width.SEEDS**0.5
    assert abs(found["error"].mean() - committed.mean()) < 4 * standard_error
