import math

import pytest
import torch
from torch import nn

from reproductions.images.stopping import FACTOR, fit_until_no_better


def follow(losses, patience=2, max_epochs=50):
    """The rule on a given curve. Epoch i leaves the weight at i; returns also the rates and starts.

    Behind its end the curve stays at its last value.
    """
    model = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    rates, starts, values = [], [], iter(losses)

    def train_epoch(epoch):
        rates.append(optimizer.param_groups[0]["lr"])
        starts.append(model.weight.item())
        nn.init.constant_(model.weight, epoch)

    stop = fit_until_no_better(
        model,
        train_epoch,
        lambda: next(values, losses[-1]),
        optimizer,
        patience=patience,
        max_epochs=max_epochs,
    )
    return stop, model.weight.item(), rates, starts


def test_the_state_with_the_smallest_validation_loss_is_kept():
    stop, weight, _, _ = follow([3.0, 2.0, 1.0, 2.0])
    assert stop.no_better
    assert weight == 2  # the third epoch
    assert len(stop.curve) == 3 + 3 * 2
    assert stop.curve[:4] == [3.0, 2.0, 1.0, 2.0]


def test_without_improvement_the_rate_falls_twice_from_the_best_state():
    _, _, rates, starts = follow([3.0, 1.0, 2.0])
    assert rates == pytest.approx([1.0] * 4 + [FACTOR] * 2 + [FACTOR**2] * 2)
    assert starts[2:] == [1, 2, 1, 4, 1, 6]  # every new rate begins where epoch 1 had ended


def test_a_tiny_improvement_is_kept_but_does_not_prolong_the_training():
    stop, weight, _, _ = follow([1.0, 1.0 - 1e-5, 1.0 - 2e-5])
    assert len(stop.curve) == 1 + 3 * 2
    assert weight == 2


def test_the_epochs_run_out():
    stop, weight, _, _ = follow([1 / (1 + i) for i in range(20)], max_epochs=7)
    assert not stop.no_better
    assert (len(stop.curve), weight) == (7, 6)
    stop, weight, _, _ = follow([3.0, 1.0, 2.0], max_epochs=3)
    assert (stop.no_better, weight) == (False, 1)  # the best state, not the last


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_validation_loss_that_is_not_finite_ends_the_training(bad):
    with pytest.raises(FloatingPointError, match="in epoch 2"):
        follow([1.0, bad, 0.5])
