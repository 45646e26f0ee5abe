import math
from typing import NamedTuple

import pytest
import torch
from torch import nn

from bdl_lessons.models import Deterministic, StochasticLayer
from reproductions.images import classification
from reproductions.images.stopping import (
    FACTOR,
    EpochCheckpoint,
    Stopping,
    fit_until_no_better,
)
from reproductions.images.training import METHODS, Training, make_network
from tests.draws import seeded

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


def new_training(settings, x, y, held_out):
    return Training(settings, x, y, held_out, n_classes=2, generator=seeded(1))


@pytest.mark.parametrize("method", SETTINGS)
def test_every_method_learns_and_draws_functions(method):
    x, y = halves()
    changes = {"n_networks": 2} if method == "D.E" else {}
    training = new_training(config(method, **changes), x, y, held_out=(x, y))
    logits = training.train()
    draws = logits(x, 4)
    n_draws = {"MAP": 1, "D.E": 2}.get(method, 4)
    assert draws.shape == (n_draws, len(x), 2)
    predicted = draws.softmax(-1).mean(0).argmax(-1)
    assert (predicted == y).double().mean() > 0.9
    if method != "MAP":
        assert (draws[0] - draws[1]).abs().max() > 1e-3


@pytest.mark.parametrize("architecture", ["LeNet5", "AlexNet", "ResNet18"])
def test_unit_noise_spares_the_pixels_and_nothing_else(architecture):
    for method in ("MCD", "VSD T=1", "BBB-LRT"):
        settings = config(method, architecture=architecture)
        net = make_network(settings, n_channels=3, size=32, n_classes=10)
        layers = [module for module in net.modules() if isinstance(module, StochasticLayer)]
        assert isinstance(layers[0], Deterministic) == METHODS[method].has_unit_noise
        assert not any(isinstance(layer, Deterministic) for layer in layers[1:])


def test_map_pays_for_the_size_of_its_weights():
    settings = config("MAP", prior_precision=30.0)
    net = make_network(settings, n_channels=1, size=28, n_classes=10)
    expected = sum(30.0 * p.square().sum() / 2 for p in net.parameters())
    torch.testing.assert_close(net.kl(), expected)


@pytest.mark.parametrize(("method", "n_networks"), [("MAP", 1), ("D.E", 2), ("SLANG", 1)])
def test_every_network_follows_its_validation_images(method, n_networks):
    """Wrong labels on held-out images: they fit best before anything is learnt of the others."""
    x, y = halves()
    changes = {"epochs": 30, "patience": 1, "n_networks": n_networks, "slang_epochs": 1}
    settings = config(method, **changes, warm_up_epochs=0)
    training = new_training(settings, x, y, held_out=(x, 1 - y))
    logits = training.train()
    assert len(training.stops) == n_networks
    for stop in training.stops:
        assert stop.no_better
        assert len(stop.curve) < 15
        assert min(stop.curve) == stop.curve[0]
    if method == "MAP":
        wrong = torch.nn.functional.cross_entropy(logits(x, 1)[0], 1 - y).item()
        assert wrong == pytest.approx(stop.curve[0], rel=1e-4)


class Followed(NamedTuple):
    """A training by the rule: its end, the last weight, and of each epoch the rate and the weight
    with which it starts."""

    stop: Stopping
    weight: float
    rates: list[float]
    starts: list[float]


def follow(losses, max_epochs=50, checkpoint=None):
    """The rule on a curve that stays at its last value. Epoch i leaves the weight at i."""
    model = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    epochs = []
    rates = []
    starts = []

    def train_epoch(epoch):
        epochs.append(epoch)
        rates.append(optimizer.param_groups[0]["lr"])
        starts.append(model.weight.item())
        nn.init.constant_(model.weight, epoch)

    def loss():
        return losses[min(epochs[-1], len(losses) - 1)]

    stop = fit_until_no_better(
        model,
        train_epoch,
        loss,
        optimizer,
        patience=2,
        max_epochs=max_epochs,
        checkpoint=checkpoint,
    )
    return Followed(stop, model.weight.item(), rates, starts)


def test_without_improvement_the_rate_falls_twice_from_the_best_state():
    followed = follow([3.0, 1.0, 2.0])
    assert followed.rates == pytest.approx([1.0] * 4 + [FACTOR] * 2 + [FACTOR**2] * 2)
    assert followed.starts[2:] == [1, 2, 1, 4, 1, 6]  # a new rate begins where epoch 1 had ended
    assert followed.stop.curve == [3.0, 1.0] + [2.0] * 6
    assert followed.stop.no_better
    assert followed.weight == 1


def test_a_tiny_improvement_is_kept_but_does_not_prolong_the_training():
    followed = follow([1.0, 1.0 - 1e-5, 1.0 - 2e-5])
    assert len(followed.stop.curve) == 1 + 3 * 2
    assert followed.weight == 2


def test_where_the_epochs_run_out_the_best_state_is_kept_too():
    followed = follow([3.0, 1.0, 2.0], max_epochs=3)
    assert not followed.stop.no_better
    assert followed.weight == 1


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
    settings = config(method, epochs=4, n_networks=2, swag_epochs=2)
    training = new_training(settings, x, y, held_out=(x, y))
    training.checkpoint = StoppingCheckpoint(path, training.generator)
    training.checkpoint.n_epochs = n_epochs
    logits = training.train()
    outputs = logits(x, 2)
    curves = [stop.curve for stop in training.stops]
    return outputs, curves, torch.rand(1, generator=training.generator)


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
    whole = follow(losses)
    path = tmp_path / "rule"
    follow(losses, n_epochs, EpochCheckpoint(path, torch.Generator()))
    rest = follow(losses, 9, EpochCheckpoint(path, torch.Generator()))
    assert rest.stop == whole.stop
    assert rest.weight == whole.weight
    assert rest.rates == whole.rates[n_epochs:]
    assert rest.starts == whole.starts[n_epochs:]
