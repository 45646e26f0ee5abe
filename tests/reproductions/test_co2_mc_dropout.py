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
