import pytest
import torch
from torch import nn

from bdl_lessons.panels import arrays
from reproductions.panel_arrays import mc_dropout_co2


@pytest.fixture(scope="module")
def stored():
    return arrays.load("mc_dropout_co2")


def test_the_first_layer_switches_inside_the_data_and_a_seed_repeats():
    nets = [
        mc_dropout_co2.untrained(0.1, nn.ReLU, torch.Generator().manual_seed(1)) for _ in range(2)
    ]
    places = -nets[0][0].bias / nets[0][0].weight[:, 0]
    assert places.abs().max() <= 1.8 + 1e-5
    assert places.std() > 0.8
    torch.testing.assert_close(*([*net.parameters()] for net in nets))


def test_arrays_have_the_layout_that_is_stored(monkeypatch, stored):
    monkeypatch.setattr(mc_dropout_co2, "RATES", (0.05, 0.2))
    made = mc_dropout_co2.make_arrays(n_steps=2)
    assert made.keys() == stored.keys()
    assert made["draws"].shape[1:] == stored["draws"].shape[1:]
    assert made["ReLU"].shape == stored["ReLU"].shape == stored["Tanh"].shape
