import importlib

import pytest
import torch
from scipy.stats import chi2, kstest
from torch import nn

from bdl_lessons.inference import predict, predict_mean
from bdl_lessons.models import (
    BayesByBackprop,
    BinaryDropout,
    Deterministic,
    GaussianDropout,
    Network,
    initialise,
    lenet5,
    mlp,
)
from bdl_lessons.probability import all_masks, mask_probs

P_DROP = 0.3
PLAIN, DROP = Deterministic(), BinaryDropout(P_DROP)

# the name of the module is also a function
module = importlib.import_module("bdl_lessons.inference.prediction")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def tiny(activation=nn.ReLU):
    """3 hidden and 2 second hidden units: 32 sub-networks."""
    torch.manual_seed(1)
    return mlp((2, 3, 2, 1), [PLAIN, DROP, DROP], activation).double()


def sub_networks(model, x):
    """Outputs of all 32 sub-networks at ``x``, ``(32, B, 1)``, and their probabilities."""
    first, _, second, _, third = model
    outputs, probs = [], []
    for z in all_masks(5):
        h = model[1](first(x, "mean")) * z[:3] / (1 - P_DROP)
        h = model[3](second(h, "mean")) * z[3:] / (1 - P_DROP)
        outputs.append(third(h, "mean"))
        probs.append(mask_probs(z, P_DROP))
    return torch.stack(outputs).detach(), torch.stack(probs)


@pytest.mark.parametrize("n_rows", [2, 80])  # expanded batch, and kept units only
@pytest.mark.parametrize("sampling", ["per_example", "shared"])
def test_outputs_are_distributed_as_the_enumerated_sub_networks(n_rows, sampling):
    model = tiny(nn.Tanh)  # under tanh no two sub-networks agree
    x = torch.tensor([0.7, -0.4], dtype=torch.float64).expand(n_rows, 2)
    members, probs = sub_networks(model, x[:1])
    n_samples = 4000 if sampling == "shared" else 8000 // n_rows
    draws = predict(model, x, n_samples, sampling, generator=generator(3))
    draws = draws[:, :1] if sampling == "shared" else draws.reshape(-1, 1, 1)
    distance = (draws[:, None] - members).abs()[..., 0, 0]
    assert distance.amin(1).max() < 1e-12
    outputs = members.flatten().sort().values  # some sub-networks have one output
    distinct = outputs[outputs.diff(prepend=outputs[:1] - 1) > 1e-9]
    near = [((values.flatten() - distinct[:, None]).abs() < 1e-9) for values in (members, draws)]
    expected, counts = near[0].double() @ probs, near[1].sum(1)
    statistic = ((counts - len(draws) * expected) ** 2 / (len(draws) * expected)).sum()
    assert statistic < chi2.ppf(1 - 1e-4, len(distinct) - 1)


@pytest.mark.parametrize("n_rows", [5, 80])
def test_a_function_draw_is_one_sub_network_at_every_row(n_rows):
    model, x = tiny(), torch.randn(n_rows, 2, generator=generator(4), dtype=torch.float64)
    members, _ = sub_networks(model, x)
    draws = predict(model, x, 20, "shared", generator=generator(5))
    distance = (draws[:, None] - members).abs().flatten(2).amax(2).amin(1)
    assert distance.max() < 1e-12
    assert torch.pdist(draws.flatten(1)).max() > 1e-6


def test_example_draws_differ_between_rows_and_are_uncorrelated():
    model = mlp((1, 50, 50, 1), [PLAIN, DROP, DROP])
    draws = predict(model, torch.ones(2, 1), 4000, "per_example", generator=generator(6))
    assert abs(torch.corrcoef(draws[..., 0].T)[0, 1]) < 0.07
    same = predict(model, torch.ones(2, 1), 50, "shared", generator=generator(6))
    torch.testing.assert_close(same[:, 0], same[:, 1])


