import re

import pytest
import torch
from torch import nn

from bdl_lessons.inference import predict
from bdl_lessons.panels import mc_dropout_co2


def number(pattern, readout):
    return float(re.search(pattern, re.sub("<.*?>", "", readout))[1])


def test_the_readout_states_the_spread_of_the_first_draws(panel, stored):
    data = mc_dropout_co2.six_years()
    index = mc_dropout_co2.RATES.index(0.2)
    last = torch.from_numpy(stored["draws"][index, :10, -1]).double()
    expected = data.residual_std * last.std(correction=0).item()
    readout = panel.render(p_drop=0.2, n_samples=10).readout
    assert number(r"([\d.]+) ppm at the end", readout) == pytest.approx(expected, abs=0.006)


def test_tau_moves_the_band_and_not_the_spread(panel):
    readouts = [panel.render(tau=tau).readout for tau in (0.25, 100.0)]
    spreads = {number(r"([\d.]+) ppm on average", readout) for readout in readouts}
    inside = [number(r"(\d+) %", readout) for readout in readouts]
    assert len(spreads) == 1
    assert inside[0] > inside[1]


def test_what_the_lesson_tells_the_lecturer(panel, stored):
    """More admitted noise is better after 1981, and at one half the seasons are not learned."""
    readouts = [panel.render(tau=tau).readout for tau in (0.25, 6.0)]
    scores = [number(r"likelihood (-?[\d.]+)", readout) for readout in readouts]
    assert scores[0] > scores[1]
    data = mc_dropout_co2.six_years()
    means = torch.from_numpy(stored["draws"]).double().mean(1)
    grid = torch.from_numpy(stored["x"])
    nearest = (data.x - grid).abs().argmin(1)
    errors = (means[:, nearest] - data.y).square().mean(1).sqrt()
    assert errors[:3].max() < 0.35
    assert errors[-1] > 0.8


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
def test_the_stored_networks_fit(activation):
    data = mc_dropout_co2.six_years()
    net = mc_dropout_co2.trained(activation)
    draws = predict(net, data.x.float(), 50, "shared", generator=torch.Generator().manual_seed(0))
    assert (draws.mean(0)[:, 0] - data.y).square().mean().sqrt() < 0.35
