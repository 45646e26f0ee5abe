import math
from copy import deepcopy
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from bdl_lessons.inference import adam, compression, fit, predict, sparsity, to_sparse, zero_pruned
from bdl_lessons.models import ARD, BinaryDropout, Network, SparseVD, mlp, wrap
from tests.draws import seeded
from tests.tables import refused


def with_noise(model, seed=0):
    """Log variances spread so that log_alpha lies on both sides of the threshold."""
    g = seeded(seed)
    for layer in model:
        if hasattr(layer, "log_sigma2"):
            with torch.no_grad():
                layer.weight.copy_(torch.randn(layer.weight.shape, generator=g))
                wanted = 3 + 4 * torch.randn(layer.weight.shape, generator=g)
                layer.log_sigma2.copy_(wanted + layer.weight.square().log())
    return model


def convolutions():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 5, 2, bias=False),
        nn.Flatten(),
        nn.Linear(5, 3),
    )


MODELS = {
    "mlp": lambda: (with_noise(mlp((6, 5, 3), SparseVD)), (6,)),
    "convolutions": lambda: (with_noise(wrap(convolutions(), ARD)), (1, 9, 9)),
}


@pytest.fixture(params=MODELS)
def model_and_x(request):
    model, shape = MODELS[request.param]()
    return model, torch.randn(7, *shape, generator=seeded(3))


def by_hand(model, x, threshold):
    """The mean pass with weights at or above the threshold set to 0."""
    model = deepcopy(model)
    with torch.no_grad():
        for layer in (layer for layer in model if hasattr(layer, "log_sigma2")):
            alpha = layer.log_sigma2.exp() / layer.weight.square()
            layer.weight[alpha.log() >= threshold] = 0
    return model(x, "mean")


@pytest.mark.parametrize("threshold", [-1.0, 3.0, 100.0, -100.0])
def test_sparse_zeroed_and_hand_pruned_networks_say_the_same(model_and_x, threshold):
    model, x = model_and_x
    expected = by_hand(model, x, threshold)
    torch.testing.assert_close(zero_pruned(model, threshold)(x), expected)
    torch.testing.assert_close(to_sparse(model, threshold)(x), expected)


def test_sparsity_counts_weights_at_or_above_the_threshold():
    model = mlp((2, 2, 1), SparseVD)
    with torch.no_grad():
        for layer in (model[0], model[2]):
            layer.weight.fill_(1.0)
        model[0].log_sigma2.copy_(torch.tensor([[2.9, 3.0], [3.1, -5.0]]))
        model[2].log_sigma2.fill_(4.0)
    first, last = sparsity(model)
    assert (first.name, first.n_weights, first.n_kept) == ("0", 4, 2)
    assert (last.name, last.n_kept, last.sparsity) == ("2", 0, 1.0)
    assert compression([first, last]) == 6 / 2
    assert sparsity(model, threshold=10.0)[0].sparsity == 0


def test_an_activation_that_is_used_twice_stays_twice():
    relu = nn.ReLU()
    layers = [SparseVD(nn.Linear(4, 4)) for _ in range(3)]
    model = with_noise(Network(layers[0], relu, layers[1], relu, layers[2]))
    x = torch.randn(5, 4, generator=seeded())
    for pruned in (zero_pruned(model, math.inf), to_sparse(model, math.inf)):
        assert len(pruned) == 5
        torch.testing.assert_close(pruned(x), model(x, "mean"))


@pytest.mark.parametrize("threshold", [3.0, 5.0, math.inf])
def test_weights_that_training_cut_stay_cut(threshold):
    model = with_noise(mlp((6, 5, 3), partial(SparseVD, threshold=3)))
    x = torch.randn(7, 6, generator=seeded())
    for pruned in (zero_pruned(model, threshold), to_sparse(model, threshold)):
        torch.testing.assert_close(pruned(x), model(x, "mean"))


SMALL = (6, 5, 3)
X = torch.randn(4, 6, generator=seeded())


@pytest.mark.parametrize("make", [zero_pruned, to_sparse])
def test_a_pruned_network_is_an_ordinary_module_that_gives_one_answer(make):
    pruned = make(with_noise(mlp(SMALL, SparseVD)))
    expected = pruned(X)
    again = deepcopy(pruned)
    for value in again.state_dict().values():
        value.zero_()
    again.load_state_dict(pruned.state_dict())
    torch.testing.assert_close(again(X), expected)
    draws = predict(pruned, X, 3, "shared", generator=seeded())
    torch.testing.assert_close(draws, expected.expand(3, 4, 3))
    options = {"n_steps": 1, "generator": seeded(), "optimizer": adam(0.1)}
    with pytest.raises(ValueError, match="nothing to train"):
        fit(pruned, X, torch.zeros(4).long(), cross_entropy, **options)
    with pytest.raises(RuntimeError, match="has no KL"):
        pruned.kl()


@pytest.mark.parametrize("make", [zero_pruned, to_sparse])
def test_nothing_random_is_left_and_the_original_stays_as_it_was(make):
    first = with_noise(mlp((6, 6), SparseVD))[0]
    model = Network(first, nn.BatchNorm1d(6), nn.Dropout(0.5))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    pruned = make(model)
    torch.testing.assert_close(pruned(X), pruned(X))
    assert model[1].training
    assert all(parameter.requires_grad for parameter in model.parameters())
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])  # bits: copies


BROKEN = mlp((3, 2), SparseVD)
BROKEN[0].weight.data[0, 0] = math.nan

test_what_cannot_be_pruned_is_named = refused(
    (
        lambda: to_sparse(mlp((2, 2), partial(BinaryDropout, p_drop=0.5))),
        "or ARD; got BinaryDropout",
    ),
    (lambda: sparsity(Network(nn.ReLU())), "nothing to prune"),
    (lambda: zero_pruned(mlp((2, 2), ARD), math.nan), "threshold"),
    (lambda: to_sparse(BROKEN), "NaN or an infinity"),
)
