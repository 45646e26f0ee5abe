"""The networks for images: their numbers of parameters, shapes, and residual blocks by hand."""

from functools import partial

import pytest
import torch
from torch import nn

from bdl_lessons.inference import predict
from bdl_lessons.models import (
    BayesByBackprop,
    BinaryDropout,
    Deterministic,
    Network,
    initialise,
    wrap,
)
from reproductions.images.architectures import Residual, alexnet, lenet5, lenet5_classic, resnet18
from tests.draws import seeded

DROP = partial(BinaryDropout, p_drop=0.5)


@pytest.mark.parametrize(
    ("network", "n_weights"),
    [
        (lenet5(Deterministic), 431_080),
        (lenet5_classic(Deterministic), 61_706),
        (lenet5_classic(Deterministic, in_channels=3, size=32), 61_706 + 6 * 25 * 2),
        (alexnet(Deterministic), 2_472_266),
        (resnet18(Deterministic, n_classes=1000), 11_689_512),
    ],
)
def test_parameters_are_those_of_the_published_networks(network, n_weights):
    assert sum(parameter.numel() for parameter in network.parameters()) == n_weights


def test_caffes_lenet_has_no_nonlinearity_after_its_convolutions():
    network = lenet5([Deterministic, Deterministic, Deterministic, DROP])
    activations = [module for module in network if isinstance(module, nn.ReLU)]
    assert len(activations) == 1
    assert [type(module) for module in network][-3:] == [Deterministic, nn.ReLU, BinaryDropout]
    with pytest.raises(ValueError, match="one for all or 4, got 2"):
        lenet5([DROP, DROP])


def small(method=DROP):
    """One block with a projection and one without, after and before plain modules."""

    def conv(n_in, n_out, size=3):
        return nn.Conv2d(n_in, n_out, size, padding=size // 2)

    projected = nn.Sequential(conv(2, 3), nn.BatchNorm2d(3), nn.ReLU(), conv(3, 3))
    first = Residual(wrap(projected, method), wrap(nn.Sequential(conv(2, 3, 1)), method))
    straight = nn.Sequential(conv(3, 3), nn.ReLU(), conv(3, 3))
    second = Residual(wrap(straight, method), Network())
    last = method(nn.Linear(3 * 4, 2))
    net = Network(nn.AvgPool2d(2), first, second, nn.Flatten(), last)
    return initialise(net, seeded(1)).eval()


@pytest.mark.parametrize("sampling", ["per_example", "shared", "mean"])
def test_a_block_adds_its_shortcut_which_has_a_draw_of_its_own(sampling):
    block = small()[1]
    x = torch.randn(9, 5, 2, 6, 6, generator=seeded(2))
    conv1, norm, _, conv2 = block.main
    g = seeded(3)
    with torch.no_grad():
        main = norm(conv1(x, sampling, g).flatten(0, 1)).relu().unflatten(0, (9, 5))
        main = conv2(main, sampling, g)
        shortcut = block.shortcut[0](x, sampling, g)
        expected = (main + shortcut).relu()
        torch.testing.assert_close(block(x, sampling, seeded(3)), expected)


def test_a_block_without_a_projection_adds_its_input():
    block = small()[2]
    x = torch.randn(5, 3, 6, 6, generator=seeded(2))
    with torch.no_grad():
        expected = (block.main(x, "mean") + x).relu()
        torch.testing.assert_close(block(x, "mean"), expected)


def test_kl_counts_every_layer_once():
    net = small(BayesByBackprop)
    layers = [module for module in net.modules() if isinstance(module, BayesByBackprop)]
    assert len(layers) == 6
    torch.testing.assert_close(net.kl(), sum(layer.kl() for layer in layers))


def test_predict_draws_functions_through_blocks():
    """All examples of a sample meet the same masks, in however many chunks they are computed."""
    net = small()
    x = torch.randn(30, 2, 4, 4, generator=seeded(6))
    draws = predict(net, x, 9, "shared", generator=seeded(7), chunk_rows=7)
    again = predict(net, x.flip(0), 9, "shared", generator=seeded(7), chunk_rows=7)
    torch.testing.assert_close(draws, again.flip(1))
    assert (draws[0] - draws[1]).abs().max() > 1e-3
