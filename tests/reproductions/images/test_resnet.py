import pytest
import torch
from torch import nn

from bdl_lessons.inference import predict
from bdl_lessons.models import BayesByBackprop, BinaryDropout, Deterministic, Network, initialise
from reproductions.images.resnet import Residual, resnet18
from tests.draws import seeded

PLAIN, DROP = Deterministic(), BinaryDropout(0.5)
BLOCKS = slice(4, 12)


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


def test_parameters_are_those_of_the_published_network():
    n_weights = sum(p.numel() for p in resnet18(PLAIN, n_classes=1000).parameters())
    assert n_weights == 11_689_512


def test_shapes_inside_on_small_and_large_images():
    net = resnet18(PLAIN).eval()
    for size, sides in ((32, (8, 4, 2, 1)), (96, (24, 12, 6, 3))):
        x, seen = torch.randn(1, 3, size, size), []
        for module in net:
            x = module(x, "mean") if hasattr(module, "kl") else module(x)
            seen += [tuple(x.shape[1:])] if isinstance(module, Residual) else []
        expected = [(c, s, s) for c, s in zip((64, 128, 256, 512), sides, strict=True)]
        assert seen[::2] == seen[1::2] == expected
        assert x.shape == (1, 10)


def test_a_block_by_hand():
    block = small(PLAIN)[1]
    x = torch.randn(5, 2, 6, 6, generator=seeded(2))
    conv1, norm, _, conv2 = block.main
    by_hand = conv2(norm(conv1(x, "mean")).relu(), "mean") + block.shortcut[0](x, "mean")
    torch.testing.assert_close(block(x, "mean"), by_hand.relu())


def test_the_shortcut_has_a_draw_of_its_own():
    block, x = small()[1], torch.randn(9, 5, 2, 6, 6, generator=seeded(2))
    first, second, own = draws = block.sample_weights(9, seeded(3))
    conv1, norm, _, conv2 = block.main
    with torch.no_grad():
        main = norm(conv1.forward_with(x, first).flatten(0, 1)).relu().unflatten(0, (9, 5))
        main, shortcut = conv2.forward_with(main, second), block.shortcut[0].forward_with(x, own)
        torch.testing.assert_close(block.forward_with(x, draws), (main + shortcut).relu())


def test_first_decides_about_the_pixels_only():
    net = resnet18(DROP, first=PLAIN)
    assert not net[0].is_random
    assert all(block.is_random for block in net[BLOCKS])
    assert not any(block.is_random for block in resnet18(PLAIN)[BLOCKS])


def test_kl_counts_every_layer_once():
    net = small(BayesByBackprop())
    layers = [m for m in net.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    assert len(layers) == 6
    torch.testing.assert_close(net.kl(), sum(layer.kl() for layer in layers))


@pytest.mark.parametrize("n_rows", [3, 3000])  # expanded batch, and one sample at a time
def test_predict_draws_functions_through_blocks(n_rows):
    net, x = small(), torch.randn(n_rows, 2, 4, 4, generator=seeded(6))
    draws = predict(net, x, 9, "shared", generator=seeded(7))
    g = seeded(7)
    noise = {m: m.sample_weights(9, g) for m in net if getattr(m, "is_random", False)}
    with torch.no_grad():
        h = net[0](x).expand(9, *net[0](x).shape)
        h = net[2].forward_with(net[1].forward_with(h, noise[net[1]]), noise[net[2]])
        expected = net[4].forward_with(h.flatten(2), noise[net[4]])
    torch.testing.assert_close(draws, expected)
