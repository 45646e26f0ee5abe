import io

import numpy as np
import pytest
import torch
from torch import nn

from bdl_lessons.datasets import Classification
from bdl_lessons.inference import to_sparse, zero_pruned
from bdl_lessons.models import ARD, mlp
from reproductions import sparse_lenet
from reproductions.images.architectures import lenet5
from reproductions.sparse_lenet import n_hidden, remove_dead_units
from tests.draws import seeded
from tests.inference.test_prune import with_noise


def record(error, n_kept):
    """Of LeNet-300-100 under sparse VD."""
    n_weights = [235_200, 30_000, 1000]
    return {
        "config": {"network": "LeNet-300-100", "method": "sparse VD"},
        "seed": 0,
        "metrics": {
            "error": error,
            "error_unpruned": 1.75,
            "compression": sum(n_weights) / sum(n_kept),
            "bytes_pruned": 25_000,
            "bytes_dense": 1_000_000,
            "ms_dense": 10.0,
            "ms_stored": 12.0,
            "ms_shrunk": 4.0,
        },
        "arrays": {
            "n_weights": n_weights,
            "n_kept": list(n_kept),
            "n_hidden": [80, 40],
        },
    }


def test_the_errors_are_those_after_and_before_pruning(monkeypatch):
    """The weights that tell the two classes apart are pruned: then every answer is 0."""
    y = torch.arange(40) % 2
    x = y[:, None, None, None] * torch.ones(28, 28)
    few = Classification("few", x, y, x, y, ("0", "1"))
    monkeypatch.setattr("reproductions.datasets.load", lambda *_, **sizes: few)

    @torch.no_grad()
    def train(net, x, y, *rest):
        """Unit 0 of each layer hands the first pixel on; the bias of the output says 0."""
        for layer in (net[0], net[2], net[4]):
            layer.mu.zero_()
            layer.mu[0, 0] = 100.0
            layer.log_sigma2.fill_(-20.0)
        net[4].mu[:2, 0] = torch.tensor([-1000.0, 1000.0])
        net[4].bias[0] = 1.0
        net[2].log_sigma2.fill_(20.0)  # noise: all of the second layer goes
        return 1.0

    monkeypatch.setattr(sparse_lenet, "train", train)
    trial = sparse_lenet.trials("quick")[0]
    metrics = sparse_lenet.run(trial).metrics
    assert metrics["error_unpruned"] == pytest.approx(0.0)
    assert metrics["error"] == pytest.approx(50.0)


def test_the_archive_holds_kept_weights_the_gaps_between_them_and_biases():
    model = with_noise(mlp((40, 40, 2), ARD))
    with torch.no_grad():
        model[0].log_sigma2.fill_(50.0)
        model[0].log_sigma2[0, 1] = -50.0
        model[0].log_sigma2[39, 38] = -50.0
    network = to_sparse(model)
    with np.load(io.BytesIO(sparse_lenet.archive(network)), allow_pickle=False) as stored:
        assert stored["0.gaps"].tolist() == [1, 39 * 40 + 38 - 1]
        assert stored["0.gaps"].dtype == np.uint16  # the smallest that holds the larger one
        for number in (0, 2):
            layer = network[number]
            assert stored[f"{number}.values"].tolist() == layer.values.tolist()
            assert stored[f"{number}.bias"].tolist() == layer.bias.tolist()


@pytest.mark.parametrize(
    ("error", "n_kept", "holds"),
    [
        (1.92, (2352, 900, 300), 2),
        (1.93, (2352, 900, 300), 1),
        (1.5, (4000, 900, 300), 1),
        (2.5, (4000, 900, 300), 0),
    ],
)
def test_both_numbers_must_be_as_good_as_the_published_ones(error, n_kept, holds):
    (claim,) = sparse_lenet.claims([record(error, n_kept)])
    assert claim.holds == holds
    assert claim.of == 2


@pytest.mark.parametrize("cut_at", [None, 3.0])
def test_a_network_starts_small_and_trains_with_the_cut_of_its_trial(cut_at):
    config = {**sparse_lenet._PAPER, "network": "LeNet-5", "method": "ARD", "cut_at": cut_at}
    net = sparse_lenet.make_network(config, seeded())
    layers = [layer for layer in net if isinstance(layer, ARD)]
    assert {layer.threshold for layer in layers} == {cut_at}
    assert layers[1].weight.std().item() == pytest.approx(0.01, rel=0.15)


NETWORKS = {
    "mlp": (lambda: mlp((6, 30, 20, 3), ARD), (6,)),
    "tanh": (lambda: mlp((6, 30, 20, 3), ARD, nn.Tanh), (6,)),
    "lenet5": (lambda: lenet5(ARD), (1, 28, 28)),
}
"""Name -> what makes a network, and the shape of its inputs."""


def pruned_network(name, keep, generator):
    """A pruned network in float64 whose weights are kept with probability ``keep``, and inputs."""
    make_network, shape = NETWORKS[name]
    network = zero_pruned(make_network().double())
    for module in network:
        if hasattr(module, "weight"):
            is_kept = torch.rand(module.weight.shape, generator=generator) < keep
            weight = torch.randn(module.weight.shape, generator=generator)
            module.weight.copy_(weight * is_kept)
            module.bias.copy_(torch.randn(module.bias.shape, generator=generator))
    return network, torch.randn(5, *shape, generator=generator).double()


@pytest.mark.parametrize("keep", [0.0, 0.002, 0.02, 0.1, 1.0])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_function_stays_the_same(name, keep):
    for seed in range(3):
        network, x = pruned_network(name, keep, seeded(seed))
        expected = network(x)
        smaller = remove_dead_units(network)
        torch.testing.assert_close(smaller(x), expected)
        torch.testing.assert_close(network(x), expected)  # the argument is not changed
        before = n_hidden(network)
        after = n_hidden(smaller)
        assert all(few <= many for few, many in zip(after, before, strict=True))
        if keep == 0:
            assert after == [1] * len(before)
        if keep == 1:
            assert after == before


def test_what_goes_is_counted_by_hand():
    """Unit 0 is used, 1 is constant, 2 is read by nobody, 3 only by a unit that nobody reads.

    The last unit of the second layer reads only what is constant, and so is constant too.
    """
    network = zero_pruned(mlp((2, 4, 3, 1), ARD))
    first, _, second, _, third = network
    first.weight.copy_(torch.tensor([[1.0, 0], [0, 0], [1, 1], [0, 1]]))
    first.bias.copy_(torch.tensor([0.0, 2, 3, 4]))
    second.weight.copy_(torch.tensor([[1.0, 10, 0, 0], [0, 0, 0, 1], [0, 3, 0, 0]]))
    second.bias.copy_(torch.tensor([0.5, 0, 1]))
    third.weight.copy_(torch.tensor([[1.0, 0, 2]]))
    third.bias.copy_(torch.tensor([0.25]))
    smaller = remove_dead_units(network)
    assert n_hidden(smaller) == [1, 1]
    torch.testing.assert_close(smaller[2].weight, torch.tensor([[1.0]]))
    torch.testing.assert_close(smaller[2].bias, torch.tensor([20.5]))  # 0.5 + 10 * relu(2)
    torch.testing.assert_close(smaller[4].bias, torch.tensor([14.25]))  # 0.25 + 2 * relu(3 * 2 + 1)
