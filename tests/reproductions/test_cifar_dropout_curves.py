import numpy as np
import pytest
import torch

from bdl_lessons.core.plot_style import style
from bdl_lessons.models import Deterministic, StochasticLayer
from reproductions import cifar_dropout_curves as curves
from tests.draws import seeded

N_TEST = 20


def record(method, width, wrong, seed=0, data="cifar10-subset"):
    """``wrong``: how many of the test images, the first ones."""
    is_wrong = np.arange(N_TEST) < wrong
    return {
        "config": {
            "data": data,
            "method": method,
            "width": width,
            "n_epochs": 40,
            "batch_size": 100,
            "n_train": 4000,
            "n_test": N_TEST,
        },
        "seed": seed,
        "metrics": {"error": 100 * wrong / N_TEST, "train_error": 10.0},
        "arrays": {"wrong": np.packbits(is_wrong).tolist()},
    }


@pytest.mark.parametrize("method", curves.METHODS)
def test_the_network_has_the_published_widths_and_rates(method):
    net = curves.make_network(method, 0.5, seeded())
    layers = [layer for layer in net if isinstance(layer, StochasticLayer)]
    shapes = [tuple(layer.weight.shape) for layer in layers]
    assert shapes == [(16, 3, 5, 5), (32, 16, 5, 5), (64, 32 * 8 * 8), (64, 64), (10, 64)]
    assert [layer.inner.stride for layer in layers[:2]] == [(2, 2)] * 2
    assert sum(isinstance(module, torch.nn.Softplus) for module in net) == 4
    assert net(torch.rand(2, 3, 32, 32), "mean").shape == (2, 10)
    if method == "none":
        assert {type(layer) for layer in layers} == {Deterministic}
        return
    assert [layer.alpha.item() for layer in layers] == pytest.approx([0.25, 1, 1, 1, 1])
    learned = {hasattr(layer, "raw_log_alpha") for layer in layers}
    assert learned == {method.startswith("variational")}


def test_one_seed_gives_all_methods_the_same_first_weights():
    first, *others = [curves.make_network(method, 0.25, seeded(3)) for method in curves.METHODS]
    for net in others:
        for module, of_first in zip(net, first, strict=True):
            if hasattr(module, "weight"):
                torch.testing.assert_close(module.weight, of_first.weight)


def test_the_error_of_a_difference_joins_seeds_and_images():
    """Two seeds of one width: differences 50 and 0 points; of images 50, 50, 0 and 0."""
    wrong = np.array([[[1, 1, 0, 0]], [[0, 0, 0, 0]]])
    gap = curves.difference(wrong, np.zeros_like(wrong))
    assert gap.mean == pytest.approx(25)
    var_of_seeds = 1250 / 2
    var_of_images = 10_000 / 12 / 4
    assert gap.error == pytest.approx((var_of_seeds + var_of_images) ** 0.5)
    of_one_seed = curves.difference(wrong[:1], np.zeros((1, 1, 4)))
    assert of_one_seed.error == pytest.approx((10_000 / 3 / 4) ** 0.5)


def test_every_data_set_has_a_panel_of_its_own():
    records = [
        record(method, width, 3 + seed, seed, data=data)
        for data in ("cifar10-subset", "cifar10")
        for method in curves.METHODS
        for width in (0.5, 1)
        for seed in range(2)
    ]
    with style():
        few, whole = curves.figure(records).axes
    assert whole.get_title("left") == "All of CIFAR-10"
    assert len(few.containers) == len(whole.containers) == 5
    assert few.containers[0].lines[0].get_ydata() == pytest.approx([17.5, 17.5])
    assert "### All of CIFAR-10" in curves.table(records)
