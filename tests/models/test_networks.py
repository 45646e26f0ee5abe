from functools import partial

import pytest
import torch
from torch import nn

from bdl_lessons import models
from tests.draws import seeded
from tests.tables import refused

PLAIN = models.Deterministic
DROP = partial(models.BinaryDropout, p_drop=0.5)


def test_mlp_layers_and_shapes():
    model = models.mlp((3, 7, 5, 2), [PLAIN, DROP, DROP], nn.Tanh)
    kinds = [type(module).__name__ for module in model]
    assert kinds == ["Deterministic", "Tanh", "BinaryDropout", "Tanh", "BinaryDropout"]
    shapes = [tuple(layer.weight.shape) for layer in model[::2]]
    assert shapes == [(7, 3), (5, 7), (2, 5)]
    assert model(torch.randn(11, 3), "mean").shape == (11, 2)


def test_mean_matches_a_plain_network_and_the_kl_is_the_sum_over_layers_each_once():
    model = models.mlp((3, 7, 2), DROP)
    x = torch.randn(5, 3)
    first, activation, last = model
    hidden = torch.relu(x @ first.weight.T + first.bias)
    expected = hidden @ last.weight.T + last.bias
    torch.testing.assert_close(model(x, "mean"), expected)
    torch.testing.assert_close(model.kl(), first.kl() + last.kl())
    with_one_layer_twice = models.Network(first, activation, first)
    torch.testing.assert_close(with_one_layer_twice.kl(), first.kl())
    without_noise = models.Network(nn.Linear(2, 2))
    assert without_noise.kl() == 0


def test_wrap_takes_an_existing_network_over_with_its_weights():
    block = nn.Sequential(nn.Linear(36, 5), nn.Tanh())
    plain = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), block, nn.Linear(5, 3))
    x = torch.randn(6, 2, 5, 5, generator=seeded())
    before = plain(x)
    network = models.wrap(plain, [PLAIN, models.StructuredDropout, DROP])
    torch.testing.assert_close(network(x, "mean"), before)
    kinds = [type(module).__name__ for module in network]
    assert kinds == ["Deterministic", "ReLU", "Flatten", "Network", "BinaryDropout"]
    of_block = network[3][0]
    assert of_block.weight is block[0].weight
    expected_kl = network[0].kl() + of_block.kl() + network[4].kl()
    torch.testing.assert_close(network.kl(), expected_kl)
    first = network(x, "per_example", seeded(1))
    torch.testing.assert_close(network(x, "per_example", seeded(1)), first)
    assert not torch.allclose(network(x, "per_example", seeded(2)), first)


def test_wrap_keeps_a_layer_that_stands_twice_one_layer():
    layer = nn.Linear(4, 4)
    plain = nn.Sequential(layer, nn.Tanh(), layer)
    network = models.wrap(plain, models.BayesByBackprop)
    assert network[0] is network[2]
    torch.testing.assert_close(network.kl(), network[0].kl())


class Twice(nn.Module):
    """A module as a reader may write one: its layer acts twice, with a draw each time."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, sampling, generator=None):
        once = self.layer(x, sampling, generator)
        return self.layer(once, sampling, generator)

    def kl(self):
        return self.layer.kl()


def test_a_module_of_a_reader_stands_in_a_network():
    twice = Twice(DROP(nn.Linear(3, 3)))
    last = DROP(nn.Linear(3, 2))
    network = models.Network(twice, nn.ReLU(), last)
    x = torch.randn(5, 3, generator=seeded())
    hidden = torch.relu(twice(x, "mean"))
    torch.testing.assert_close(network(x, "mean"), last(hidden, "mean"))
    torch.testing.assert_close(network.kl(), twice.layer.kl() + last.kl())


def test_initial_weights_have_their_variance_and_come_from_the_generator():
    plain = nn.Sequential(nn.Conv2d(20, 50, 5), nn.Flatten(), nn.Linear(800, 500))
    first = models.initialise(models.wrap(plain, DROP), seeded(3), 2.0)
    again = models.initialise(models.wrap(plain, DROP), seeded(3), 2.0)
    for layer, fan_in in ((first[0], 20 * 25), (first[2], 800)):
        assert layer.weight.var().item() == pytest.approx(2 / fan_in, rel=0.03)
        assert layer.weight.abs().max() <= (6 / fan_in) ** 0.5
        assert not layer.bias.any()
    torch.testing.assert_close([*first.parameters()], [*again.parameters()])


class Hidden(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)


def wrapped(*modules, method=DROP):
    return models.wrap(nn.Sequential(*modules), method)


test_what_makes_no_network_is_named = refused(
    (lambda: models.mlp((3, 2), DROP)(torch.ones(5, 3)), "sampling is missing: write model"),
    (lambda: models.mlp((3, 7, 2), [DROP] * 3), "method must be one for all or 2, got 3"),
    (lambda: models.mlp((3, 7, 2), DROP(nn.Linear(3, 7))), "method must make layers"),
    (lambda: models.mlp((3, 7, 2), nn.Identity), "method must make a layer with a kl"),
    (lambda: models.mlp((3,), DROP), "widths needs an input and an output"),
    (lambda: models.mlp((3, 0), DROP), "widths must be >= 1"),
    (lambda: models.mlp((4, 5, 3), DROP, torch.nn.ReLU()), "activation must be a class"),
    (lambda: models.wrap(nn.Linear(3, 2), DROP), r"model must be an nn\.Sequential, got Linear"),
    (lambda: wrapped(nn.ReLU()), "nothing to wrap"),
    (lambda: wrapped(nn.Linear(3, 3), nn.Dropout()), "nn.Dropout at '1', which draws by itself"),
    (lambda: wrapped(nn.Linear(3, 3), Hidden()), r"model has a Hidden .* kl\(\) of its own"),
    (lambda: models.BinaryDropout(0.5, 0.5), "inner must be an nn.Linear or an nn.Conv2d"),
    (lambda: models.SparseVD(nn.Conv2d(4, 4, 2, groups=2)), "inner must have groups=1"),
)
