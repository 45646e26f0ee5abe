import numpy as np
import pytest
import torch

from bdl_lessons.panels import arrays
from reproductions.panel_arrays import label_noise


@pytest.fixture(scope="module")
def stored():
    return arrays.load("label_noise")


@pytest.mark.parametrize(("method", "tried"), label_noise.TRIED.items())
def test_a_strength_is_chosen_on_examples_that_are_not_trained_on(method, tried, monkeypatch):
    x = torch.zeros(1, 6, 64)
    y = torch.arange(6)[None]
    trained = []
    validated = []

    def fitted(name, x, y, weight, *rest):
        trained.append((name, y.tolist(), weight.item()))
        return None, None

    def nll(_, labels):  # the second try is the best
        validated.append(labels.tolist())
        return torch.tensor([1.0 if len(validated) == 2 else 2.0])

    monkeypatch.setattr(label_noise, "N_VALIDATION", 2)
    monkeypatch.setattr(label_noise, "data", lambda n_seeds: (x, y))
    monkeypatch.setattr(label_noise, "fitted", fitted)
    monkeypatch.setattr(label_noise, "_probabilities", lambda *_: None)
    monkeypatch.setattr(label_noise, "_nll", nll)
    assert label_noise.chosen.__wrapped__(method, 1, 1).item() == tried[1]
    assert trained == [(method, [[0, 1, 2, 3]], value) for value in tried]
    assert validated == [[[4, 5]]] * len(tried)


def test_the_kl_weight_scales_the_kl_of_the_noise():
    x, y = (part[2:3] for part in label_noise.data(1)[:2])
    noise = []
    for value in (1.0, 400.0):
        networks, _ = label_noise.fitted("VD", x, y, torch.tensor([value]), 1, 40)
        noise.append(networks.network(0)[0].alpha.mean())
    assert noise[1] > 1.05 * noise[0]


def test_a_seed_has_one_start_in_every_method_and_another_seed_another(monkeypatch):
    monkeypatch.setattr(label_noise, "fit_batched", lambda *_, **__: None)
    x = torch.zeros(4, 3, 64)
    y = torch.zeros(4, 3).long()
    starts = {}
    for method in ("MAP", "VD"):
        networks, _ = label_noise.fitted(method, x, y, torch.ones(4), n_seeds=2, n_steps=1)
        starts[method] = [networks.network(number)[0].weight for number in range(4)]
    for seed in (0, 1):
        torch.testing.assert_close(starts["MAP"][seed], starts["VD"][seed])
        torch.testing.assert_close(starts["MAP"][seed], starts["MAP"][seed + 2])
    assert not torch.allclose(starts["MAP"][0], starts["MAP"][1])


def test_early_stopping_stops_each_network_at_its_step():
    x, y = (part[2:3].expand(2, *part.shape[1:]) for part in label_noise.data(1)[:2])
    stops = torch.tensor([3.0, 9.0])
    early = label_noise.fitted("early stopping", x, y, stops, 1, 40)[0]
    late = label_noise.fitted("no prior", x, y, torch.zeros(2), 1, 9)[0]
    assert torch.allclose(early.network(1)[0].weight, late.network(1)[0].weight, atol=1e-5)
    assert not torch.allclose(early.network(0)[0].weight, late.network(0)[0].weight, atol=1e-4)


def test_the_share_of_random_labels():
    x, y, _, y_clean, y_test = label_noise.data(1)
    assert x.shape[:2] == y.shape == (len(label_noise.SHARES), label_noise.N_TRAIN)
    changed = (y_clean != y_test).double().mean(1)
    assert changed.tolist() == pytest.approx([0.9 * s for s in label_noise.SHARES], abs=0.05)


def test_training_returns_what_is_stored(stored, monkeypatch):
    monkeypatch.setattr(label_noise, "N_DRAWS", 10)
    found = label_noise.train("hierarchical VSD", n_seeds=2, n_steps=3)
    assert set(found) == set(stored) - {"methods", "shares"}
    assert stored["methods"].tolist() == list(label_noise.METHODS)
    assert stored["shares"].tolist() == list(label_noise.SHARES)
    for key, value in found.items():
        assert value.shape == (len(label_noise.SHARES), 2, *stored[key].shape[3:])
        assert np.isfinite(stored[key]).all()


@pytest.mark.slow
def test_the_committed_arrays_are_what_training_at_the_chosen_weights_gives(stored, monkeypatch):
    row = list(label_noise.METHODS).index("VSD, T = 2")
    n_seeds = 3
    chosen = torch.from_numpy(stored["kl_weight"][row, :, :n_seeds]).flatten()
    monkeypatch.setattr(label_noise, "chosen", lambda *_: chosen)
    found = label_noise.train("VSD, T = 2", n_seeds)
    ours = {key: values.mean(1) for key, values in found.items()}
    theirs = {key: stored[key][row, :, :n_seeds].mean(1) for key in found}
    assert np.allclose(ours["clean_accuracy"], theirs["clean_accuracy"], atol=0.03)
    assert np.allclose(ours["spectral_norm"], theirs["spectral_norm"], rtol=0.1)
    assert np.allclose(ours["penalty"], theirs["penalty"], rtol=0.3)
