"""The playground's JavaScript by itself: gradients, random numbers, training and data."""

import math

import pytest
import torch

METHODS = ["weight_decay", "dropout", "variational", "structured"]
LIMIT = 3


def settings(method, **changes):
    start = {"n_inputs": 1, "width": 4, "depth": 2, "activation": "tanh", "method": method}
    return start | {"p_drop": 0.3, "n_reflections": 2} | changes


@pytest.mark.parametrize("method", METHODS)
def test_gradients_are_finite_differences(run_js, method):
    generator = torch.Generator().manual_seed(1)

    def normal(n):
        return torch.randn(n, generator=generator, dtype=torch.float64).tolist()

    shapes = [(4, 1), (4, 4), (1, 4)]
    layers = []
    for index, (n_out, n_in) in enumerate(shapes):
        layer = {"weight": normal(n_out * n_in), "bias": normal(n_out)}
        if index and method in ("variational", "structured"):
            layer["log_alpha"] = [-1 - value**2 for value in normal(n_in)]
        if index and method == "structured":
            layer["vectors"] = normal(2 * n_in)
        layers.append(layer)
    noise = [None, None, None]
    if method != "weight_decay":
        draws = [torch.rand(5 * 4, generator=generator).tolist() for _ in range(2)]
        noise = [None, *draws]

    def run():
        return run_js(
            "train",
            settings=settings(method),
            layers=layers,
            data={"x": [-2.0, -1.0, 0.1, 0.7, 2.5], "y": [1.0, 0.0, 1.0, 0.5, -1.0]},
            noise=[noise],
            objective={"tau": 4.0, "kl_weight": 0.7},
            lr=0.0,
            n_steps=1,
        )

    gradients = run()["gradients"]
    step = 1e-5
    for number, layer in enumerate(layers):
        assert gradients[number].keys() == layer.keys()
        for name, values in layer.items():
            index = len(values) // 2
            middle = values[index]
            losses = []
            for moved in (middle + step, middle - step):
                values[index] = moved
                losses.append(run()["losses"]["loss"])
            values[index] = middle
            slope = (losses[0] - losses[1]) / (2 * step)
            assert gradients[number][name][index] == pytest.approx(slope, rel=1e-5, abs=1e-7), name


def test_random_numbers_have_their_distributions(run_js):
    n = 20_000
    numbers = run_js("random", seed=3, n=n)
    uniform = torch.tensor(numbers["uniform"])
    normal = torch.tensor(numbers["normal"])
    assert 0 <= uniform.min() < 0.01
    assert 0.99 < uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 5 * math.sqrt(1 / 12 / n)
    assert abs(normal.mean()) < 5 / math.sqrt(n)
    assert abs(normal.var() - 1) < 5 * math.sqrt(2 / n)
    lagged = (normal[1:] * normal[:-1]).mean()
    assert abs(lagged) < 5 / math.sqrt(n)


def test_ready_sets_lie_on_the_plot_and_survive_the_address(run_js):
    sets = run_js("readySets")
    assert len(sets) == 6
    for name, ready in sets.items():
        assert ready["back"] == ready["points"], name
        assert all(abs(point[axis]) < LIMIT for point in ready["points"] for axis in "xy"), name


def trained(run_js, **changes):
    case = {
        "settings": settings("dropout", width=16, depth=1, activation="relu", p_drop=0.1),
        "n_functions": 20,
        "seed": 1,
        "task": "curve",
        "points": run_js("readySets")["curve gap"]["points"],
        "objective": {"tau": 100.0, "kl_weight": 0.1},
        "lr": 0.01,
        "n_steps": 1,
        "x": [-1.5, 0.0, 1.5],
    }
    case["settings"] |= changes.pop("settings", {})
    return run_js("model", **(case | changes))


@pytest.mark.parametrize("method", [*METHODS, "ensemble"])
def test_training_lowers_the_loss_and_equal_seeds_agree(run_js, method):
    first = trained(run_js, settings={"method": method})
    last = trained(run_js, settings={"method": method}, n_steps=300)
    assert last["steps"] == 300
    assert last["last"]["nll_mean"] < first["last"]["nll_mean"] - 1
    assert last == trained(run_js, settings={"method": method}, n_steps=300)
    assert len(last["draws"]) == {"weight_decay": 1, "ensemble": 5}.get(method, 20)
    assert (len({tuple(draw) for draw in last["draws"]}) == 1) == (method == "weight_decay")
