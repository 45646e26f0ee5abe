import pytest
import torch

from bdl_lessons.datasets.records import published_table
from reproductions import mnist_dropout_curves as curves


def record(method, width, error, alpha=None, seed=0, n_epochs=6):
    config = {"measure": "error", "method": method, "width": width, "n_epochs": n_epochs}
    config |= {"n_train": 60_000, "n_test": 10_000, "batch_size": 200, "learning_rate": 0.002}
    return {
        "config": config,
        "seed": seed,
        "metrics": {"error": error},
        "arrays": {"alpha": alpha} if alpha else {},
    }


def test_all_networks_are_trials_and_the_speed_is_retired():
    trials = curves.trials("paper")
    assert len(trials) == 1 + 7 * 4 * 3 + 7
    assert trials[0].config["measure"] == "speed"
    assert [trial.retired for trial in trials] == [True] + [False] * (len(trials) - 1)
    first_seed = trials[1:29]
    assert {trial.seed for trial in first_seed} == {0}
    assert {(u.config["method"], u.config["width"]) for u in first_seed} == {
        (method, width) for method in curves.METHODS for width in (100, 250, 500, 750)
    }
    long = trials[-7:]
    assert {trial.config["method"] for trial in long} == set(curves.METHODS)
    assert {(u.seed, u.config["width"], u.config["n_epochs"]) for u in long} == {(0, 500, 60)}


@pytest.mark.parametrize("method", curves.METHODS)
def test_the_networks_have_three_hidden_layers_and_the_published_rates(method):
    net = curves.make_network(method, 12, torch.Generator().manual_seed(0))
    layers = [layer for layer in net if hasattr(layer, "noise")]
    assert [tuple(layer.weight.shape) for layer in layers] == [
        (12, 784),
        (12, 12),
        (12, 12),
        (10, 12),
    ]
    if method == "binary":
        assert [layer.noise.p_drop for layer in layers] == [0.2, 0.5, 0.5, 0.5]
    elif method == "none":
        assert not any(layer.is_random for layer in layers)
    else:
        alphas = [layer.alpha.item() for layer in layers]
        assert alphas == pytest.approx([0.25, 1, 1, 1])
        learned = {layer.noise.raw_log_alpha.requires_grad for layer in layers}
        assert learned == {method.startswith("variational")}
    if method == "variational A2":
        a = curves.make_network("variational A", 12, torch.Generator().manual_seed(0))
        assert (a.kl() / net.kl()).item() == pytest.approx(3)


def test_the_figure_has_a_line_with_its_own_look_for_every_method():
    records = [
        record(method, width, 1.0 + seed / 10, seed=seed)
        for method in curves.METHODS
        for width in (100, 250)
        for seed in range(2)
    ]
    ours, theirs = curves.figure(records).axes
    assert len(ours.containers) == len(theirs.lines) == 7
    bars = ours.containers[0].lines[2][0].get_segments()  # of two seeds, 0.1 apart
    assert abs(bars[0][1, 1] - bars[0][0, 1]) == pytest.approx(0.1)
    looks = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in theirs.lines}
    assert len(looks) == 7
    rows = {row["method"]: row["750"] for row in published_table("mnist_dropout_curves")}
    for line in theirs.lines:
        assert line.get_ydata()[3] == rows[line.get_label()]
