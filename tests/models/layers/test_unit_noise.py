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
def test_example_draw_is_some_weight_matrix_for_each_row_and_they_differ(name, x, request):
    layer = request.getfixturevalue(name)
    candidates = torch.stack([plain(layer, x, weights(layer, z)) for z in all_masks(4)])
    y = layer(x, "per_example", generator(2))
    distance = (candidates - y).flatten(2).abs().amax(2)
    assert distance.amin(0).max() < 1e-12
    assert len(distance.argmin(0).unique()) > 1  # bits: integers


@pytest.mark.parametrize(("name", "x"), [("linear", x_linear()), ("conv", x_conv())])
def test_mean_is_the_layer_without_noise_and_the_mean_over_masks(name, x, request):
    layer = request.getfixturevalue(name)
    y = layer(x, "mean")
    torch.testing.assert_close(y, plain(layer, x, layer.weight))
    members = torch.stack([plain(layer, x, weights(layer, z)) for z in all_masks(4)])
    expected = torch.tensordot(mask_probs(all_masks(4), P_DROP), members, 1)
    torch.testing.assert_close(y, expected)


@pytest.mark.parametrize("name", ["linear", "conv"])
def test_function_on_a_sample_axis_is_one_draw_per_sample(name, request):
    layer = request.getfixturevalue(name)
    row = (x_linear() if name == "linear" else x_conv())[0]
    x = row.expand(40, 6, *row.shape)
    y = layer(x, "shared", generator(3))
    assert y.shape[:2] == (40, 6)
    torch.testing.assert_close(y, y[:, :1].expand_as(y))
    rounded = y[:, 0].flatten(1).round(decimals=6)
    assert len(rounded.unique(dim=0)) > 5  # bits: rounded
    assert torch.pdist(layer(x, "per_example", generator(3))[0].flatten(1)).max() > 1e-6


@pytest.mark.parametrize("name", ["linear", "conv"])
def test_draw_then_apply_is_a_function_draw(name, request):
    layer = request.getfixturevalue(name)
    x = x_linear() if name == "linear" else x_conv()
    direct = layer(x, "shared", generator(4))
    two_steps = layer.forward_with(x[None], layer.sample_weights(1, generator(4)))
    torch.testing.assert_close(two_steps, direct[None])


@pytest.mark.parametrize("sampling", ["per_example", "shared", "mean"])
@pytest.mark.parametrize("name", ["linear", "conv"])
def test_train_and_eval_change_nothing(name, sampling, request):
    layer = request.getfixturevalue(name)
    x = x_linear() if name == "linear" else x_conv()
    outputs = [layer.train(mode)(x, sampling, generator(5)) for mode in (True, False)]
    torch.testing.assert_close(*outputs)


def test_gradients_of_weights_and_inputs(linear):
    def loss(x, weight, bias):
        replaced = {"weight": weight, "bias": bias}
        args = (x, "per_example", generator(6))
        return torch.func.functional_call(linear, replaced, args)

    inputs = (x_linear(), linear.weight.detach(), linear.bias.detach())
    assert torch.autograd.gradcheck(loss, [t.clone().requires_grad_() for t in inputs])


def test_a_conv_channel_is_dropped_at_all_pixels(conv):
    x = torch.ones(200, 4, 3, 3, dtype=torch.float64)
    with torch.no_grad():
        conv.weight.fill_(1)
    y = conv(x, "per_example", generator(7))
    torch.testing.assert_close(y, y[..., :1, :1].expand_as(y))


def test_unknown_sampling_and_missing_generator_are_refused(linear):
    with pytest.raises(TypeError, match="noise_cov needs structured dropout"):
        linear.noise_cov()
    with pytest.raises(ValueError, match="'per_example', 'shared', 'mean'"):
        linear(x_linear(), "train", generator())
    with pytest.raises(TypeError, match="generator"):
        linear(x_linear(), "per_example")
