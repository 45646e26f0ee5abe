"""What holds for the layers of every method, as one table over the registry of methods.

A row is a method with its linear or convolutional layer. What a method draws and what its KL is,
its own tests say.
"""

import sys

import pytest
import torch
from torch import nn

from bdl_lessons.inference import BatchedNetworks
from bdl_lessons.models import (
    ARD,
    BinaryDropout,
    HierarchicalDropout,
    Network,
    SparseVD,
    StructuredDropout,
    VariationalDropout,
    initialise,
)
from reproductions import methods
from tests.draws import seeded
from tests.tables import refused

METHODS = methods.tagged("layer")
ROWS = [(name, kind) for name in METHODS for kind in ("linear", "conv2d")]
NOT_RANDOM = {"MAP"}
MODES = ("per_example", "shared", "mean")
SHAPES = {"linear": (4,), "conv2d": (4, 5, 4)}

rows = pytest.mark.parametrize(("name", "kind"), ROWS, ids=[f"{n}, {k}" for n, k in ROWS])


def made(name, kind, dtype=torch.float64, seed=1, **options):
    """A layer from 4 to 3 units or channels whose noise is not small, and started by a seed."""
    factory = METHODS[name].layers()
    layer = (
        factory.linear(4, 3, **options) if kind == "linear" else factory.conv2d(4, 3, 2, **options)
    )
    layer = initialise(Network(layer), seeded(seed))[0]
    with torch.no_grad():
        if layer.bias is not None:
            layer.bias.copy_(torch.linspace(-1, 1, 3))
        for parameter_name, noise in layer.named_parameters():
            if parameter_name.endswith(("log_sigma2", "raw_log_alpha")):  # off the bounds
                noise.copy_(torch.linspace(-3, -0.2, noise.numel()).view_as(noise))
    return layer.to(dtype)


def inputs(kind, *leading):
    return torch.rand(*leading, *SHAPES[kind], generator=seeded(2), dtype=torch.float64) - 0.3


def same(rows):
    return torch.allclose(rows, rows[:1].expand_as(rows))


@rows
def test_each_mode_shares_its_draws_among_the_right_examples(name, kind):
    layer = made(name, kind)
    random = name not in NOT_RANDOM
    x = inputs(kind)[None, None].expand(12, 5, *SHAPES[kind])  # samples of five equal examples
    per_example, shared, mean = (layer(x, mode, seeded()) for mode in MODES)
    assert any(not same(of_sample) for of_sample in per_example) is random
    assert same(per_example[:, 0]) is not random
    for of_sample in shared:
        assert same(of_sample)
    assert same(shared[:, 0]) is not random
    assert same(mean.flatten(0, 1))
    one = layer(x[0], "shared", seeded())
    assert one.shape == shared[0].shape
    assert same(one)


@rows
@pytest.mark.parametrize("mode", MODES)
def test_a_seed_fixes_the_draw_and_training_mode_does_not_matter(name, kind, mode):
    layer = made(name, kind)
    x = inputs(kind, 6)
    y = layer.train()(x, mode, seeded(3))
    torch.testing.assert_close(layer.eval()(x, mode, seeded(3)), y)
    drawn = mode != "mean" and name not in NOT_RANDOM
    others = [layer(x, mode, seeded(seed)) for seed in range(4, 24)]  # four masks often agree
    assert any(not torch.allclose(other, y) for other in others) is drawn


@rows
def test_shared_is_one_matrix_of_weights_for_each_sample(name, kind):
    layer = made(name, kind)
    a = inputs(kind, 5, 6)
    b = inputs(kind, 5, 6).flip(1)
    draw = layer.sample_weights(5, seeded(4))
    f = [layer.forward_with(x, draw) for x in (a, b, a + b, 0 * a)]
    torch.testing.assert_close(f[0] + f[1], f[2] + f[3])  # linear but for the bias
    torch.testing.assert_close(layer(a, "shared", seeded(4)), f[0])


@rows
def test_an_example_has_the_same_moments_under_both_ways_to_draw(name, kind):
    """The mean is that of the mean weights, but for relaxed masks and flows."""
    layer = made(name, kind)
    n = 4_000
    x = inputs(kind).expand(n, 1, *SHAPES[kind])
    with torch.no_grad():
        draws = [layer(x, mode, seeded(5))[:, 0].flatten(1) for mode in ("per_example", "shared")]
        mean = layer(x[:1], "mean")[0].flatten()
    moments = []
    for y in draws:
        centre = y.mean(0)
        var = y.var(0)
        error = ((y - centre).pow(4).mean(0) - var.square()).clamp_min(0).sqrt()
        moments.append((centre, var, var.sqrt(), error))
    (mean_1, var_1, std_1, error_1), (mean_2, var_2, std_2, error_2) = moments
    assert ((mean_1 - mean_2).abs() <= 5.5 * (std_1 + std_2) / n**0.5 + 1e-9).all()
    assert ((var_1 - var_2).abs() <= 5.5 * (error_1 + error_2) / n**0.5 + 1e-9).all()
    if not name.startswith(("MNF", "concrete")):
        assert ((mean_1 - mean).abs() <= 5.5 * std_1 / n**0.5 + 1e-9).all()


