from collections import Counter

import pytest

from bdl_lessons.datasets.records import published_table
from bdl_lessons.models import Deterministic, StochasticLayer
from reproductions import mnist_dropout_curves as curves
from tests.draws import seeded


def record(method, width, error, seed):
    config = {"method": method, "width": width, "n_epochs": 6}
    return {"config": config, "seed": seed, "metrics": {"error": error}, "arrays": {}}


def test_every_method_is_trained_by_three_schedules():
    configs = [trial.config for trial in curves.trials("paper")]
    numbers = Counter((config["n_epochs"], config["width"]) for config in configs)
    assert numbers == {
        (6, 100): 21,
        (6, 250): 21,
        (6, 500): 21,
        (6, 750): 21,
        (60, 500): 7,
        (100, 100): 21,
        (100, 250): 21,
        (100, 500): 21,
    }
    assert {config["method"] for config in configs[-7:]} == set(curves.METHODS)


@pytest.mark.parametrize("method", curves.METHODS)
def test_the_networks_have_three_hidden_layers_and_the_published_rates(method):
    net = curves.make_network(method, 12, seeded())
    layers = [layer for layer in net if isinstance(layer, StochasticLayer)]
    shapes = [tuple(layer.weight.shape) for layer in layers]
    assert shapes == [(12, 784), (12, 12), (12, 12), (10, 12)]
    if method == "binary":
        assert [layer.p_drop for layer in layers] == [0.2, 0.5, 0.5, 0.5]
    elif method == "none":
        assert {type(layer) for layer in layers} == {Deterministic}
    else:
        alphas = [layer.alpha.item() for layer in layers]
        assert alphas == pytest.approx([0.25, 1, 1, 1])
        learned = {hasattr(layer, "raw_log_alpha") for layer in layers}
        assert learned == {method.startswith("variational")}
    if method == "variational A2":
        net_a = curves.make_network("variational A", 12, seeded())
        assert (net_a.kl() / net.kl()).item() == pytest.approx(3)


def test_the_figure_has_a_line_with_its_own_look_for_every_method():
    records = [
        record(method, width, 1.0 + seed / 10, seed)
        for method in curves.METHODS
        for width in (100, 250)
        for seed in range(2)
    ]
    ours, theirs = curves.figure(records).axes
    assert len(ours.containers) == len(theirs.containers) == 7
    _, _, (bars,) = ours.containers[0].lines
    lower, upper = bars.get_segments()[0][:, 1]  # of two seeds, 0.1 apart
    assert upper - lower == pytest.approx(0.1)
    colours = set()
    with_750_units = {}
    for container in theirs.containers:
        line, _, _ = container.lines
        colours.add(line.get_color())
        with_750_units[container.get_label()] = line.get_ydata()[3]
    assert len(colours) == 7
    rows = published_table("mnist_dropout_curves")
    assert with_750_units == {row["method"]: row["750"] for row in rows}


def two_seeds(errors):
    """Records of each method with 100 units, 0.04 apart: a standard error of 0.02."""
    records = []
    for method, error in errors.items():
        records.append(record(method, 100, error - 0.02, seed=0))
        records.append(record(method, 100, error + 0.02, seed=1))
    return records


@pytest.mark.parametrize(
    ("learned", "holds"), [((1.5, 1.6), 2), ((1.5, 2.0), 1), ((2.0, 2.1), 0), ((1.97, 1.96), 0)]
)
def test_learned_noise_must_be_clearly_better_than_fixed(learned, holds):
    """Standard errors of 0.02 each, so 0.057 is clear."""
    error_a, error_a2 = learned
    errors = {"variational A": error_a, "variational A2": error_a2, "Gaussian A": 2.0}
    claim, harmless, order = curves.claims(two_seeds(errors))
    assert claim.holds == holds
    assert claim.of == 2
    assert order.of == 3
    assert "-0.98, -0.89 points" in claim.published
    assert harmless.verdict == "not run"


@pytest.mark.parametrize(("learned", "holds"), [(2.05, 1), (2.06, 0)])
def test_learned_noise_may_err_as_much_as_none(learned, holds):
    records = two_seeds({"variational A": learned, "none": 2.0})
    _, harmless, _ = curves.claims(records)
    assert harmless.holds == holds
    assert harmless.of == 1
    assert harmless.published == "-0.02 points"
