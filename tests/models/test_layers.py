"""What holds for the layers of every method, as one table over the registry of methods.

A row is a method with its linear or convolutional layer. What a method draws and what its KL is,
its own tests say.
"""

import copy
import inspect
import math
import pickle
import sys

import pytest
import torch
from torch import nn

from bdl_lessons.inference import BatchedNetworks
from bdl_lessons.models import (
    ARD,
    BayesByBackprop,
    BinaryDropout,
    ConcreteDropout,
    Deterministic,
    HierarchicalDropout,
    Network,
    SparseVD,
    StructuredDropout,
    VariationalDropout,
    VariationalDropoutB,
    WeightNoise,
    initialise,
    lognormal_scale_kl,
)
from bdl_lessons.probability import loguniform_kl, molchanov_kl
from reproductions import methods
from tests.draws import seeded
from tests.tables import refused

METHODS = {method.name: method for method in methods.METHODS if method.common_tests}
ROWS = [(name, kind) for name in METHODS for kind in ("linear", "conv2d")]
NOT_RANDOM = {"MAP"}
JOINT = ("MNF", "ELRG", "VMG")  # distributions of all weights together
LINEAR = nn.Linear(4, 3)
LOG_ALPHA = [name for name, method in METHODS.items() if method.learns_alpha]
MODES = ("per_example", "shared", "mean")
SHAPES = {"linear": (4,), "conv2d": (4, 5, 4)}

rows = pytest.mark.parametrize(("name", "kind"), ROWS, ids=[f"{n}, {k}" for n, k in ROWS])


def layer_of(name, kind, dtype=torch.float64, seed=1, **options):
    """A layer from 4 to 3 units or channels whose noise is not small, and started by a seed."""
    inner = nn.Linear(4, 3, **options) if kind == "linear" else nn.Conv2d(4, 3, 2, **options)
    layer = initialise(Network(METHODS[name].layer(inner)), seeded(seed))[0]
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
    layer = layer_of(name, kind)
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
    layer = layer_of(name, kind)
    x = inputs(kind, 6)
    y = layer.train()(x, mode, seeded(3))
    torch.testing.assert_close(layer.eval()(x, mode, seeded(3)), y)
    drawn = mode != "mean" and name not in NOT_RANDOM
    others = [layer(x, mode, seeded(seed)) for seed in range(4, 24)]  # four masks often agree
    assert any(not torch.allclose(other, y) for other in others) is drawn


@rows
def test_shared_is_one_matrix_of_weights_for_each_sample(name, kind):
    layer = layer_of(name, kind)
    a = inputs(kind, 5, 6)
    b = a.flip(1)
    f = [layer(x, "shared", seeded(4)) for x in (a, b, a + b, 0 * a)]
    torch.testing.assert_close(f[0] + f[1], f[2] + f[3])  # linear but for the bias


@rows
def test_an_example_has_the_same_moments_under_both_ways_to_draw(name, kind):
    """The mean is that of the mean weights, but for relaxed masks and flows."""
    layer = layer_of(name, kind)
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
    layer = layer_of(name, kind)
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
    layer = layer_of(name, kind, torch.float32)
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
    nets = [Network(layer_of(name, kind, seed=seed)) for seed in range(2)]
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
def test_a_convolution_keeps_its_stride_padding_and_missing_bias(name):
    layer = METHODS[name].layer(nn.Conv2d(3, 4, 5, stride=2, padding=1, bias=False))
    assert layer.bias is None is METHODS[name].layer(nn.Linear(3, 4, bias=False)).bias
    for mode in MODES:
        assert layer(torch.randn(2, 3, 9, 9), mode, seeded()).shape == (2, 4, 4, 4)
        assert layer(torch.randn(5, 2, 3, 9, 9), mode, seeded()).shape == (5, 2, 4, 4, 4)
    assert layer.kl().shape == ()


@rows
def test_shapes_that_do_not_fit_are_refused(name, kind):
    layer = layer_of(name, kind, torch.float32)
    word = {"linear": "units", "conv2d": "channels"}[kind]
    fewer = (1, *SHAPES[kind][1:])
    for leading in [(5,), (2, 5), ()]:
        with pytest.raises(ValueError, match=f"4 input {word} on axis -., got shape"):
            layer(torch.zeros(*leading, *fewer), "per_example", seeded())
    for leading in [(), (2, 2, 2)]:
        with pytest.raises(ValueError, match="with a sample axis"):
            layer(torch.zeros(*leading, *SHAPES[kind]), "shared", seeded())


@pytest.mark.parametrize("name", LOG_ALPHA)
@pytest.mark.parametrize("kind", ["linear", "conv2d"])
def test_layers_with_learned_noise_have_a_log_alpha(name, kind):
    layer = layer_of(name, kind)
    torch.testing.assert_close(layer.alpha, layer.log_alpha.exp())
    layer.log_alpha.sum().backward()
    noise = [p for n, p in layer.named_parameters() if n.endswith(("alpha", "sigma2"))]
    assert any(p.grad is not None and p.grad.all() for p in noise), (
        "learned noise is a parameter called raw_log_alpha or log_sigma2, which log_alpha follows"
    )
    if isinstance(layer, WeightNoise):
        var = layer.weight_var()
        torch.testing.assert_close(layer.alpha.expand_as(var), var / layer.mu.square())


