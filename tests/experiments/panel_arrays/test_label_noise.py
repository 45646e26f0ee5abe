import numpy as np
import pytest
import torch

from bdl_lessons.experiments.panel_arrays import label_noise
from bdl_lessons.lessons.panels import arrays
from bdl_lessons.models.layers.hierarchical_dropout import ScaledNoise


@pytest.fixture(scope="module")
def stored():
    return arrays.load("label_noise")


def test_the_arrays_have_one_entry_for_each_run(stored):
    runs = (len(label_noise.METHODS), label_noise.SEEDS)
    for key in ("clean_accuracy", "train_accuracy", "train_nll", "test_nll"):
        assert stored[key].shape == runs
    for key in ("spectral_norm", "penalty", "alpha"):
        assert stored[key].shape == (*runs, 3)
        assert (stored[key] >= 0).all()
    assert all(np.isfinite(values).all() for values in stored.values())


def test_alpha_is_learned_within_its_bound_and_absent_without_noise(stored):
    for method, alpha in zip(label_noise.METHODS, stored["alpha"], strict=True):
        assert (alpha == 0).all() if method == "MAP" else ((alpha > 0) & (alpha <= 1)).all()


def test_the_share_of_random_labels():
    x, y, _, y_clean, y_test = label_noise._data(0)
    assert len(x) == len(y) == label_noise.N_TRAIN
    changed = (y_clean != y_test).double().mean()
    assert changed == pytest.approx(0.9 * label_noise.RANDOM_LABELS, abs=0.05)


def test_methods_differ_in_what_their_names_say():
    methods = {name: factory.linear(4, 3) for name, factory in label_noise.METHODS.items()}
    assert not methods["MAP"].is_random
    assert len(methods["VD"].noise.vectors) == 0
    assert len(methods["VSD"].noise.vectors) == 2
    assert isinstance(methods["hierarchical VSD"].noise, ScaledNoise)
    assert len(methods["hierarchical VSD"].noise.base.vectors) == 2
    assert label_noise.METHODS["VSD"].kl_per == "factor"
    assert label_noise.METHODS["VSD, KL per weight"].kl_per == "weight"


def test_training_returns_what_is_stored(stored, monkeypatch):
    monkeypatch.setattr(label_noise, "N_DRAWS", 10)
    found = label_noise.train("hierarchical VSD", n_seeds=2, n_steps=3)
    assert set(found) == set(stored)
    assert all(value.shape == (2, *stored[key].shape[2:]) for key, value in found.items())


@pytest.mark.slow
def test_the_committed_arrays_are_what_training_gives(stored):
    row = list(label_noise.METHODS).index("VSD")
    torch.manual_seed(1)
    found = label_noise.train("VSD")
    assert np.allclose(found["clean_accuracy"], stored["clean_accuracy"][row], atol=0.03)
    assert np.allclose(found["spectral_norm"], stored["spectral_norm"][row], rtol=0.1)
    assert np.allclose(found["penalty"], stored["penalty"][row], rtol=0.3)
