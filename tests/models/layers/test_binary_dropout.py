import pytest
import torch

from bdl_lessons.models import BinaryDropout, Deterministic


@pytest.mark.parametrize("make", [lambda f: f.linear(5, 3), lambda f: f.conv2d(5, 3, 2)])
def test_layers_sum_over_all_their_weights(make):
    layer = make(BinaryDropout(0.25, length_scale=0.1)).double()
    expected = 0.01 / 2 * (layer.weight.square().sum() / 0.75 + layer.bias.square().sum())
    torch.testing.assert_close(layer.kl(), expected)
    plain = Deterministic(length_scale=3.0).linear(4, 2)
    expected = 4.5 * sum(parameter.square().sum() for parameter in plain.parameters())
    torch.testing.assert_close(plain.kl(), expected)
    assert not plain.is_random
