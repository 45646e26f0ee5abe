import pytest
import torch
from torch import nn

from bdl_lessons.models import BinaryDropout
from bdl_lessons.probability import all_masks, mask_probs

P_DROP = 0.3


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def linear():
    torch.manual_seed(0)
    return BinaryDropout(P_DROP).linear(4, 3).double()


@pytest.fixture
def conv():
    torch.manual_seed(0)
    return BinaryDropout(P_DROP).conv2d(4, 3, 2).double()


def x_linear():
    return torch.randn(6, 4, generator=generator(1), dtype=torch.float64)


def x_conv():
    return torch.randn(6, 4, 5, 5, generator=generator(1), dtype=torch.float64)


def weights(layer, mask):
    """The sub-network's weights, written out: row i of Theta times z_i / keep."""
    shape = [1, -1, *[1] * (layer.weight.dim() - 2)]
    return layer.weight * (mask / (1 - P_DROP)).view(shape)


def plain(layer, x, weight):
    if isinstance(layer, nn.Linear):
        return x @ weight.T + layer.bias
    return nn.functional.conv2d(x, weight, layer.bias)


@pytest.mark.parametrize(("name", "x"), [("linear", x_linear()), ("conv", x_conv())])
def test_function_draw_is_one_weight_matrix_for_all_rows(name, x, request):
    layer = request.getfixturevalue(name)
    candidates = torch.stack([plain(layer, x, weights(layer, z)) for z in all_masks(4)])
    y = layer(x, "shared", generator(2))
    distance = (candidates - y).flatten(1).abs().amax(1)
    assert distance.min() < 1e-12


@pytest.mark.parametrize(("name", "x"), [("linear", x_linear()), ("conv", x_conv())])
def test_mean_is_the_layer_without_noise_and_the_mean_over_masks(name, x, request):
    layer = request.getfixturevalue(name)
    y = layer(x, "mean")
    torch.testing.assert_close(y, plain(layer, x, layer.weight))
    members = torch.stack([plain(layer, x, weights(layer, z)) for z in all_masks(4)])
    expected = torch.tensordot(mask_probs(all_masks(4), P_DROP), members, 1)
    torch.testing.assert_close(y, expected)


def test_a_conv_channel_is_dropped_at_all_pixels(conv):
    x = torch.ones(200, 4, 3, 3, dtype=torch.float64)
    with torch.no_grad():
        conv.weight.fill_(1)
    y = conv(x, "per_example", generator(7))
    torch.testing.assert_close(y, y[..., :1, :1].expand_as(y))