@pytest.mark.parametrize("sampling", ["per_example", "shared"])
@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
def test_same_distribution_as_a_loop_of_calls(sampling, activation):
    torch.manual_seed(2)
    model = mlp((4, 64, 64, 1), [DROP, DROP, DROP], activation)
    x = torch.randn(1, 4, generator=generator(7)).expand(70, 4)
    loop_generator = generator(8)
    loop = torch.stack([model(x[:1], sampling, loop_generator) for _ in range(1500)]).detach()
    draws = predict(model, x, 1500, sampling, generator=generator(9))[:, 0]
    assert kstest(loop.flatten(), draws.flatten()).pvalue > 1e-3


def test_chunks_do_not_change_functions():
    model = mlp((4, 30, 30, 2), [PLAIN, DROP, DROP])
    x = torch.randn(150, 4, generator=generator(10))
    whole, chunked, small = (
        predict(model, x, 12, "shared", generator=generator(11), chunk_rows=rows)
        for rows in (None, 70, 7)
    )
    torch.testing.assert_close(whole, chunked)
    torch.testing.assert_close(whole, small)


@pytest.mark.parametrize(("layers", "sliced"), [(DROP, True), (GaussianDropout(0.5), False)])
def test_weights_are_sliced_only_where_noise_drops_units(layers, sliced, monkeypatch):
    calls, original = [], module.sub_network
    monkeypatch.setattr(module, "sub_network", lambda *a: calls.append(a) or original(*a))
    predict(mlp((4, 30, 2), layers), torch.ones(70, 4), 3, "shared", generator=generator())
    assert bool(calls) is sliced


@pytest.mark.parametrize("chunk_rows", [None, 3])
@pytest.mark.parametrize("sampling", ["per_example", "shared"])
@pytest.mark.parametrize("layers", [[PLAIN, PLAIN, PLAIN, DROP], [DROP] * 4, [PLAIN] * 4])
def test_convolutional_networks(sampling, layers, chunk_rows):
    torch.manual_seed(0)
    model = lenet5(layers)
    x = torch.randn(1, 1, 28, 28, generator=generator(12)).expand(5, 1, 28, 28)
    draws = predict(model, x, 4, sampling, generator=generator(13), chunk_rows=chunk_rows)
    assert draws.shape == (4, 5, 10)
    shared = torch.allclose(draws, draws[:, :1].expand_as(draws), atol=1e-5)
    assert shared == (sampling == "shared" or layers == [PLAIN] * 4)
    assert (draws[0, 0] - draws[1, 0]).abs().max() > 1e-4 or layers == [PLAIN] * 4


def test_a_noisy_layer_between_others_gets_all_its_inputs():
    """Kept-unit slicing must stop where a module mixes units or a layer has no noise."""
    torch.manual_seed(3)
    model = Network(
        DROP.linear(6, 8), nn.LayerNorm(8), DROP.linear(8, 5), PLAIN.linear(5, 4), DROP.linear(4, 3)
    )
    x = torch.randn(100, 6, generator=generator(14))
    sliced = predict(model, x, 9, "shared", generator=generator(15))
    expanded = predict(model, x, 9, "shared", generator=generator(15), chunk_rows=10)
    torch.testing.assert_close(sliced, expanded)


@pytest.mark.parametrize("sampling", ["per_example", "shared"])
def test_streamed_mean_is_the_mean_of_the_draws(sampling):
    model, x = mlp((4, 20, 3), DROP), torch.randn(90, 4, generator=generator(16))
    draws = predict(model, x, 15, sampling, generator=generator(17))
    streamed = predict_mean(
        model, x, 15, lambda logits: logits.softmax(-1), sampling, generator=generator(17)
    )
    torch.testing.assert_close(streamed, draws.softmax(-1).mean(0))


