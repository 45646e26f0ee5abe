"""What holds for the layers of every method, as one table over the registry of methods.

A row is a method with its linear or convolutional layer. What a method draws and what its KL is,
its own tests say.
"""

import copy
import inspect
import math
import pickle
import sys
from typing import NamedTuple

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
KINDS = ("linear", "conv2d")
ROWS = [(name, kind) for name in METHODS for kind in KINDS]
ROW_IDS = [f"{name}, {kind}" for name, kind in ROWS]
NOT_RANDOM = {"MAP"}
JOINT = ("MNF", "ELRG", "VMG")  # distributions of all weights together
LINEAR = nn.Linear(4, 3)
LOG_ALPHA = [name for name, method in METHODS.items() if method.learns_alpha]
MODES = ("per_example", "shared", "mean")
SHAPES = {"linear": (4,), "conv2d": (4, 5, 4)}

rows = pytest.mark.parametrize(("name", "kind"), ROWS, ids=ROW_IDS)


def layer_of(name, kind, dtype=torch.float64, seed=1, **options):
    """A layer from 4 to 3 units or channels whose noise is not small, and started by a seed."""
    if kind == "linear":
        inner = nn.Linear(4, 3, **options)
    else:
        inner = nn.Conv2d(4, 3, kernel_size=2, **options)
    network = Network(METHODS[name].layer(inner))
    initialise(network, seeded(seed))
    (layer,) = network
    with torch.no_grad():
        if layer.bias is not None:
            layer.bias.copy_(torch.linspace(-1, 1, 3))
        for parameter_name, noise in layer.named_parameters():
            if parameter_name.endswith(("log_sigma2", "raw_log_alpha")):  # off the bounds
                values = torch.linspace(-3, -0.2, noise.numel())
                noise.copy_(values.view_as(noise))
    return layer.to(dtype)


def inputs(kind, *leading):
    """Inputs of both signs, in double precision, with the leading axes in front."""
    shape = (*leading, *SHAPES[kind])
    return torch.rand(shape, generator=seeded(2), dtype=torch.float64) - 0.3


def all_equal(rows):
    first = rows[:1]
    return torch.allclose(rows, first.expand_as(rows))


@rows
def test_each_mode_shares_its_draws_among_the_right_examples(name, kind):
    """Twelve samples of five examples are all equal: only a draw makes their outputs differ."""
    layer = layer_of(name, kind)
    is_random = name not in NOT_RANDOM
    x = inputs(kind).expand(12, 5, *SHAPES[kind])

    per_example = layer(x, "per_example", seeded())
    differs_within_a_sample = [not all_equal(examples) for examples in per_example]
    assert any(differs_within_a_sample) is is_random
    assert all_equal(per_example[:, 0]) is not is_random

    shared = layer(x, "shared", seeded())
    for examples in shared:
        assert all_equal(examples)
    assert all_equal(shared[:, 0]) is not is_random

    mean = layer(x, "mean", seeded())
    assert all_equal(mean.flatten(0, 1))

    without_sample_axis = layer(x[0], "shared", seeded())
    assert without_sample_axis.shape == shared[0].shape
    assert all_equal(without_sample_axis)


@rows
@pytest.mark.parametrize("mode", MODES)
def test_a_seed_fixes_the_draw_and_training_mode_does_not_matter(name, kind, mode):
    layer = layer_of(name, kind)
    x = inputs(kind, 6)
    layer.train()
    in_training = layer(x, mode, seeded(3))
    layer.eval()
    in_evaluation = layer(x, mode, seeded(3))
    torch.testing.assert_close(in_evaluation, in_training)

    is_drawn = mode != "mean" and name not in NOT_RANDOM
    other_seeds = range(4, 24)  # many, because two masks of four units often agree
    other_outputs = [layer(x, mode, seeded(seed)) for seed in other_seeds]
    differs = [not torch.allclose(output, in_training) for output in other_outputs]
    assert any(differs) is is_drawn


@rows
def test_shared_is_one_matrix_of_weights_for_each_sample(name, kind):
    """Then a layer is linear but for its bias, which its output for zeros is."""
    layer = layer_of(name, kind)

    def output(x):
        return layer(x, "shared", seeded(4))

    a = inputs(kind, 5, 6)
    b = a.flip(1)
    bias = output(torch.zeros_like(a))
    torch.testing.assert_close(output(a) + output(b), output(a + b) + bias)


class Moments(NamedTuple):
    """Mean and variance of each output over draws, and the standard errors of both."""

    mean: torch.Tensor
    var: torch.Tensor
    mean_error: torch.Tensor
    var_error: torch.Tensor


