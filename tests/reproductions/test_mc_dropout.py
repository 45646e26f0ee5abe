import torch

from bdl_lessons.models import Deterministic, StochasticLayer
from reproductions import mc_dropout
from tests.draws import seeded

CONFIG = mc_dropout.co2_trials("quick")[0].config


def test_no_noise_on_the_input_and_noise_after_every_hidden_layer():
    net = mc_dropout.co2_network(CONFIG, seeded())
    first, *others = [module for module in net if isinstance(module, StochasticLayer)]
    assert isinstance(first, Deterministic)
    assert [layer.p_drop for layer in others] == [0.1, 0.1, 0.1, 0.1]
    assert [len(layer.weight) for layer in (first, *others)] == [16, 16, 16, 16, 1]


def test_units_of_the_first_layer_switch_within_the_data():
    net = mc_dropout.co2_network({**CONFIG, "width": 1000}, seeded())
    slope = net[0].weight[:, 0].detach()
    place = -net[0].bias.detach() / slope
    assert place.abs().max() <= 1.8
    assert abs(place.mean()) < 0.15
    assert slope.abs().min() >= CONFIG["slope"]
    assert slope.abs().max() <= 3 * CONFIG["slope"]


def test_positive_angles_turn_clockwise():
    config = {"step_degrees": 90}
    images = torch.arange(2 * 16.0).view(2, 1, 4, 4)
    at_all_angles = mc_dropout.turned(images, config)
    for angle, turned in zip(mc_dropout.angles(config), at_all_angles, strict=True):
        expected = images.rot90(-angle // 90, (2, 3))
        torch.testing.assert_close(turned, expected, atol=1e-3, rtol=0)


def test_the_prior_is_the_published_weight_decay():
    config = {"p_drop": 0.5, "weight_decay": 5e-4, "n_train": 600}
    net = mc_dropout.digit_network(config, seeded())
    penalty = net.kl() / config["n_train"]
    penalty.backward()
    for layer in (net[0], net[-1]):
        torch.testing.assert_close(layer.weight.grad, 5e-4 * layer.weight.detach())


def test_sequences_run_from_upright_in_their_direction():
    """Two ones, whose "classes" are the angle and its opposite."""
    angles = mc_dropout.angles({"step_degrees": 10})
    classes = [[angle, -angle] for angle in angles]
    record = {"arrays": {"angles": angles, "classes": classes}}
    clockwise = list(range(0, 120, 10))
    anticlockwise = list(range(0, -120, -10))
    first, second = mc_dropout.sequences([record]).tolist()
    assert first == [clockwise, anticlockwise]
    assert second == [anticlockwise, clockwise]
