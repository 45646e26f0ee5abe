from collections import Counter

import pytest
import torch

from bdl_lessons.datasets.records import published_table
from bdl_lessons.models import Deterministic, StochasticLayer
from reproductions import mnist_dropout_curves as curves


def record(method, width, error, seed):
    config = {"method": method, "width": width, "n_epochs": 6}
    return {"config": config, "seed": seed, "metrics": {"error": error}, "arrays": {}}


def test_every_method_is_trained_by_three_schedules():
    trials = curves.trials("paper")
    plans = Counter((t.config["n_epochs"], t.config["width"]) for t in trials)
    short = dict.fromkeys([(6, n) for n in (100, 250, 500, 750)], 21)
    full = (100, 250, 500)
    assert plans == short | {(60, 500): 7} | {(100, width): 21 for width in full}
    assert {t.config["method"] for t in trials[-7:]} == set(curves.METHODS)


@pytest.mark.parametrize("method", curves.METHODS)
def test_the_networks_have_three_hidden_layers_and_the_published_rates(method):
    net = curves.make_network(method, 12, torch.Generator().manual_seed(0))
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
        a = curves.make_network("variational A", 12, torch.Generator().manual_seed(0))
        assert (a.kl() / net.kl()).item() == pytest.approx(3)


def test_the_figure_has_a_line_with_its_own_look_for_every_method():
    records = [
        record(method, width, 1.0 + seed / 10, seed)
        for method in curves.METHODS
        for width in (100, 250)
        for seed in range(2)
    ]
    ours, theirs = curves.figure(records).axes
    assert len(ours.containers) == len(theirs.containers) == 7
    bars = ours.containers[0].lines[2][0].get_segments()  # of two seeds, 0.1 apart
    assert abs(bars[0][1, 1] - bars[0][0, 1]) == pytest.approx(0.1)
    printed = {container.get_label(): container.lines[0] for container in theirs.containers}
    assert len({line.get_color() for line in printed.values()}) == 7
    rows = {row["method"]: row["750"] for row in published_table("mnist_dropout_curves")}
    assert {name: line.get_ydata()[3] for name, line in printed.items()} == rows


@pytest.mark.parametrize(
    ("learned", "holds"), [((1.5, 1.6), 2), ((1.5, 2.0), 1), ((2.0, 2.1), 0), ((1.97, 1.96), 0)]
)
def test_learned_noise_must_be_clearly_better_than_fixed(learned, holds):
    """Two seeds 0.04 apart: a standard error of 0.02 each, so 0.057 is clear."""
    errors = dict(zip(("variational A", "variational A2"), learned, strict=True))
    errors |= {"Gaussian A": 2.0}
    records = [
        record(method, 100, error + 0.02 * sign, sign)
        for method, error in errors.items()
        for sign in (-1, 1)
    ]
    claim, harmless, order = curves.claims(records)
    assert (claim.holds, claim.of) == (holds, 2)
    assert order.of == 3
    assert "-0.98, -0.89 points" in claim.published
    assert harmless.verdict == "not run"


@pytest.mark.parametrize(("learned", "holds"), [(2.05, 1), (2.06, 0)])
def test_learned_noise_may_err_as_much_as_none(learned, holds):
    errors = {"variational A": learned, "none": 2.0}
    records = [record(m, 100, e + 0.02 * sign, sign) for m, e in errors.items() for sign in (-1, 1)]
    harmless = curves.claims(records)[1]
    assert (harmless.holds, harmless.of, harmless.published) == (holds, 1, "-0.02 points")