def moments_of(draws):
    """The error of a variance follows from the fourth moment."""
    n_draws = len(draws)
    mean = draws.mean(0)
    var = draws.var(0)
    fourth_moment = (draws - mean).pow(4).mean(0)
    var_of_squares = (fourth_moment - var.square()).clamp_min(0)
    return Moments(
        mean=mean,
        var=var,
        mean_error=var.sqrt() / n_draws**0.5,
        var_error=var_of_squares.sqrt() / n_draws**0.5,
    )


def is_within_errors(difference, std_error):
    return bool((difference.abs() <= 5.5 * std_error + 1e-9).all())


@rows
def test_an_example_has_the_same_moments_under_both_ways_to_draw(name, kind):
    """The mean is that of the mean weights, but for relaxed masks and flows."""
    layer = layer_of(name, kind)
    x = inputs(kind).expand(4_000, 1, *SHAPES[kind])

    def draws(mode):
        of_the_example = layer(x, mode, seeded(5))[:, 0]
        return of_the_example.flatten(1)

    with torch.no_grad():
        per_example = moments_of(draws("per_example"))
        shared = moments_of(draws("shared"))
        by_mean_weights = layer(x[:1], "mean")[0].flatten()
    assert is_within_errors(
        per_example.mean - shared.mean,
        std_error=per_example.mean_error + shared.mean_error,
    )
    assert is_within_errors(
        per_example.var - shared.var,
        std_error=per_example.var_error + shared.var_error,
    )
    if not name.startswith(("MNF", "concrete")):
        assert is_within_errors(
            per_example.mean - by_mean_weights, std_error=per_example.mean_error
        )