def test_training_mode_and_gradients_are_left_alone():
    model = mlp((2, 4, 1), DROP).train()
    draws = predict(model, torch.ones(3, 2), 2, generator=generator())
    assert model.training
    assert not draws.requires_grad


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"n_samples": 0}, ValueError, "n_samples"),
        ({"chunk_rows": 0}, ValueError, "chunk_rows"),
        ({"sampling": "mean"}, ValueError, "nothing to draw"),
        ({"sampling": "rows"}, TypeError, "sampling"),
        ({"generator": None}, TypeError, "generator"),
        ({"model": nn.Linear(2, 1)}, TypeError, "Network"),
        ({"x": torch.full((3, 2), float("nan"))}, ValueError, "finite"),
        ({"x": torch.ones(0, 2)}, ValueError, "examples"),
        ({"n_samples": 2.5}, TypeError, "n_samples"),
        ({"chunk_rows": 2.5}, TypeError, "chunk_rows"),
    ],
)
def test_bad_arguments_are_named(change, error, words):
    arguments = {
        "model": mlp((2, 4, 1), DROP),
        "x": torch.ones(3, 2),
        "n_samples": 2,
        "sampling": "per_example",
        "generator": generator(),
    }
    with pytest.raises(error, match=words):
        predict(**(arguments | change))


@pytest.mark.parametrize("sampling", ["per_example", "shared"])
@pytest.mark.parametrize("n_rows", [3, 100])
@pytest.mark.parametrize("width", [1, 3, 5, 9])
@pytest.mark.parametrize(
    "function", [predict, lambda *a, **k: predict_mean(*a[:3], abs, a[3], **k)]
)
def test_a_wrong_width_is_refused(function, width, n_rows, sampling):
    model = mlp((4, 50, 1), BinaryDropout(0.5))
    with pytest.raises(ValueError, match=rf"x of shape \({n_rows}, {width}\) does not fit"):
        function(model, torch.ones(n_rows, width), 5, sampling, generator=generator())


def test_layers_that_do_not_fit_each_other_are_refused():
    model = Network(DROP.linear(4, 60), nn.ReLU(), DROP.linear(50, 1))
    with pytest.raises(ValueError, match="does not fit"):
        predict(model, torch.ones(100, 4), 5, "shared", generator=generator())


@pytest.mark.parametrize("layers", [DROP, [PLAIN, DROP, DROP], [DROP, PLAIN, DROP]])
def test_the_sub_networks_agree_with_stacked_forward_passes(layers, monkeypatch):
    torch.manual_seed(4)
    model = mlp((6, 40, 30, 2), layers)
    x = torch.randn(90, 6, generator=generator(18))
    fast = predict(model, x, 7, "shared", generator=generator(19))
    monkeypatch.setattr(module, "drops_units", lambda draws: False)
    torch.testing.assert_close(predict(model, x, 7, "shared", generator=generator(19)), fast)
    g = generator(19)  # and with the definition: T forward passes
    draws = {m: m.sample_weights(7, g) for m in model if getattr(m, "is_random", False)}
    h = x.expand(7, 90, 6)
    for m in model:
        h = m.forward_with(h, draws[m]) if m in draws else m(h, *["mean"] * hasattr(m, "noise"))
    torch.testing.assert_close(h.detach(), fast)


def test_memory_is_bounded_by_bytes(monkeypatch):
    """With room for one draw of the weights at a time, or for one example, as one by one."""
    net = initialise(mlp((3, 8, 2), BayesByBackprop(init_log_sigma2=-2.0)), generator())
    x = torch.randn(5, 3, generator=generator(1))
    monkeypatch.setattr(module, "_BYTES", 1)
    g = generator(2)
    alone = torch.cat([predict(net, x, 1, "shared", generator=g) for _ in range(4)])
    torch.testing.assert_close(predict(net, x, 4, "shared", generator=generator(2)), alone)
    rows = predict(net, x, 4, generator=generator(2), chunk_rows=1)
    torch.testing.assert_close(predict(net, x, 4, generator=generator(2)), rows)
    means = predict_mean(net, x, 4, torch.exp, "shared", generator=generator(2))
    torch.testing.assert_close(means, alone.exp().mean(0))


@pytest.mark.parametrize("axis", [0, 1])
def test_a_function_that_averages_by_itself_is_refused(axis):
    with pytest.raises(ValueError, match="function must keep the axes of draws and examples"):
        predict_mean(
            mlp((2, 4, 1), DROP),
            torch.ones(3, 2),
            5,
            lambda f: f.mean(axis, keepdim=True),
            generator=generator(),
        )
