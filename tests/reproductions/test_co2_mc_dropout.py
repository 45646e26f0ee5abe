import pytest
import torch

from reproductions import co2_mc_dropout

CONFIG = co2_mc_dropout.trials("quick")[0].config


def test_no_noise_on_the_input_and_noise_after_every_hidden_layer():
    net = co2_mc_dropout.make_network(CONFIG, torch.Generator().manual_seed(0))
    layers = [module for module in net if hasattr(module, "noise")]
    assert [layer.noise.p_drop for layer in layers] == [0, 0.1, 0.1, 0.1, 0.1]
    assert [layer.out_features for layer in layers] == [16, 16, 16, 16, 1]


def test_units_of_the_first_layer_switch_within_the_data():
    net = co2_mc_dropout.make_network({**CONFIG, "width": 1000}, torch.Generator().manual_seed(0))
    slope, place = net[0].weight[:, 0].detach(), (-net[0].bias / net[0].weight[:, 0]).detach()
    assert place.abs().max() <= 1.8
    assert abs(place.mean()) < 0.15
    assert slope.abs().min() >= CONFIG["slope"]
    assert slope.abs().max() <= 3 * CONFIG["slope"]


def test_the_metrics_are_those_of_the_curves():
    trial = co2_mc_dropout.trials("quick")[1]
    measured = co2_mc_dropout.run(trial)
    metrics, curves = measured.metrics, measured.arrays
    assert curves["x"][-1] == 3.7
    assert metrics["std_at_3.7"] == pytest.approx(curves["std"][-1], abs=1e-6)
    assert metrics["std_at_2.5"] == pytest.approx(curves["std"][curves["x"].index(2.5)], abs=1e-6)
    assert metrics["std_inside"] == pytest.approx(sum(curves["std"][:272]) / 272, abs=1e-6)
    assert metrics["ratio"] == pytest.approx(metrics["std_at_3.7"] / metrics["std_inside"])