class OutputAndKL(nn.Module):
    """Output and KL of a layer, for ``functional_call``."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, mode):
        generator = seeded(6)
        self.layer(x, "shared", generator)  # from here the KL of MNF is drawn
        output = self.layer(x, mode, generator)
        return output, self.layer.kl()


@rows
@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_those_of_finite_differences(name, kind, mode):
    layer = layer_of(name, kind)
    x = inputs(kind, 2)
    output_and_kl = OutputAndKL(layer)
    learned = {
        parameter_name: parameter.detach()
        for parameter_name, parameter in output_and_kl.named_parameters()
        if parameter.requires_grad
    }

    def results(x, *values):
        parameters = dict(zip(learned, values, strict=True))
        return torch.func.functional_call(output_and_kl, parameters, args=(x, mode))

    leaves = [leaf.clone().requires_grad_() for leaf in (x, *learned.values())]
    assert torch.autograd.gradcheck(results, leaves, fast_mode=True, atol=1e-4)


@rows
def test_the_kl_is_one_number_and_inputs_of_zeros_have_finite_gradients(name, kind):
    layer = layer_of(name, kind, torch.float32)
    x = torch.zeros(3, *SHAPES[kind], requires_grad=True)
    total_output = layer(x, "per_example", seeded()).sum()
    kl = layer.kl()
    assert kl.shape == ()
    kl_is_an_estimate = name.startswith("MNF")
    assert kl > 0 or kl_is_an_estimate

    (total_output + kl).backward()
    leaves = [x, *layer.parameters()]
    gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
    assert gradients
    for gradient in gradients:
        assert gradient.isfinite().all()


@rows
def test_batched_networks_do_what_their_networks_do_and_draw_noise_of_their_own(name, kind):
    first = Network(layer_of(name, kind, seed=0))
    second = Network(layer_of(name, kind, seed=1))
    batched = BatchedNetworks([first, second])
    x = inputs(kind, 2, 6)
    expected = torch.stack([first(x[0], "mean"), second(x[1], "mean")])
    torch.testing.assert_close(batched(x, "mean"), expected)
    if not name.startswith("MNF"):
        expected_kl = torch.stack([first.kl(), second.kl()])
        torch.testing.assert_close(batched.kl(), expected_kl)

    equal_networks = BatchedNetworks([first, first])
    equal_inputs = x[:1].expand_as(x)
    outputs = equal_networks(equal_inputs, "per_example", seeded())
    assert outputs.shape == expected.shape
    assert all_equal(outputs) is (name in NOT_RANDOM)


@pytest.mark.parametrize("name", METHODS)
def test_a_convolution_keeps_its_stride_padding_and_missing_bias(name):
    make_layer = METHODS[name].layer
    linear = make_layer(nn.Linear(3, 4, bias=False))
    assert linear.bias is None

    convolution = make_layer(nn.Conv2d(3, 4, kernel_size=5, stride=2, padding=1, bias=False))
    assert convolution.bias is None
    batch = torch.randn(2, 3, 9, 9)
    samples = torch.randn(5, 2, 3, 9, 9)
    for mode in MODES:
        assert convolution(batch, mode, seeded()).shape == (2, 4, 4, 4)
        assert convolution(samples, mode, seeded()).shape == (5, 2, 4, 4, 4)
    assert convolution.kl().shape == ()


@rows
def test_shapes_that_do_not_fit_are_refused(name, kind):
    layer = layer_of(name, kind, torch.float32)
    counted = {"linear": "units", "conv2d": "channels"}[kind]
    one_instead_of_four = (1, *SHAPES[kind][1:])
    for leading in [(5,), (2, 5), ()]:
        x = torch.zeros(*leading, *one_instead_of_four)
        with pytest.raises(ValueError, match=f"4 input {counted} on axis -., got shape"):
            layer(x, "per_example", seeded())

    for too_few_or_too_many_axes in [(), (2, 2, 2)]:
        x = torch.zeros(*too_few_or_too_many_axes, *SHAPES[kind])
        with pytest.raises(ValueError, match="with a sample axis"):
            layer(x, "shared", seeded())


@pytest.mark.parametrize("name", LOG_ALPHA)
@pytest.mark.parametrize("kind", KINDS)
def test_layers_with_learned_noise_have_a_log_alpha(name, kind):
    layer = layer_of(name, kind)
    torch.testing.assert_close(layer.alpha, layer.log_alpha.exp())
    layer.log_alpha.sum().backward()
    has_gradient = [
        parameter.grad is not None and bool(parameter.grad.all())
        for parameter_name, parameter in layer.named_parameters()
        if parameter_name.endswith(("alpha", "sigma2"))
    ]
    assert any(has_gradient), (
        "learned noise is a parameter called raw_log_alpha or log_sigma2, which log_alpha follows"
    )
    if isinstance(layer, WeightNoise):
        relative_var = layer.weight_var() / layer.mu.square()
        torch.testing.assert_close(layer.alpha.expand_as(relative_var), relative_var)


@rows
@pytest.mark.parametrize("mode", MODES)
def test_the_bias_has_no_noise(name, kind, mode):
    """Inputs of zeros leave the bias alone, however large the noise is."""
    layer = layer_of(name, kind)
    if isinstance(layer, WeightNoise) or name.startswith(JOINT):
        pytest.skip("noise on weights: the bias may be one of them")
    x = torch.zeros(6, *SHAPES[kind], dtype=torch.float64)
    y = layer(x, mode, seeded(3))
    bias = layer.bias
    if kind == "conv2d":
        bias = bias[:, None, None]
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
    parameters = inspect.signature(method).parameters
    defaults = {
        name: parameter.default
        for name, parameter in parameters.items()
        if parameter.default is not parameter.empty
    }
    assert defaults == DEFAULTS[method]


@rows
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_kl_of_half_weights_is_a_sum_in_float32(name, kind, dtype):
    """The weights of a wide layer: the sum of their squares is no number of float16."""
    if name.startswith(JOINT):
        pytest.skip("not taught: these are trained in float32 alone")
    layer = layer_of(name, kind, torch.float32)
    with torch.no_grad():
        layer.weight.copy_(1000 * layer.weight.to(dtype))
    expected = layer.kl()
    layer.to(dtype)
    kl = layer.kl()
    assert kl.dtype == torch.float32, "a KL sums core.devices.single(...) of its parameters"
    torch.testing.assert_close(kl, expected, rtol=0.02, atol=0)


@rows
def test_a_layer_survives_copying_pickling_and_its_state(name, kind):
    layer = layer_of(name, kind)
    x = inputs(kind, 6)
    expected = layer(x, "per_example", seeded(3))
    copied = copy.deepcopy(layer)
    unpickled = pickle.loads(pickle.dumps(layer))
    loaded = layer_of(name, kind, seed=2)
    loaded.load_state_dict(layer.state_dict())
    for twin in (copied, unpickled, loaded):
        output = twin(x, "per_example", seeded(3))
        torch.testing.assert_close(output, expected)


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

    def record(frame, event, _):
        code = frame.f_code
        if event == "call" and "bdl_lessons" in code.co_filename:
            calls.append((code.co_filename, code.co_qualname))

    sys.setprofile(record)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("inner", "kind"), [(LINEAR, "linear"), (nn.Conv2d(4, 3, 2), "conv2d")], ids=KINDS
)
@pytest.mark.parametrize(
    ("method", "most_calls", "most_files"),
    [
        (StructuredDropout, 16, 2),
        (HierarchicalDropout, 18, 3),
        (SparseVD, 10, 2),
        (BayesByBackprop, 10, 2),
    ],
)
def test_a_draw_is_few_calls_and_a_method_stands_in_one_file(
    method, most_calls, most_files, inner, kind
):
    """The first call is not counted: it computes what later calls remember."""
    layer = method(inner)
    x = torch.rand(2, *SHAPES[kind])
    layer(x, "per_example", seeded())
    calls = calls_in_the_package(layer, x, "per_example", seeded())
    assert len(calls) <= most_calls, calls
    layer_files = {file for file, _ in calls if "/layers/" in file}
    assert len(layer_files) <= most_files, layer_files
