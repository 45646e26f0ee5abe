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
from tests.inference.test_prune import with_noise


def record(network="LeNet-300-100", method="sparse VD", error=1.5, n_kept=(2352, 900, 300), **cut):
    n_weights = [235_200, 30_000, 1000]
    metrics = {"error": error, "error_unpruned": 1.75, "compression": sum(n_weights) / sum(n_kept)}
    metrics |= {"bytes_pruned": 25_000, "bytes_dense": 1_000_000}
    arrays = {"n_weights": n_weights, "n_kept": list(n_kept), "n_hidden": [80, 40]}
    metrics |= {"ms_dense": 10.0, "ms_stored": 12.0, "ms_shrunk": 4.0}
    config = {"network": network, "method": method, **cut}
    return {"config": config, "seed": 0, "metrics": metrics, "arrays": arrays}


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
    metrics = sparse_lenet.run(sparse_lenet.trials("quick")[0]).metrics
    assert (metrics["error_unpruned"], metrics["error"]) == pytest.approx((0.0, 50.0))


def test_the_archive_holds_kept_weights_the_gaps_between_them_and_biases():
    model = with_noise(mlp((40, 40, 2), ARD))
    with torch.no_grad():
        model[0].log_sigma2.fill_(50.0)
        model[0].log_sigma2[0, 1] = model[0].log_sigma2[39, 38] = -50.0
    network = to_sparse(model)
    with np.load(io.BytesIO(sparse_lenet.archive(network)), allow_pickle=False) as stored:
        assert stored["0.gaps"].tolist() == [1, 39 * 40 + 38 - 1]
        assert stored["0.gaps"].dtype == np.uint16  # the smallest that holds the larger one
        for number in (0, 2):
            for name in ("values", "bias"):
                kept = getattr(network[number], name)
                assert stored[f"{number}.{name}"].tolist() == kept.tolist()


def test_both_numbers_must_be_as_good_as_the_published_ones():
    for error, n_kept, holds in (
        (1.92, (2352, 900, 300), 2),
        (1.93, (2352, 900, 300), 1),
        (1.5, (4000, 900, 300), 1),
        (2.5, (4000, 900, 300), 0),
    ):
        (claim,) = sparse_lenet.claims([record(error=error, n_kept=n_kept)])
        assert (claim.holds, claim.of) == (holds, 2)


@pytest.mark.parametrize("cut_at", [None, 3.0])
def test_a_network_starts_small_and_trains_with_the_cut_of_its_trial(cut_at):
    config = {**sparse_lenet._PAPER, "network": "LeNet-5", "method": "ARD", "cut_at": cut_at}
    net = sparse_lenet.make_network(config, torch.Generator().manual_seed(0))
    layers = [layer for layer in net if isinstance(layer, ARD)]
    assert {layer.threshold for layer in layers} == {cut_at}
    assert layers[1].weight.std().item() == pytest.approx(0.01, rel=0.15)


SHAPES = {"mlp": (6,), "tanh": (6,), "lenet5": (1, 28, 28)}


def make(kind, keep, seed=0):
    """A pruned network in float64 whose weights are kept with probability ``keep``."""
    g = torch.Generator().manual_seed(seed)
    model = {
        "mlp": lambda: mlp((6, 30, 20, 3), ARD),
        "tanh": lambda: mlp((6, 30, 20, 3), ARD, nn.Tanh),
        "lenet5": lambda: lenet5(ARD),
    }[kind]()
    network = zero_pruned(model.double())
    for module in network:
        if hasattr(module, "weight"):
            mask = torch.rand(module.weight.shape, generator=g) < keep
            module.weight.copy_(torch.randn(module.weight.shape, generator=g) * mask)
            module.bias.copy_(torch.randn(module.bias.shape, generator=g))
    return network, torch.randn(5, *SHAPES[kind], generator=g).double()


@pytest.mark.parametrize("keep", [0.0, 0.002, 0.02, 0.1, 1.0])
@pytest.mark.parametrize("kind", SHAPES)
def test_the_function_stays_the_same(kind, keep):
    for seed in range(3):
        network, x = make(kind, keep, seed)
        expected = network(x)
        smaller = remove_dead_units(network)
        torch.testing.assert_close(smaller(x), expected)
        torch.testing.assert_close(network(x), expected)  # the argument is not changed
        before = n_hidden(network)
        after = n_hidden(smaller)
        assert all(a <= b for a, b in zip(after, before, strict=True))
        assert after == {0.0: [1] * len(before), 1.0: before}.get(keep, after)


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
