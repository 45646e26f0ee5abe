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
    """Six examples, of which the last two validate; the second strength is the best."""
    digits = label_noise.Labelled(
        x=torch.zeros(1, 6, 64),
        y=torch.arange(6)[None],
        x_test=torch.zeros(1, 1, 64),
        y_clean=torch.zeros(1, 1),
        y_test=torch.zeros(1, 1),
    )
    trained = []
    validated = []

    def fitted(name, x, y, weight, *rest):
        trained.append((name, y.tolist(), weight.item()))
        return None, None

    def nll(_, labels):
        validated.append(labels.tolist())
        is_second = len(validated) == 2
        return torch.tensor([1.0 if is_second else 2.0])

    monkeypatch.setattr(label_noise, "N_VALIDATION", 2)
    monkeypatch.setattr(label_noise, "data", lambda n_seeds: digits)
    monkeypatch.setattr(label_noise, "fitted", fitted)
    monkeypatch.setattr(label_noise, "_probabilities", lambda *_: None)
    monkeypatch.setattr(label_noise, "_nll", nll)
    choose = label_noise.chosen.__wrapped__  # without its cache
    assert choose(method, n_seeds=1, n_steps=1).item() == tried[1]
    assert trained == [(method, [[0, 1, 2, 3]], value) for value in tried]
    assert validated == [[[4, 5]]] * len(tried)


def noisy_digits():
    """Inputs and labels of one network, of which three in ten are random."""
    digits = label_noise.data(n_seeds=1)
    row = label_noise.SHARES.index(0.3)
    return digits.x[[row]], digits.y[[row]]


def test_the_kl_weight_scales_the_kl_of_the_noise():
    x, y = noisy_digits()
    alphas = []
    for value in (1.0, 400.0):
        weight = torch.tensor([value])
        networks, _ = label_noise.fitted("VD", x, y, weight, n_seeds=1, n_steps=40)
        alphas.append(networks.network(0)[0].alpha.mean())
    assert alphas[1] > 1.05 * alphas[0]


def test_a_seed_has_one_start_in_every_method_and_another_seed_another(monkeypatch):
    monkeypatch.setattr(label_noise, "fit_batched", lambda *_, **__: None)
    x = torch.zeros(4, 3, 64)
    y = torch.zeros(4, 3).long()
    starts = {}
    for method in ("MAP", "VD"):
        networks, _ = label_noise.fitted(method, x, y, torch.ones(4), n_seeds=2, n_steps=1)
        starts[method] = [first_weights(networks, number) for number in range(4)]
    for seed in (0, 1):
        torch.testing.assert_close(starts["MAP"][seed], starts["VD"][seed])
        torch.testing.assert_close(starts["MAP"][seed], starts["MAP"][seed + 2])
    assert not torch.allclose(starts["MAP"][0], starts["MAP"][1])


def first_weights(networks, number):
    return networks.network(number)[0].weight


def test_early_stopping_stops_each_network_at_its_step():
    """Two equal networks: after 9 steps one is as if trained for 9 alone, the other not."""
    x, y = (part.expand(2, *part.shape[1:]) for part in noisy_digits())
    stops = torch.tensor([3.0, 9.0])
    early, _ = label_noise.fitted("early stopping", x, y, stops, n_seeds=1, n_steps=40)
    late, _ = label_noise.fitted("no prior", x, y, torch.zeros(2), n_seeds=1, n_steps=9)
    torch.testing.assert_close(first_weights(early, 1), first_weights(late, 1), atol=1e-5, rtol=0)
    assert not torch.allclose(first_weights(early, 0), first_weights(late, 0), atol=1e-4)


def test_the_share_of_random_labels():
    digits = label_noise.data(n_seeds=1)
    n_shares = len(label_noise.SHARES)
    assert digits.x.shape[:2] == digits.y.shape == (n_shares, label_noise.N_TRAIN)
    changed = (digits.y_clean != digits.y_test).double().mean(1)
    expected = [0.9 * share for share in label_noise.SHARES]  # a tenth of them is right by chance
    assert changed.tolist() == pytest.approx(expected, abs=0.05)


def test_training_returns_what_is_stored(stored, monkeypatch):
    monkeypatch.setattr(label_noise, "N_DRAWS", 10)
    results = label_noise.train("hierarchical VSD", n_seeds=2, n_steps=3)
    assert set(results) == set(stored) - {"methods", "shares"}
    assert stored["methods"].tolist() == list(label_noise.METHODS)
    assert stored["shares"].tolist() == list(label_noise.SHARES)
    for name, values in results.items():
        assert values.shape == (len(label_noise.SHARES), 2, *stored[name].shape[3:])
        assert np.isfinite(stored[name]).all()


@pytest.mark.slow
def test_the_committed_arrays_are_what_training_at_the_chosen_weights_gives(stored, monkeypatch):
    row = list(label_noise.METHODS).index("VSD, T = 2")
    n_seeds = 3
    chosen = torch.from_numpy(stored["kl_weight"][row, :, :n_seeds]).flatten()
    monkeypatch.setattr(label_noise, "chosen", lambda *_: chosen)
    results = label_noise.train("VSD, T = 2", n_seeds)
    ours = {name: values.mean(1) for name, values in results.items()}
    theirs = {name: stored[name][row, :, :n_seeds].mean(1) for name in results}
    assert np.allclose(ours["clean_accuracy"], theirs["clean_accuracy"], atol=0.03)
    assert np.allclose(ours["spectral_norm"], theirs["spectral_norm"], rtol=0.1)
    assert np.allclose(ours["penalty"], theirs["penalty"], rtol=0.3)
