import pytest
import torch
from torch import nn

from bdl_lessons.inference import zero_pruned
from bdl_lessons.models import ARD, lenet5, mlp
from reproductions.dead_units import n_hidden, remove_dead_units

SHAPES = {"mlp": (6,), "tanh": (6,), "lenet5": (1, 28, 28)}


def make(kind, keep, seed=0):
    """A pruned network in float64 whose weights are kept with probability ``keep``."""
    g = torch.Generator().manual_seed(seed)
    model = {
        "mlp": lambda: mlp((6, 30, 20, 3), ARD()),
        "tanh": lambda: mlp((6, 30, 20, 3), ARD(), nn.Tanh),
        "lenet5": lambda: lenet5(ARD()),
    }[kind]()
    network = zero_pruned(model.double())
    for module in network:
        if hasattr(module, "weight"):
            mask = torch.rand(module.weight.shape, generator=g) < keep
            module.weight.copy_(torch.randn(module.weight.shape, generator=g) * mask)
            module.bias.copy_(torch.randn(module.bias.shape, generator=g))
    return network, torch.randn(5, *SHAPES[kind], generator=g).double()


@pytest.mark.parametrize("keep", [0.0, 0.002, 0.02, 0.1, 1.0])
@pytest.mark.parametrize("kind", SHAPES)
def test_the_function_stays_the_same(kind, keep):
    for seed in range(3):
        network, x = make(kind, keep, seed)
        expected = network(x)
        smaller = remove_dead_units(network)
        torch.testing.assert_close(smaller(x), expected)
        torch.testing.assert_close(network(x), expected)  # the argument is not changed
        before, after = n_hidden(network), n_hidden(smaller)
        assert all(a <= b for a, b in zip(after, before, strict=True))
        assert after == {0.0: [1] * len(before), 1.0: before}.get(keep, after)


def test_what_goes_is_counted_by_hand():
    """Unit 0 is used, 1 is constant, 2 is read by nobody, 3 only by a unit that nobody reads.

    The last unit of the second layer reads only what is constant, and so is constant too.
    """
    network = zero_pruned(mlp((2, 4, 3, 1), ARD()))
    first, _, second, _, third = network
    first.weight.copy_(torch.tensor([[1.0, 0], [0, 0], [1, 1], [0, 1]]))
    first.bias.copy_(torch.tensor([0.0, 2, 3, 4]))
    second.weight.copy_(torch.tensor([[1.0, 10, 0, 0], [0, 0, 0, 1], [0, 3, 0, 0]]))
    second.bias.copy_(torch.tensor([0.5, 0, 1]))
    third.weight.copy_(torch.tensor([[1.0, 0, 2]]))
    third.bias.copy_(torch.tensor([0.25]))
    smaller = remove_dead_units(network)
    assert n_hidden(smaller) == [1, 1]
    torch.testing.assert_close(smaller[2].weight, torch.tensor([[1.0]]))
    torch.testing.assert_close(smaller[2].bias, torch.tensor([20.5]))  # 0.5 + 10 * relu(2)
    torch.testing.assert_close(smaller[4].bias, torch.tensor([14.25]))  # 0.25 + 2 * relu(3 * 2 + 1)