class _Both(nn.Module):
    """Output and KL of a layer, for ``functional_call``."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, mode):
        self.layer(x, "shared", g := seeded(6))  # from here the KL of MNF is drawn
        return self.layer(x, mode, g), self.layer.kl()


@rows
@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_those_of_finite_differences(name, kind, mode):
    layer = made(name, kind)
    x = inputs(kind, 2)
    learned = {f"layer.{n}": p.detach() for n, p in layer.named_parameters() if p.requires_grad}

    def results(x, *values):
        return torch.func.functional_call(
            _Both(layer), dict(zip(learned, values, strict=True)), (x, mode)
        )

    leaves = [leaf.clone().requires_grad_() for leaf in (x, *learned.values())]
    assert torch.autograd.gradcheck(results, leaves, fast_mode=True, atol=1e-4)


@rows
def test_the_kl_is_one_number_and_inputs_of_zeros_have_finite_gradients(name, kind):
    layer = made(name, kind, torch.float32)
    x = torch.zeros(3, *SHAPES[kind]).requires_grad_()
    loss = layer(x, "per_example", seeded()).sum()
    kl = layer.kl()
    assert kl.shape == ()
    assert kl > 0 or name.startswith("MNF")  # an estimate
    (loss + kl).backward()
    gradients = [p.grad for p in (x, *layer.parameters()) if p.grad is not None]
    assert gradients
    assert all(gradient.isfinite().all() for gradient in gradients)


@rows
def test_batched_networks_do_what_their_networks_do_and_draw_noise_of_their_own(name, kind):
    nets = [Network(made(name, kind, seed=seed)) for seed in range(2)]
    batched = BatchedNetworks(nets)
    x = inputs(kind, 2, 6)
    expected = torch.stack([net(rows, "mean") for net, rows in zip(nets, x, strict=True)])
    torch.testing.assert_close(batched(x, "mean"), expected)
    if not name.startswith("MNF"):
        torch.testing.assert_close(batched.kl(), torch.stack([net.kl() for net in nets]))
    equal = BatchedNetworks([nets[0]] * 2)(x[:1].expand_as(x), "per_example", seeded())
    assert equal.shape == expected.shape
    assert same(equal) is (name in NOT_RANDOM)


@pytest.mark.parametrize("name", METHODS)
def test_factories_hand_stride_padding_and_bias_on_and_refuse_other_options(name):
    factory = METHODS[name].layers()
    layer = factory.conv2d(3, 4, 5, stride=2, padding=1, bias=False)
    assert (layer.kernel_size, layer.stride, layer.padding) == ((5, 5), (2, 2), (1, 1))
    assert layer.bias is None is factory.linear(3, 4, bias=False).bias
    for mode in MODES:
        assert layer(torch.randn(2, 3, 9, 9), mode, seeded()).shape == (2, 4, 4, 4)
    assert layer.kl().shape == ()
    for option in ({"groups": 3}, {"dilation": 2}):
        with pytest.raises(TypeError, match=next(iter(option))):
            factory.conv2d(3, 6, 5, **option)


@rows
def test_shapes_that_do_not_fit_are_refused(name, kind):
    layer = made(name, kind, torch.float32)
    word = {"linear": "units", "conv2d": "channels"}[kind]
    fewer = (1, *SHAPES[kind][1:])
    draw = layer.sample_weights(3, seeded())
    for leading in [(5,), (2, 5), ()]:
        with pytest.raises(ValueError, match=f"4 input {word} on axis -., got shape"):
            layer(torch.zeros(*leading, *fewer), "per_example", seeded())
    with pytest.raises(ValueError, match=f"must have 4 input {word}"):
        layer.forward_with(torch.zeros(3, 2, *fewer), draw)
    for leading in [(2,), (1, 2), (2, 2), (3, 1, 2)]:
        with pytest.raises(ValueError, match="the first for the 3 draws"):
            layer.forward_with(torch.zeros(*leading, *SHAPES[kind]), draw)
    for leading in [(), (2, 2, 2)] if name not in NOT_RANDOM else ():
        with pytest.raises(ValueError, match="with a sample axis"):
            layer(torch.zeros(*leading, *SHAPES[kind]), "shared", seeded())


@pytest.mark.parametrize("name", [n for n in methods.tagged("log_alpha") if n in METHODS])
@pytest.mark.parametrize("kind", ["linear", "conv2d"])
def test_layers_with_learned_noise_have_a_log_alpha(name, kind):
    layer = made(name, kind)
    torch.testing.assert_close(layer.alpha, layer.log_alpha.exp())
    layer.log_alpha.sum().backward()
    noise = [p for n, p in layer.named_parameters() if n.endswith(("alpha", "sigma2"))]
    assert any(p.grad is not None and p.grad.all() for p in noise)
    if hasattr(layer.noise, "var"):  # noise on weights
        var = layer.noise.var(layer.mu)
        torch.testing.assert_close(layer.alpha.expand_as(var), var / layer.mu.square())


test_what_makes_no_method_is_named = refused(
    (lambda: VariationalDropout(alpha_per="weight"), "needs noise='B'"),
    (lambda: VariationalDropout(init_p_drop=0.6), "above max_alpha=1.0"),
    (lambda: ARD(log_alpha_clamp=(8, -8)), "log_alpha_clamp"),
    (lambda: StructuredDropout(init_p_drop=0.6), "max_alpha at p = init_p_drop = 0.6 must hold"),
    (lambda: StructuredDropout(min_alpha=0.5), "min_alpha"),
    (lambda: HierarchicalDropout(BinaryDropout(0.5)), "base must have a KL without Theta"),
    (lambda: HierarchicalDropout(SparseVD()), "base must make unit-noise layers"),
)


def entered(function, *args):
    """The files of the package that a call enters, but for the checks of arguments."""
    files = set()

    def note(frame, event, _):
        name = frame.f_code.co_filename
        if "bdl_lessons" in name and not name.endswith("validation.py"):
            files.add(name)

    sys.setprofile(note)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return files


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("name", ["VSD, T = 2", "sparse VD", "hierarchical VSD"])
def test_a_method_is_read_in_few_files(name, kind):
    layer = made(name, kind)
    x = inputs(kind, 2)
    assert len(entered(layer, x, "per_example", seeded())) <= 4
    assert len(entered(layer.kl)) <= 3
