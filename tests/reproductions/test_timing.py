import copy
from functools import partial

import pytest
import torch
from torch import nn

from bdl_lessons.inference import sgd
from bdl_lessons.models import BayesByBackprop, Deterministic, Network, initialise, mlp
from reproductions import local_reparameterization, methods, timing
from reproductions.timing import OnePass, evaluate, slope

SIZES = {"K": 8, "L": 4, "B": 2, "s": 3, "r": 5, "m": 2}


@pytest.mark.parametrize(
    ("formula", "value"),
    [("s K L + L B", 3 * 32 + 8), ("r^3 + (r+2) K L B", 125 + 7 * 64), ("2 K L B", 128)],
)
def test_printed_formulas_are_evaluated(formula, value):
    assert evaluate(formula, SIZES) == value


def test_the_slope_of_a_power_is_its_exponent():
    sizes = [1, 2, 4, 8]
    assert slope(sizes, [3 * n**1.7 for n in sizes]) == pytest.approx(1.7)


def held(method, **sizes):
    return OnePass(method, {**SIZES, **sizes}, seed=0).bytes_held()


def test_what_is_held_is_the_output_draws_of_weights_and_the_square_of_published_chains():
    assert held("MAP", s=1) == 4 * SIZES["L"] * SIZES["B"] + 4  # and its KL, one number
    more = held("BBB", s=7) - held("BBB", s=3)
    assert more >= 4 * 4 * SIZES["K"] * SIZES["L"]
    assert more % 4 == 0
    for method, power in (("VSD", 2), ("VSD, free vectors", 1)):
        small = held(method, K=400)
        large = held(method, K=1600)
        assert 0.85 * 4**power < large / small < 1.1 * 4**power


def test_a_ratio_is_that_of_neighbours(monkeypatch):
    """The machine gets slower from round to round; the ratio does not care."""
    costs = {"a": 1, "b": 2, "c": 3}
    loads = iter([load for load in range(1, 9) for _ in costs])  # grows from round to round
    seconds = 0.0

    def training_step(cost, *_):
        def step():
            nonlocal seconds
            seconds += cost * next(loads)

        return step

    monkeypatch.setattr(timing, "training_step", training_step)
    times = timing.step_times(costs, None, None, None, n_rounds=5, clock=lambda: seconds)
    assert times == {
        "a": {"ms": 5000, "ratio": 1},
        "b": {"ms": 10_000, "ratio": 2},
        "c": {"ms": 15_000, "ratio": 3},
    }


def test_a_step_changes_the_parameters():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 3, 32, 32, generator=generator)
    y = torch.arange(4)
    make_network = timing.NETWORKS["lenet5"]
    network = make_network(timing.TIMED["VSD T=2, fc"].layer)
    initialise(network, generator).train()
    before = [parameter.detach().clone() for parameter in network.parameters()]
    step = timing.training_step(network, x, y, generator)
    step()
    unchanged = [*map(torch.equal, before, network.parameters())]  # bits: copies
    assert sum(unchanged) <= 0.2 * len(unchanged)


def test_the_layers_are_timed_relative_to_map():
    lines = timing.bench((12, 10, 4), n_rounds=2).splitlines()
    assert lines[4].startswith("| MAP | ")
    assert lines[4].endswith(" | 1.00 |")
    assert len(lines) == 4 + 2 + sum(method.bench for method in methods.METHODS)


def test_pieces_add_up_to_the_step_of_the_whole_minibatch():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(20, 784, generator=generator)
    y = torch.arange(20) % 10
    method = partial(BayesByBackprop, init_log_sigma2=-40.0)
    whole = initialise(mlp((784, 6, 10), method), generator)
    pieces = copy.deepcopy(whole)
    for net, rows_at_once in ((whole, 20), (pieces, 5)):
        config = {"rows_at_once": rows_at_once, "estimator": "per example", "n_train": 100}
        optimizer = sgd(0.1)(net.parameters())
        local_reparameterization._step(net, x, y, optimizer, config, generator)
    for of_whole, of_pieces in zip(whole.parameters(), pieces.parameters(), strict=True):
        torch.testing.assert_close(of_whole, of_pieces, rtol=1e-4, atol=1e-5)


class Priced(Deterministic):
    """A layer with a parameter that only its KL has."""

    def __init__(self, inner):
        super().__init__(inner)
        self.price = nn.Parameter(torch.ones(()))

    def kl(self):
        return self.price.square()


def test_a_timed_step_pays_for_the_kl_too():
    layer = Priced(nn.Linear(3, 2))
    step = timing.training_step(
        Network(layer), torch.ones(4, 3), torch.arange(4) % 2, torch.Generator()
    )
    step()
    assert layer.price.item() < 1


def test_a_ratio_is_the_median_over_rounds_and_one_slow_round_does_not_matter(monkeypatch):
    """The ratio of the medians would be 1.5."""
    seconds = {"MAP": [1.0, 2.0, 3.0, 2.0, 2.0], "VD": [3.0, 1.0, 6.0, 3.0, 900.0]}
    monkeypatch.setattr(timing, "training_step", lambda *_: None)
    monkeypatch.setattr(timing, "interleaved_times", lambda *_, **__: seconds)
    rows = timing.step_times({"MAP": None, "VD": None}, None, None, None, n_rounds=5)
    assert rows["VD"] == {"ms": 3000, "ratio": 2}