@rows
@pytest.mark.parametrize("mode", MODES)
def test_the_bias_has_no_noise(name, kind, mode):
    """Inputs of zeros leave the bias alone, however large the noise is."""
    layer = layer_of(name, kind)
    if isinstance(layer, WeightNoise) or name.startswith(JOINT):
        pytest.skip("noise on weights: the bias may be one of them")
    x = torch.zeros(6, *SHAPES[kind], dtype=torch.float64)
    y = layer(x, mode, seeded(3))
    bias = layer.bias if kind == "linear" else layer.bias[:, None, None]
    torch.testing.assert_close(y, bias.expand_as(y))


DEFAULTS = {
    BinaryDropout: {"length_scale": 1.0},
    Deterministic: {"length_scale": 1.0},
    ConcreteDropout: {"init_p_drop": 0.1, "length_scale": 1.0, "temperature": 0.1},
    VariationalDropout: {
        "alpha_per": "layer",
        "init_p_drop": 0.5,
        "max_alpha": 1.0,
        "kl": loguniform_kl,
        "kl_scale": 1.0,
        "kl_per": "factor",
    },
    VariationalDropoutB: {
        "alpha_per": "layer",
        "init_p_drop": 0.5,
        "max_alpha": 1.0,
        "kl": loguniform_kl,
    },
    BayesByBackprop: {"prior_var": 1.0, "init_log_sigma2": -6.0},
    SparseVD: {
        "init_log_sigma2": -10.0,
        "log_alpha_clamp": None,
        "threshold": None,
        "weight_kl": molchanov_kl,
    },
    ARD: {"init_log_sigma2": -10.0, "log_alpha_clamp": None, "threshold": None},
    StructuredDropout: {
        "n_reflections": 2,
        "init_p_drop": 0.2,
        "alpha_spread": 0.1,
        "min_alpha": 1e-4,
        "max_alpha": 1.0,
        "prior": "empirical_bayes",
        "kl_per": "factor",
    },
    HierarchicalDropout: {"scale_kl": lognormal_scale_kl, "init_std": 0.1},
}


@pytest.mark.parametrize("method", DEFAULTS, ids=lambda method: method.__name__)
def test_defaults_are_those_of_the_documentation(method):
    parameters = inspect.signature(method).parameters.values()
    defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
    assert defaults == DEFAULTS[method]


@rows
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_kl_of_half_weights_is_a_sum_in_float32(name, kind, dtype):
    """The weights of a wide layer: the sum of their squares is no number of float16."""
    if name.startswith(JOINT):
        pytest.skip("not taught: these are trained in float32 alone")
    layer = layer_of(name, kind, torch.float32)
    with torch.no_grad():
        layer.weight.copy_(100 * layer.weight.to(dtype))
    expected = layer.kl()
    kl = layer.to(dtype).kl()
    assert kl.dtype == torch.float32, "a KL sums core.devices.single(...) of its parameters"
    torch.testing.assert_close(kl, expected, rtol=0.02, atol=0)


@rows
def test_a_layer_survives_copying_pickling_and_its_state(name, kind):
    layer = layer_of(name, kind)
    x = inputs(kind, 6)
    expected = layer(x, "per_example", seeded(3))
    other = layer_of(name, kind, seed=2)
    other.load_state_dict(layer.state_dict())
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), other):
        torch.testing.assert_close(twin(x, "per_example", seeded(3)), expected)


test_what_makes_no_method_is_named = refused(
    (lambda: VariationalDropout(LINEAR, alpha_per="weight"), "alpha_per must be one of"),
    (lambda: VariationalDropout(LINEAR, init_p_drop=0.6), "above max_alpha=1.0"),
    (lambda: VariationalDropoutB(LINEAR, max_alpha=0.0), "max_alpha must be > 0"),
    (lambda: VariationalDropout(LINEAR, kl_per="row"), "kl_per must be one of"),
    (lambda: ARD(LINEAR, log_alpha_clamp=(8, -8)), "log_alpha_clamp"),
    (lambda: SparseVD(LINEAR, threshold=math.nan), "threshold"),
    (lambda: StructuredDropout(LINEAR, init_p_drop=0.6), "p = init_p_drop = 0.6 must hold"),
    (lambda: StructuredDropout(LINEAR, min_alpha=0.5), "min_alpha"),
    (lambda: StructuredDropout(LINEAR, n_reflections=-1), "n_reflections must be >= 0"),
    (lambda: StructuredDropout(LINEAR, prior="normal"), "prior must be one of"),
    (lambda: HierarchicalDropout(LINEAR, init_std=0.0), "init_std must be positive"),
    (lambda: BinaryDropout(LINEAR, p_drop=1.0), "p_drop must lie in"),
)


def calls_in_the_package(function, *args):
    """The files and names of the package's functions that a call enters, checks among them."""
    calls = []

    def note(frame, event, _):
        if event == "call" and "bdl_lessons" in frame.f_code.co_filename:
            calls.append((frame.f_code.co_filename, frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("inner", [LINEAR, nn.Conv2d(4, 3, 2)], ids=["linear", "conv2d"])
@pytest.mark.parametrize(
    ("method", "n_calls"),
    [(StructuredDropout, 16), (HierarchicalDropout, 18), (SparseVD, 10), (BayesByBackprop, 10)],
)
def test_a_draw_is_few_calls_and_a_method_stands_in_one_file(method, n_calls, inner):
    layer = method(inner)
    x = torch.rand(2, *SHAPES["linear" if inner is LINEAR else "conv2d"])
    layer(x, "per_example", seeded())  # what is remembered from the first call on
    calls = calls_in_the_package(layer, x, "per_example", seeded())
    assert len(calls) <= n_calls, calls
    layers = {file for file, _ in calls if "/layers/" in file}
    assert len(layers) <= (3 if method is HierarchicalDropout else 2), layers
