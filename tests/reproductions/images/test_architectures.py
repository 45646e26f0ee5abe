"""The networks for images: their numbers of parameters, shapes, and residual blocks by hand."""

import pytest
import torch
from torch import nn

from bdl_lessons.inference import predict
from bdl_lessons.models import BayesByBackprop, BinaryDropout, Deterministic, Network, initialise
from reproductions.images.architectures import Residual, alexnet, lenet5_classic, resnet18
from tests.draws import seeded

PLAIN = Deterministic()
DROP = BinaryDropout(0.5)


@pytest.mark.parametrize(
    ("network", "n_weights"),
    [
        (lenet5_classic(PLAIN), 61_706),
        (lenet5_classic(PLAIN, in_channels=3, size=32), 61_706 + 6 * 25 * 2),
        (alexnet(PLAIN), 2_472_266),
        (resnet18(PLAIN, n_classes=1000), 11_689_512),
    ],
)
def test_parameters_are_those_of_the_published_networks(network, n_weights):
    assert sum(parameter.numel() for parameter in network.parameters()) == n_weights


def small(layers=DROP):
    """One block with a projection and one without, after and before plain modules."""

    def conv(n_in, n_out, size=3):
        return layers.conv2d(n_in, n_out, size, padding=size // 2)

    first = Residual(
        Network(conv(2, 3), nn.BatchNorm2d(3), nn.ReLU(), conv(3, 3)), Network(conv(2, 3, 1))
    )
    second = Residual(Network(conv(3, 3), nn.ReLU(), conv(3, 3)), Network())
    net = Network(nn.AvgPool2d(2), first, second, nn.Flatten(), layers.linear(3 * 4, 2))
    return initialise(net, seeded(1)).eval()


def test_a_block_adds_its_shortcut_which_has_a_draw_of_its_own():
    block = small()[1]
    x = torch.randn(9, 5, 2, 6, 6, generator=seeded(2))
    first, second, own = draws = block.sample_weights(9, seeded(3))
    conv1, norm, _, conv2 = block.main
    with torch.no_grad():
        main = norm(conv1.forward_with(x, first).flatten(0, 1)).relu().unflatten(0, (9, 5))
        main = conv2.forward_with(main, second)
        shortcut = block.shortcut[0].forward_with(x, own)
        torch.testing.assert_close(block.forward_with(x, draws), (main + shortcut).relu())
        by_hand = conv2(norm(conv1(x[0], "mean")).relu(), "mean") + block.shortcut[0](x[0], "mean")
        torch.testing.assert_close(block(x[0], "mean"), by_hand.relu())


def test_kl_counts_every_layer_once():
    net = small(BayesByBackprop())
    layers = [m for m in net.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    assert len(layers) == 6
    torch.testing.assert_close(net.kl(), sum(layer.kl() for layer in layers))


@pytest.mark.parametrize("n_rows", [3, 3000])  # expanded batch, and one sample at a time
def test_predict_draws_functions_through_blocks(n_rows):
    net = small()
    x = torch.randn(n_rows, 2, 4, 4, generator=seeded(6))
    draws = predict(net, x, 9, "shared", generator=seeded(7))
    g = seeded(7)
    noise = {m: m.sample_weights(9, g) for m in net if getattr(m, "is_random", False)}
    with torch.no_grad():
        h = net[0](x).expand(9, *net[0](x).shape)
        h = net[2].forward_with(net[1].forward_with(h, noise[net[1]]), noise[net[2]])
        expected = net[4].forward_with(h.flatten(2), noise[net[4]])
    torch.testing.assert_close(draws, expected)
