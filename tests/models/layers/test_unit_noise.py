import pytest
import torch
from torch import nn

from bdl_lessons.models import BinaryDropout, Deterministic
from bdl_lessons.probability import all_masks, mask_probs

P_DROP = 0.3
LAYERS = {
    "linear": (BinaryDropout(P_DROP).linear(4, 3), (6, 4)),
    "conv": (BinaryDropout(P_DROP).conv2d(4, 3, 2), (6, 4, 5, 5)),
}


def sub_network(layer, x, mask):
    """The weights written out: row i of Theta times z_i / keep."""
    shape = [1, -1, *[1] * (layer.weight.dim() - 2)]
    weight = layer.weight * (mask / (1 - P_DROP)).view(shape)
    if isinstance(layer, nn.Linear):
        return x @ weight.T + layer.bias
    return nn.functional.conv2d(x, weight, layer.bias)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_shared_draw_is_a_sub_network_and_the_mean_is_that_of_all(kind):
    layer, shape = LAYERS[kind]
    layer = layer.double()
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    members = torch.stack([sub_network(layer, x, mask) for mask in all_masks(4)])
    distance = (members - layer(x, "shared", generator)).flatten(1).abs().amax(1)
    assert distance.min() < 1e-12
    expected = torch.tensordot(mask_probs(all_masks(4), P_DROP), members, 1)
    torch.testing.assert_close(layer(x, "mean"), expected)


@pytest.mark.parametrize("make", [lambda f: f.linear(5, 3), lambda f: f.conv2d(5, 3, 2)])
def test_layers_sum_over_all_their_weights(make):
    layer = make(BinaryDropout(0.25, length_scale=0.1)).double()
    expected = 0.01 / 2 * (layer.weight.square().sum() / 0.75 + layer.bias.square().sum())
    torch.testing.assert_close(layer.kl(), expected)
    plain = Deterministic(length_scale=3.0).linear(4, 2)
    expected = 4.5 * sum(parameter.square().sum() for parameter in plain.parameters())
    torch.testing.assert_close(plain.kl(), expected)
    assert not plain.is_random
