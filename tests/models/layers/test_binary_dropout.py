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
    xi = mask / (1 - P_DROP)
    if isinstance(layer.inner, nn.Linear):
        return x @ (layer.weight * xi).T + layer.bias
    filters = layer.weight * xi[:, None, None]
    return nn.functional.conv2d(x, filters, layer.bias)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_shared_draw_is_a_sub_network_and_the_mean_is_that_of_all(kind):
    layer, shape = LAYERS[kind]
    layer = layer.double()
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    masks = all_masks(4)
    outputs = torch.stack([sub_network(layer, x, mask) for mask in masks])
    distances = (outputs - layer(x, "shared", generator)).flatten(1).abs().amax(1)
    assert distances.min() < 1e-12
    mean = torch.tensordot(mask_probs(masks, P_DROP), outputs, 1)
    torch.testing.assert_close(layer(x, "mean"), mean)


@pytest.mark.parametrize("inner", [nn.Linear(5, 3), nn.Conv2d(5, 3, 2)], ids=["linear", "conv2d"])
def test_layers_sum_over_all_their_weights(inner):
    layer = BinaryDropout(inner, p_drop=0.25, length_scale=0.1).double()
    of_weights = 0.1**2 / 2 * layer.weight.square().sum() / 0.75
    of_biases = 0.1**2 / 2 * layer.bias.square().sum()
    torch.testing.assert_close(layer.kl(), of_weights + of_biases)


@pytest.mark.parametrize("bias", [True, False])
def test_the_penalty_without_noise_is_that_of_the_prior(bias):
    plain = Deterministic(nn.Linear(4, 2, bias=bias), length_scale=3.0)
    squared_norm = sum(parameter.square().sum() for parameter in plain.parameters())
    torch.testing.assert_close(plain.kl(), 3.0**2 / 2 * squared_norm)


@pytest.mark.parametrize("p_drop", [0.002, 0.2, 0.5, 0.9])
def test_a_mask_is_zero_with_p_drop_and_has_mean_one(p_drop):
    """The share of zeros, within five standard errors: kept and dropped are not confused."""
    layer = BinaryDropout(nn.Linear(1, 1), p_drop)
    n_draws = 200_000
    xi = layer.draw_xi((n_draws,), torch.Generator().manual_seed(0))
    keep = 1 - p_drop
    standard_error = (p_drop * keep / n_draws) ** 0.5
    share_of_zeros = (xi == 0).double().mean()
    assert share_of_zeros.item() == pytest.approx(p_drop, abs=5 * standard_error)
    torch.testing.assert_close(xi, (xi != 0) / keep)


def test_without_a_rate_nothing_is_dropped():
    layer = BinaryDropout(nn.Linear(4, 3), p_drop=0.0)
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(layer(x, "per_example", torch.Generator()), layer(x, "mean"))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_mask_has_the_type_of_the_weights_and_draws_as_float32_does(dtype):
    in_float32 = BinaryDropout(nn.Linear(1, 1), p_drop=0.002)
    layer = BinaryDropout(nn.Linear(1, 1), p_drop=0.002).to(dtype)
    xi = layer.draw_xi((10_000,), torch.Generator().manual_seed(0))
    expected = in_float32.draw_xi((10_000,), torch.Generator().manual_seed(0))
    assert xi.dtype == dtype
    assert ((xi == 0) == (expected == 0)).all()
