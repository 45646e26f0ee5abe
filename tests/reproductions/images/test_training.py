import math

import pytest
import torch
from torch import nn

from bdl_lessons.models import Deterministic, StochasticLayer
from reproductions.images import classification
from reproductions.images.stopping import FACTOR, EpochCheckpoint, fit_until_no_better
from reproductions.images.training import METHODS, Training, make_network

CONFIG = {
    "patience": 10,
    "n_draws_per_epoch": 2,
    "prior_precision": 1.0,
    "architecture": "LeNet5",
    "epochs": 6,
    "batch_size": 16,
    "learning_rate": 5e-3,
    "warm_up_epochs": 2,
}
SETTINGS = {method: tried[0] for method, tried in classification.GRID.items()}


def config(method, **changes):
    return {**CONFIG, **SETTINGS[method], "method": method, "kl_weight": 0.01, **changes}


def halves(n_rows=96):
    """Images that are bright above or below, with a little noise: two classes."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n_rows) % 2
    x = 0.3 * torch.randn(n_rows, 1, 28, 28, generator=generator)
    x[y == 0, :, :14] += 1
    x[y == 1, :, 14:] += 1
    return x, y


@pytest.mark.parametrize("method", SETTINGS)
def test_every_method_learns_and_draws_functions(method):
    x, y = halves()
    changes = {"n_networks": 2} if method == "D.E" else {}
    generator = torch.Generator().manual_seed(1)
    logits = Training(config(method, **changes), x, y, (x, y), 2, generator).train()
    draws = logits(x, 4)
    assert draws.shape == ({"MAP": 1, "D.E": 2}.get(method, 4), len(x), 2)
    assert (draws.softmax(-1).mean(0).argmax(-1) == y).double().mean() > 0.9
    if method != "MAP":
        assert (draws[0] - draws[1]).abs().max() > 1e-3


@pytest.mark.parametrize("architecture", ["LeNet5", "AlexNet", "ResNet18"])
def test_unit_noise_spares_the_pixels_and_nothing_else(architecture):
    for method in ("MCD", "VSD T=1", "BBB-LRT"):
        net = make_network(config(method, architecture=architecture), 3, 32, 10)
        layers = [module for module in net.modules() if isinstance(module, StochasticLayer)]
        assert isinstance(layers[0], Deterministic) == METHODS[method].has_unit_noise
        assert not any(isinstance(layer, Deterministic) for layer in layers[1:])


def test_map_pays_for_the_size_of_its_weights():
    net = make_network(config("MAP", prior_precision=30.0), 1, 28, 10)
    expected = sum(30.0 * p.square().sum() / 2 for p in net.parameters())
    torch.testing.assert_close(net.kl(), expected)


@pytest.mark.parametrize(("method", "n_networks"), [("MAP", 1), ("D.E", 2), ("SLANG", 1)])
def test_every_network_follows_its_validation_images(method, n_networks):
    """Wrong labels on held-out images: they fit best before anything is learnt of the others."""
    x, y = halves()
    changes = {"epochs": 30, "patience": 1, "n_networks": n_networks, "slang_epochs": 1}
    generator = torch.Generator().manual_seed(1)
    how = config(method, **changes, warm_up_epochs=0)
    training = Training(how, x, y, (x, 1 - y), 2, generator)
    logits = training.train()
    assert len(training.stops) == n_networks
    for stop in training.stops:
        assert stop.no_better
        assert len(stop.curve) < 15
        assert min(stop.curve) == stop.curve[0]
    if method == "MAP":
        wrong = torch.nn.functional.cross_entropy(logits(x, 1)[0], 1 - y).item()
        assert wrong == pytest.approx(stop.curve[0], rel=1e-4)


def follow(losses, max_epochs=50, checkpoint=None):
    """The rule on a curve that stays at its last value; its end, the last weight, and for each
    epoch the rate and the weight at its start. Epoch i leaves the weight at i."""
    model = nn.Linear(1, 1, bias=False)
    epochs = []
    numbers = []
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

    def train_epoch(epoch):
        epochs.append((optimizer.param_groups[0]["lr"], model.weight.item()))
        numbers.append(epoch)
        nn.init.constant_(model.weight, epoch)

    def loss():
        return losses[min(numbers[-1], len(losses) - 1)]

    stop = fit_until_no_better(
        model,
        train_epoch,
        loss,
        optimizer,
        patience=2,
        max_epochs=max_epochs,
        checkpoint=checkpoint,
    )
    return stop, model.weight.item(), *zip(*epochs, strict=True)


def test_without_improvement_the_rate_falls_twice_from_the_best_state():
    stop, weight, rates, starts = follow([3.0, 1.0, 2.0])
    assert rates == pytest.approx([1.0] * 4 + [FACTOR] * 2 + [FACTOR**2] * 2)
    assert starts[2:] == (1, 2, 1, 4, 1, 6)  # every new rate begins where epoch 1 had ended
    assert (stop.curve, stop.no_better, weight) == ([3.0, 1.0, *[2.0] * 6], True, 1)


def test_a_tiny_improvement_is_kept_but_does_not_prolong_the_training():
    stop, weight, _, _ = follow([1.0, 1.0 - 1e-5, 1.0 - 2e-5])
    assert len(stop.curve) == 1 + 3 * 2
    assert weight == 2


def test_where_the_epochs_run_out_the_best_state_is_kept_too():
    stop, weight, _, _ = follow([3.0, 1.0, 2.0], max_epochs=3)
    assert (stop.no_better, weight) == (False, 1)


def test_a_validation_loss_that_is_not_finite_ends_the_training():
    with pytest.raises(FloatingPointError, match="in epoch 2"):
        follow([1.0, math.nan, 0.5])


class StoppedRun(Exception):
    pass


class StoppingCheckpoint(EpochCheckpoint):
    """Its run is stopped after ``n_epochs``, all networks together."""

    n_epochs = math.inf

    def keep(self, number, state):
        super().keep(number, state)
        self.n_epochs -= 1
        if not self.n_epochs:
            raise StoppedRun


def run(path, method, n_epochs=math.inf):
    """The outputs, curves and next random number of a training that goes on from ``path``."""
    x, y = halves()
    generator = torch.Generator().manual_seed(1)
    checkpoint = StoppingCheckpoint(path, generator)
    checkpoint.n_epochs = n_epochs
    settings = config(method, epochs=4, n_networks=2, swag_epochs=2)
    training = Training(settings, x, y, (x, y), 2, generator, checkpoint=checkpoint)
    logits = training.train()
    outputs = logits(x, 2)
    return outputs, [stop.curve for stop in training.stops], torch.rand(1, generator=generator)


@pytest.mark.parametrize(
    ("method", "stopped_after"),
    [("MAP", 3), ("MAP", 4), ("VSD T=2", 2), ("SWAG", 2), ("D.E", 3), ("D.E", 4), ("D.E", 6)],
)
def test_a_stopped_training_ends_where_it_would_have_ended(tmp_path, method, stopped_after):
    outputs, curves, number = run(tmp_path / "whole", method)
    with pytest.raises(StoppedRun):
        run(tmp_path / "parts", method, stopped_after)
    later_outputs, later_curves, later_number = run(tmp_path / "parts", method)
    assert [len(curve) for curve in later_curves] == [len(curve) for curve in curves]
    torch.testing.assert_close(torch.tensor(later_curves), torch.tensor(curves))
    torch.testing.assert_close(later_outputs, outputs)
    torch.testing.assert_close(later_number, number)
    assert EpochCheckpoint(tmp_path / "parts", torch.Generator()).seconds > 0


@pytest.mark.parametrize("n_epochs", [2, 3, 5, 8])
def test_a_restored_rule_remembers_its_best_state_and_its_rate(tmp_path, n_epochs):
    losses = [3.0, 1.0, 2.0]
    stop, weight, rates, starts = follow(losses)
    path = tmp_path / "rule"
    follow(losses, n_epochs, EpochCheckpoint(path, torch.Generator()))
    again, weight_again, *later = follow(losses, 9, EpochCheckpoint(path, torch.Generator()))
    assert again == stop
    assert weight_again == weight
    if n_epochs < len(stop.curve):
        assert later == [rates[n_epochs:], starts[n_epochs:]]
