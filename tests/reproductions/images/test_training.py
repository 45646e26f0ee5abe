from dataclasses import replace

import pytest
import torch

from bdl_lessons.models import StochasticLayer
from reproductions.images import classification
from reproductions.images.training import METHODS, make_network
from reproductions.images.training import train as train_network

CONFIG = {
    "patience": 10,
    "n_draws_per_epoch": 2,
    "prior_precision": 1.0,
    "architecture": "LeNet5",
    "epochs": 6,
    "batch_size": 16,
    "learning_rate": 5e-3,
    "warm_up_epochs": 2,
    "kl_weight": 0.01,
}
SETTINGS = {method: tried[0] for method, tried in classification.GRID.items()}


def config(method, **changes):
    return {**CONFIG, **SETTINGS[method], "method": method, "kl_weight": 0.01, **changes}


def halves(n_rows=96):
    """Images that are bright above or below, with a little noise: two classes."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n_rows) % 2
    x = 0.3 * torch.randn(n_rows, 1, 28, 28, generator=generator)
    x[y == 0, :, :14] += 1
    x[y == 1, :, 14:] += 1
    return x, y


def train(config, x, y, n_classes, generator):
    """The draws of a network that is validated on what it is trained on."""
    return train_network(config, x, y, (x, y), n_classes, generator).logits


@pytest.mark.parametrize("method", SETTINGS)
def test_every_method_learns_and_draws_functions(method):
    x, y = halves()
    n_networks = SETTINGS[method].get("n_networks")
    changes = {"n_networks": 2} if n_networks else {}
    logits = train(config(method, **changes), x, y, 2, torch.Generator().manual_seed(1))
    draws = logits(x, 4)
    assert draws.shape == ({"MAP": 1, "D.E": 2}.get(method, 4), len(x), 2)
    assert (draws.softmax(-1).mean(0).argmax(-1) == y).double().mean() > 0.9
    if method != "MAP":
        assert (draws[0] - draws[1]).abs().max() > 1e-3


@pytest.mark.parametrize("architecture", ["LeNet5", "AlexNet", "ResNet18"])
def test_unit_noise_spares_the_pixels_and_nothing_else(architecture):
    for method in ("MCD", "VSD T=1", "BBB-LRT"):
        net = make_network(config(method, architecture=architecture), 3, 32, 10)
        layers = [
            m for m in net.modules() if isinstance(m, StochasticLayer) and hasattr(m, "weight")
        ]
        assert [layer.is_random for layer in layers[1:]] == [True] * (len(layers) - 1)
        assert layers[0].is_random == ("unit" not in METHODS[method].tags)


def test_map_pays_for_the_size_of_its_weights():
    net = make_network(config("MAP", prior_precision=30.0), 1, 28, 10)
    expected = sum(30.0 * p.square().sum() / 2 for p in net.parameters())
    torch.testing.assert_close(net.kl(), expected)


@pytest.mark.parametrize(
    ("method", "n_networks"), [("MAP", 1), ("D.E", 2), ("SWAG", 1), ("SLANG", 1)]
)
def test_every_network_follows_its_validation_images(method, n_networks):
    """Wrong labels on held-out images: they fit best before anything is learnt of the others."""
    x, y = halves()
    changes = {"epochs": 30, "patience": 1, "n_networks": n_networks, "swag_epochs": 2}
    changes |= {"slang_epochs": 1, "warm_up_epochs": 0}
    generator = torch.Generator().manual_seed(1)
    found = train_network(config(method, **changes), x, y, (x, 1 - y), 2, generator)
    assert len(found.stops) == n_networks
    for stop in found.stops:
        assert stop.no_better
        assert len(stop.curve) < 15
        assert min(stop.curve) == stop.curve[0]
    if method == "MAP":
        wrong = torch.nn.functional.cross_entropy(found.logits(x, 1)[0], 1 - y).item()
        assert wrong == pytest.approx(stop.curve[0], rel=1e-4)


def test_vsd_without_reflections_differs_from_the_others_in_nothing_else():
    nets = {T: make_network(config(f"VSD T={T}"), 1, 28, 10) for T in (0, 1, 2)}
    assert [len(nets[T][3].noise.vectors) for T in nets] == [0, 1, 2]
    factories = {T: METHODS[f"VSD T={T}"].layers(config("VSD T=2")) for T in nets}
    assert factories[0] == replace(factories[2], n_reflections=0)
    for T in (1, 2):  # without a rotation they are one: the same KL, counted for every weight
        with torch.no_grad():
            for layer, plain in zip(nets[T], nets[0], strict=True):
                if getattr(layer, "is_random", False):
                    layer.noise.raw_log_alpha.copy_(plain.noise.raw_log_alpha)
                    layer.noise.householder.v.zero_()
                    layer.noise.householder.v[:, 0] = 1.0
        torch.testing.assert_close(nets[T].kl(), nets[0].kl(), rtol=1e-4, atol=0)
