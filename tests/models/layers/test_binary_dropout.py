import pytest
import torch
from torch import nn

from bdl_lessons.models import BinaryDropout, Deterministic
from bdl_lessons.probability import all_masks, mask_probs

P_DROP = 0.3
LAYERS = {
    "linear": (BinaryDropout(nn.Linear(4, 3), P_DROP), (6, 4)),
    "conv": (BinaryDropout(nn.Conv2d(4, 3, 2), P_DROP), (6, 4, 5, 5)),
}


def sub_network(layer, x, mask):
    """The weights written out: row i of Theta times z_i / keep."""
    shape = [1, -1, *[1] * (layer.weight.dim() - 2)]
    weight = layer.weight * (mask / (1 - P_DROP)).view(shape)
    if isinstance(layer.inner, nn.Linear):
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


@pytest.mark.parametrize("inner", [nn.Linear(5, 3), nn.Conv2d(5, 3, 2)], ids=["linear", "conv2d"])
def test_layers_sum_over_all_their_weights(inner):
    layer = BinaryDropout(inner, p_drop=0.25, length_scale=0.1).double()
    expected = 0.01 / 2 * (layer.weight.square().sum() / 0.75 + layer.bias.square().sum())
    torch.testing.assert_close(layer.kl(), expected)
    plain = Deterministic(nn.Linear(4, 2), length_scale=3.0)
    expected = 4.5 * sum(parameter.square().sum() for parameter in plain.parameters())
    torch.testing.assert_close(plain.kl(), expected)


@pytest.mark.parametrize("p_drop", [0.002, 0.2, 0.5, 0.9])
def test_a_mask_is_zero_with_p_drop_and_has_mean_one(p_drop):
    """The share of zeros, within five standard errors: kept and dropped are not confused."""
    layer = BinaryDropout(nn.Linear(1, 1), p_drop)
    n_draws = 200_000
    xi = layer.draw_xi((n_draws,), torch.Generator().manual_seed(0))
    standard_error = (p_drop * (1 - p_drop) / n_draws) ** 0.5
    assert (xi == 0).double().mean().item() == pytest.approx(p_drop, abs=5 * standard_error)
    torch.testing.assert_close(xi, (xi != 0) / (1 - p_drop))


def test_without_a_rate_nothing_is_dropped():
    layer = BinaryDropout(nn.Linear(4, 3), p_drop=0.0)
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(layer(x, "per_example", torch.Generator()), layer(x, "mean"))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_mask_has_the_type_of_the_weights_and_draws_as_float32_does(dtype):
    layer = BinaryDropout(nn.Linear(1, 1), p_drop=0.002).to(dtype)
    xi = layer.draw_xi((10_000,), torch.Generator().manual_seed(0))
    as_float = BinaryDropout(nn.Linear(1, 1), p_drop=0.002)
    expected = as_float.draw_xi((10_000,), torch.Generator().manual_seed(0)) == 0
    assert xi.dtype == dtype
    assert ((xi == 0) == expected).all()
