import pytest
import torch
from torch import nn

from bdl_lessons import models
from tests.tables import refused

PLAIN = models.Deterministic()
DROP = models.BinaryDropout(0.5)


def test_mlp_layers_and_shapes():
    model = models.mlp((3, 7, 5, 2), [PLAIN, DROP, DROP], nn.Tanh)
    kinds = ["UnitNoiseLinear", "Tanh"] * 2 + ["UnitNoiseLinear"]
    assert [type(module).__name__ for module in model] == kinds
    assert model(torch.randn(11, 3), "mean").shape == (11, 2)
    assert [module.is_random for module in model[::2]] == [False, True, True]


def test_lenet5_is_caffes():
    model = models.lenet5([PLAIN, PLAIN, PLAIN, DROP])
    assert sum(parameter.numel() for parameter in model.parameters()) == 431_080
    assert sum(isinstance(module, nn.ReLU) for module in model) == 1
    assert model(torch.randn(4, 1, 28, 28), "shared", torch.Generator()).shape == (4, 10)


def test_mean_matches_a_plain_network_and_the_kl_is_the_sum_over_layers_each_once():
    model = models.mlp((3, 7, 2), DROP)
    x = torch.randn(5, 3)
    (first, activation, last) = model
    by_hand = torch.relu(x @ first.weight.T + first.bias) @ last.weight.T + last.bias
    torch.testing.assert_close(model(x, "mean"), by_hand)
    torch.testing.assert_close(model.kl(), first.kl() + last.kl())
    torch.testing.assert_close(models.Network(first, activation, first).kl(), first.kl())
    assert models.Network(nn.Linear(2, 2)).kl() == 0


def test_initial_weights_have_their_variance_and_come_from_the_generator():
    first, again = (
        models.initialise(models.lenet5(DROP), torch.Generator().manual_seed(3), weight_var=2.0)
        for _ in range(2)
    )
    for layer, fan_in in ((first[2], 20 * 25), (first[5], 800)):
        assert layer.weight.var().item() == pytest.approx(2 / fan_in, rel=0.03)
        assert layer.weight.abs().max() <= (6 / fan_in) ** 0.5
        assert not layer.bias.any()
    torch.testing.assert_close([*first.parameters()], [*again.parameters()])


test_what_makes_no_network_is_named = refused(
    (lambda: models.mlp((3, 2), DROP)(torch.ones(5, 3)), "sampling is missing: write model"),
    (lambda: models.mlp((3, 7, 2), [DROP] * 3), "one factory or 2, got 3"),
    (lambda: models.lenet5([DROP] * 2), "one factory or 4, got 2"),
    (lambda: models.BayesByBackprop().conv2d(1, 2, -1), "kernel_size must be >= 1"),
    (lambda: models.mlp((4, 5, 3), models.BinaryDropout), "layers must be factories .*, got <cl"),
    (lambda: models.mlp((4, 5, 3), DROP, torch.nn.ReLU()), "activation must be a class"),
)
