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
    runs = (len(label_noise.METHODS), len(label_noise.SHARES), label_noise.SEEDS)
    for key in ("clean_accuracy", "train_accuracy", "train_nll", "test_nll", "precision"):
        assert stored[key].shape == runs
    for key in ("spectral_norm", "penalty", "alpha"):
        assert stored[key].shape == (*runs, 3)
        assert (stored[key] >= 0).all()
    assert all(np.isfinite(values).all() for values in stored.values())


def test_alpha_is_learned_within_its_bound_and_absent_without_noise(stored):
    for method, alpha in zip(label_noise.METHODS, stored["alpha"], strict=True):
        no_noise = method in {"no prior", "MAP, tuned"}
        assert (alpha == 0).all() if no_noise else ((alpha > 0) & (alpha <= 1)).all()


def test_only_map_has_a_precision_and_it_is_one_of_those_tried(stored):
    for method, precision in zip(label_noise.METHODS, stored["precision"], strict=True):
        tried = label_noise.PRECISIONS if method == "MAP, tuned" else [0.0]
        assert set(precision.flat) <= set(tried)


def test_the_precision_is_chosen_on_examples_that_are_not_trained_on(monkeypatch):
    x, y = torch.zeros(1, 6, 64), torch.arange(6)[None]
    monkeypatch.setattr(label_noise, "N_VALIDATION", 2)
    trained, validated = [], []
    monkeypatch.setattr(label_noise, "_fitted", lambda _, x, y, *rest: (trained.append(y), None))
    monkeypatch.setattr(label_noise, "_probabilities", lambda *_: None)
    nlls = iter([3.0, 2.0, 1.0, 4.0, 5.0, 6.0, 7.0])

    def nll(_, labels):
        validated.append(labels)
        return torch.tensor([next(nlls)])

    monkeypatch.setattr(label_noise, "_nll", nll)
    assert label_noise._chosen(x, y, 1, 1).tolist() == [label_noise.PRECISIONS[2]]
    assert all(labels.tolist() == [[0, 1, 2, 3]] for labels in trained)
    assert all(labels.tolist() == [[4, 5]] for labels in validated)


@pytest.mark.parametrize("share", label_noise.SHARES)
def test_the_share_of_random_labels(share):
    x, y, _, y_clean, y_test = label_noise._data(share, 0)
    assert len(x) == len(y) == label_noise.N_TRAIN
    changed = (y_clean != y_test).double().mean()
    assert changed == pytest.approx(0.9 * share, abs=0.05)


def test_methods_differ_in_what_their_names_say():
    methods = {name: factory.linear(4, 3) for name, factory in label_noise.METHODS.items()}
    assert not methods["no prior"].is_random
    assert not methods["MAP, tuned"].is_random
    assert label_noise.METHODS["VD"].prior == "log_uniform"
    assert label_noise.METHODS["VSD, T = 0"].prior == "empirical_bayes"
    for name, n_reflections in [("VD", 0), ("VSD, T = 0", 0), ("VSD, T = 2", 2)]:
        assert len(methods[name].noise.vectors) == n_reflections
        assert label_noise.METHODS[name].kl_per == "factor"
    assert isinstance(methods["hierarchical VSD"].noise, ScaledNoise)
    assert len(methods["hierarchical VSD"].noise.base.vectors) == 2
    assert label_noise.METHODS["VSD, KL per weight"].kl_per == "weight"


def test_training_returns_what_is_stored(stored, monkeypatch):
    monkeypatch.setattr(label_noise, "N_DRAWS", 10)
    found = label_noise.train("hierarchical VSD", n_seeds=2, n_steps=3)
    assert set(found) == set(stored)
    n_shares = len(label_noise.SHARES)
    for key, value in found.items():
        assert value.shape == (n_shares, 2, *stored[key].shape[3:])


@pytest.mark.slow
def test_the_committed_arrays_are_what_training_gives(stored):
    row = list(label_noise.METHODS).index("VSD, T = 2")
    torch.manual_seed(1)
    found = label_noise.train("VSD, T = 2")
    assert np.allclose(found["clean_accuracy"], stored["clean_accuracy"][row], atol=0.03)
    assert np.allclose(found["spectral_norm"], stored["spectral_norm"][row], rtol=0.1)
    assert np.allclose(found["penalty"], stored["penalty"][row], rtol=0.3)
