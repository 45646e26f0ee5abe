"""What holds for the layers of every method: shapes that are refused, and options."""

import pytest
import torch

from bdl_lessons.models import BinaryDropout, lenet5
from reproductions import methods
from reproductions.images.resnet import resnet18

FACTORIES = {name: method.layers() for name, method in methods.tagged("layer").items()}
MODES = ("per_example", "shared", "mean")


def generator():
    return torch.Generator().manual_seed(0)


@pytest.fixture(params=FACTORIES)
def factory(request):
    return FACTORIES[request.param]


@pytest.mark.parametrize("sampling", MODES)
def test_a_wrong_number_of_units_is_refused(factory, sampling):
    layer = factory.linear(4, 3)
    for shape in [(5, 1), (5, 3), (2, 5, 1), (1,)]:
        with pytest.raises(ValueError, match=f"4 input units on axis -1, got {shape[-1]}"):
            layer(torch.randn(shape), sampling, generator())


@pytest.mark.parametrize("sampling", MODES)
def test_a_wrong_number_of_channels_is_refused(factory, sampling):
    layer = factory.conv2d(3, 8, 3)
    for shape in [(2, 1, 8, 8), (2, 2, 1, 8, 8), (1, 8, 8)]:
        with pytest.raises(ValueError, match="3 input channels on axis -3, got 1"):
            layer(torch.randn(shape), sampling, generator())
    with pytest.raises(ValueError, match="3 input channels on axis -3, got none"):
        layer(torch.randn(8, 8), sampling, generator())


@pytest.mark.parametrize("kind", ["linear", "conv2d"])
def test_draws_need_one_sample_of_the_inputs_each(factory, kind):
    layer, shape = factory.linear(4, 3), (4,)
    if kind == "conv2d":
        layer, shape = factory.conv2d(4, 3, 2), (4, 5, 5)
    draw = layer.sample_weights(3, generator())
    assert layer.forward_with(torch.randn(3, 2, *shape), draw).shape[:2] == (3, 2)
    for leading in [(2,), (1, 2), (2, 2), (3, 1, 2)]:
        with pytest.raises(ValueError, match="the first for the 3 draws"):
            layer.forward_with(torch.randn(*leading, *shape), draw)
    with pytest.raises(ValueError, match="must have 4 input"):
        layer.forward_with(torch.randn(3, 2, 1, *shape[1:]), draw)


@pytest.mark.parametrize("kind", ["linear", "conv2d"])
def test_shared_refuses_inputs_without_examples_and_with_too_many_axes(kind):
    layer, shape = BinaryDropout(0.5).linear(4, 3), (4,)
    if kind == "conv2d":
        layer, shape = BinaryDropout(0.5).conv2d(4, 3, 2), (4, 5, 5)
    for leading in [(), (2, 2, 2)]:
        with pytest.raises(ValueError, match="with a sample axis"):
            layer(torch.randn(*leading, *shape), "shared", generator())


@pytest.mark.parametrize("network", [lenet5, resnet18])
@pytest.mark.parametrize("sampling", MODES)
def test_networks_refuse_images_with_another_number_of_channels(network, sampling):
    images = torch.randn(2, 3 if network is lenet5 else 1, 32, 32)
    with pytest.raises(ValueError, match=r"must have . input channels"):
        network(BinaryDropout(0.5)).eval()(images, sampling, generator())


def test_factories_hand_stride_padding_and_bias_on_and_refuse_other_options(factory):
    layer = factory.conv2d(3, 4, 5, stride=2, padding=1, bias=False)
    assert (layer.kernel_size, layer.stride, layer.padding) == ((5, 5), (2, 2), (1, 1))
    assert layer.bias is None
    assert factory.linear(3, 4, bias=False).bias is None
    x = torch.randn(2, 3, 9, 9)
    for sampling in MODES:
        assert layer(x, sampling, generator()).shape == (2, 4, 4, 4)
    assert layer.kl().shape == ()
    with pytest.raises(TypeError, match="groups"):
        factory.conv2d(3, 6, 5, groups=3)
    with pytest.raises(TypeError, match="dilation"):
        factory.conv2d(3, 6, 5, dilation=2)
    with pytest.raises(TypeError, match="dtype"):
        factory.linear(3, 6, dtype=torch.float64)


@pytest.mark.parametrize("method", methods.tagged("log_alpha").values(), ids=lambda m: m.name)
@pytest.mark.parametrize("kind", ["linear", "conv2d"])
def test_layers_with_learned_noise_have_a_log_alpha(method, kind):
    layer = getattr(method.layers(), kind)(*((4, 3) if kind == "linear" else (4, 3, 2)))
    torch.testing.assert_close(layer.alpha, layer.log_alpha.exp())
    layer.log_alpha.sum().backward()
    noise_parameters = [p for n, p in layer.named_parameters() if n.endswith(("alpha", "sigma2"))]
    assert any(p.grad is not None and p.grad.all() for p in noise_parameters)


@pytest.mark.parametrize("name", ["BBB-LRT", "sparse VD", "ARD", "VD B, per weight"])
def test_log_alpha_of_weight_noise_is_that_of_the_variance_of_the_weights(name):
    layer = FACTORIES[name].linear(4, 3).double()
    var = layer.noise.var(layer.mu)
    torch.testing.assert_close(layer.alpha.expand(3, 4), var / layer.mu.square())


@pytest.mark.parametrize("name", ["MAP", "MCD", "ELRG"])
def test_layers_without_gaussian_noise_have_none(name):
    layer = FACTORIES[name].linear(4, 3)
    assert not hasattr(layer, "log_alpha")
    assert not hasattr(layer, "alpha")
